//! API keys, of which only the hashes are kept.

use clapboard_jobs::{ApiKey, ApiKeyId, Grant, KeyHash, StoreError, Tenant};

use crate::error::unavailable;
use crate::rows::{KeyRow, text};
use crate::store::PostgresStore;

/// `key_rows!("with …", "from …", arguments…)`: a checked statement that reads keys.
macro_rules! key_rows {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            KeyRow,
            $head +
            r#"
            select
                id as "id!", tenant as "tenant!", name as "name!", hint as "hint!", to_json(scopes)::text as "scopes!",
                requests_per_minute as "requests_per_minute?", created_at as "created_at!", revoked_at as "revoked_at?"
            "#
            + $tail
            $(, $argument)*
        )
    };
}

pub(crate) async fn add(store: &PostgresStore, hash: &KeyHash, key: &ApiKey) -> Result<(), StoreError> {
    let scopes: Vec<String> = key.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    let added = sqlx::query!(
        r#"
        insert into api_keys (id, hash, tenant, name, hint, scopes, requests_per_minute, created_at)
        values ($1, $2, $3, $4, $5, $6, $7, now_micros())
        on conflict do nothing
        "#,
        key.id.0,
        hash.0.as_slice(),
        key.tenant.as_str(),
        text(&key.name),
        text(&key.hint),
        &scopes,
        key.rate.map(|rate| i64::from(rate.per_minute))
    )
    .execute(store.pool())
    .await
    .map_err(unavailable("adding an API key"))?;
    if added.rows_affected() == 0 { Err(StoreError::DuplicateKey { id: key.id }) } else { Ok(()) }
}

pub(crate) async fn list(store: &PostgresStore, tenant: Option<&Tenant>) -> Result<Vec<ApiKey>, StoreError> {
    let rows = key_rows!(
        "",
        "from api_keys where $1::text is null or tenant = $1 order by created_at, id",
        tenant.map(Tenant::as_str)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("listing API keys"))?;
    rows.into_iter().map(ApiKey::try_from).collect()
}

pub(crate) async fn revoke(store: &PostgresStore, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    let row = key_rows!(
        r#"
        with revoked as (
            update api_keys set revoked_at = coalesce(revoked_at, now_micros()) where id = $1 returning *
        )
        "#,
        "from revoked",
        id.0
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("revoking an API key"))?;
    row.map(ApiKey::try_from).transpose()
}

pub(crate) async fn grant_of(store: &PostgresStore, hash: &KeyHash) -> Result<Option<Grant>, StoreError> {
    let row = key_rows!("", "from api_keys where hash = $1 and revoked_at is null", hash.0.as_slice())
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("looking up an API key"))?;
    row.map(Grant::try_from).transpose()
}
