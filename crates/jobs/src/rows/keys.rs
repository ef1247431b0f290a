//! API keys.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{names, number, parse};
use crate::keyring::{ApiKey, ApiKeyId, Grant, Scope};
use crate::rate::Rate;
use crate::store::StoreError;
use crate::time::Micros;

/// One row of `api_keys`, column by column but for the hash.
#[derive(Debug)]
#[expect(missing_docs, reason = "each column is described by the field of ApiKey that it becomes")]
pub struct KeyRow {
    pub id: Uuid,
    pub tenant: String,
    pub name: String,
    pub hint: String,
    /// A list of names in JSON.
    pub scopes: String,
    pub requests_per_minute: Option<i64>,
    pub created_at: i64,
    pub revoked_at: Option<i64>,
}

impl TryFrom<KeyRow> for ApiKey {
    type Error = StoreError;

    fn try_from(row: KeyRow) -> Result<Self, StoreError> {
        let rate = row.requests_per_minute.map(|requests| number("requests_per_minute", requests)).transpose()?;
        Ok(Self {
            id: ApiKeyId(row.id),
            tenant: parse("tenant", &row.tenant)?,
            name: row.name,
            hint: row.hint,
            scopes: BTreeSet::from_iter(names::<Scope>("scopes", &row.scopes)?),
            rate: rate.map(|per_minute| Rate { per_minute }),
            created_at: Micros(row.created_at),
            revoked_at: row.revoked_at.map(Micros),
        })
    }
}

impl TryFrom<KeyRow> for Grant {
    type Error = StoreError;

    fn try_from(row: KeyRow) -> Result<Self, StoreError> {
        let key = ApiKey::try_from(row)?;
        Ok(Self { key: key.id, tenant: key.tenant, scopes: key.scopes, rate: key.rate })
    }
}
