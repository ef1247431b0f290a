//! Tenants, and the API keys by which they are known.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use uuid::Uuid;

use crate::id::{InvalidId, Tenant, prefixed};
use crate::rate::Rate;
use crate::state::UnknownName;
use crate::store::StoreError;
use crate::tenant::{KeyHash, TenantLimits};
use crate::time::Micros;

/// Names an API key without being it: a UUID v7, shown as `key_` and 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKeyId(pub Uuid);

impl ApiKeyId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "key_";

    /// Makes a new id.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for ApiKeyId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for ApiKeyId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        prefixed(text, Self::PREFIX, "a key id (key_ and 32 hex digits)").map(Self)
    }
}

/// What an API key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Looking at videos and fetching them.
    Read,
    /// Making, cancelling and deleting them.
    Write,
    /// Looking at webhook endpoints and changing them.
    Webhooks,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Webhooks];

    /// Returns the name in stores, on command lines and in errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "videos:read",
            Self::Write => "videos:write",
            Self::Webhooks => "webhooks",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| UnknownName {
            kind: "scope",
            text: text.to_owned(),
            expected: "videos:read, videos:write, webhooks",
        })
    }
}

/// An API key as a store keeps it: everything but the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: ApiKeyId,
    /// Whom it stands for.
    pub tenant: Tenant,
    /// What the operator calls it.
    pub name: String,
    /// Its last characters, by which people tell keys apart.
    pub hint: String,
    /// What it is good for.
    pub scopes: BTreeSet<Scope>,
    /// How often it may ask for a video; none for as often as the service lets everybody.
    pub rate: Option<Rate>,
    /// When it was made; set by the store.
    pub created_at: Micros,
    /// Since when it is good for nothing.
    pub revoked_at: Option<Micros>,
}

impl ApiKey {
    /// Makes a key of a tenant that is good for everything.
    pub fn new(tenant: Tenant, name: impl Into<String>) -> Self {
        Self {
            id: ApiKeyId::new(),
            tenant,
            name: name.into(),
            hint: String::new(),
            scopes: Scope::ALL.into(),
            rate: None,
            created_at: Micros(0),
            revoked_at: None,
        }
    }
}

/// What an API key grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The key.
    pub key: ApiKeyId,
    /// Whom it stands for.
    pub tenant: Tenant,
    /// What it is good for.
    pub scopes: BTreeSet<Scope>,
    /// How often it may ask for a video; none for as often as the service lets everybody.
    pub rate: Option<Rate>,
}

/// Keeps tenants and API keys.
///
/// Each verb is one transaction, as those of [`Store`](crate::Store) are.
#[async_trait]
pub trait Keyring: Send + Sync {
    /// Sets what a tenant may have.
    async fn set_tenant(&self, tenant: &Tenant, limits: &TenantLimits) -> Result<(), StoreError>;

    /// Returns what each tenant may have about whom something was said, by name.
    async fn tenants(&self) -> Result<Vec<(Tenant, TenantLimits)>, StoreError>;

    /// Lets an API key stand for a tenant.
    ///
    /// Errors: [`StoreError::DuplicateKey`] when there is one of that id or hash, revoked ones included.
    async fn add_key(&self, hash: &KeyHash, key: &ApiKey) -> Result<(), StoreError>;

    /// Returns the API keys, of one tenant or of all, in the order in which they were made.
    async fn keys(&self, tenant: Option<&Tenant>) -> Result<Vec<ApiKey>, StoreError>;

    /// Takes from an API key what it is good for, and returns it as it is then; none when there is none. One that is revoked
    /// already stays as it is.
    async fn revoke_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError>;

    /// Returns what an API key grants; none for one that is not known or is revoked.
    async fn grant_of(&self, hash: &KeyHash) -> Result<Option<Grant>, StoreError>;
}
