//! Where a tenant wants to hear of its jobs.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::{Notice, Secret};
use crate::id::{InvalidId, Tenant};
use crate::time::Micros;

/// Names an endpoint: a UUID v7, shown as `we_` and 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub Uuid);

impl EndpointId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "we_";

    /// Makes a new id.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for EndpointId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for EndpointId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        crate::id::prefixed(text, Self::PREFIX, "an endpoint id (we_ and 32 hex digits)").map(Self)
    }
}

/// Where a tenant wants to hear of its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What its tenant calls it.
    pub name: String,
    /// Where to send to.
    pub url: String,
    /// What it hears of, each once.
    pub notices: Vec<Notice>,
    /// What signs.
    pub secret: Secret,
    /// What signs beside it, and until when.
    pub old_secret: Option<(Secret, Micros)>,
    /// When it was made; set by the store.
    pub created_at: Micros,
    /// When its tenant last changed what it is or what signs; set by the store.
    pub updated_at: Micros,
    /// Since when nothing is sent to it, and why.
    pub disabled: Option<(Micros, String)>,
}

impl Endpoint {
    /// Makes an endpoint that hears of everything.
    pub fn new(tenant: Tenant, url: impl Into<String>) -> Self {
        Self {
            id: EndpointId::new(),
            tenant,
            name: String::new(),
            url: url.into(),
            notices: Notice::ALL.to_vec(),
            secret: Secret::random(),
            old_secret: None,
            created_at: Micros(0),
            updated_at: Micros(0),
            disabled: None,
        }
    }
}

/// What to change of an endpoint; what is none stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointChange {
    /// What its tenant calls it.
    pub name: Option<String>,
    /// Where to send to.
    pub url: Option<String>,
    /// What it hears of.
    pub notices: Option<Vec<Notice>>,
    /// Whether anything is sent to it.
    pub enabled: Option<bool>,
}

/// Where the client of one job wants to hear of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHook {
    /// Where to send to.
    pub url: String,
    /// What is told, each once.
    pub notices: Vec<Notice>,
}
