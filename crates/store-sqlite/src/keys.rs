//! API keys, of which only the hashes are kept.

use clapboard_jobs::{ApiKey, ApiKeyId, Grant, KeyHash, Scope, StoreError, Tenant};

use crate::error::{unavailable, unreadable};
use crate::rows::KeyRow;
use crate::store::SqliteStore;

/// `select_key!("where …", arguments…)`: a checked statement that reads keys.
macro_rules! select_key {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            KeyRow,
            r#"
            select
                id as "id: uuid::Uuid", tenant, name, hint, scopes, requests_per_minute, created_at, revoked_at
            from api_keys
            "# + $tail
            $(, $argument)*
        )
    };
}

pub(crate) async fn add(store: &SqliteStore, hash: &KeyHash, key: &ApiKey) -> Result<(), StoreError> {
    let doing = "adding an API key";
    let mut tx = store.begin(doing).await?;
    let (id, hash, tenant) = (key.id.0, hash.0.as_slice(), key.tenant.as_str());
    let scopes: Vec<&str> = key.scopes.iter().map(|scope: &Scope| scope.as_str()).collect();
    let scopes = serde_json::to_string(&scopes).map_err(unreadable("scopes"))?;
    let (requests, now) = (key.rate.map(|rate| i64::from(rate.per_minute)), store.now().0);
    let added = sqlx::query!(
        r#"
        insert into api_keys (id, hash, tenant, name, hint, scopes, requests_per_minute, created_at)
        values (?, ?, ?, ?, ?, ?, ?, ?)
        on conflict do nothing
        "#,
        id,
        hash,
        tenant,
        key.name,
        key.hint,
        scopes,
        requests,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    if added.rows_affected() == 0 {
        return Err(StoreError::DuplicateKey { id: key.id });
    }
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn list(store: &SqliteStore, tenant: Option<&Tenant>) -> Result<Vec<ApiKey>, StoreError> {
    let tenant = tenant.map(Tenant::as_str);
    let rows = select_key!("where ?1 is null or tenant = ?1 order by created_at, id", tenant)
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("listing API keys"))?;
    rows.into_iter().map(ApiKey::try_from).collect()
}

pub(crate) async fn revoke(store: &SqliteStore, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
    let doing = "revoking an API key";
    let mut tx = store.begin(doing).await?;
    let (id, now) = (id.0, store.now().0);
    sqlx::query!("update api_keys set revoked_at = ? where id = ? and revoked_at is null", now, id)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let row = select_key!("where id = ?", id).fetch_optional(&mut *tx).await.map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    row.map(ApiKey::try_from).transpose()
}

pub(crate) async fn grant_of(store: &SqliteStore, hash: &KeyHash) -> Result<Option<Grant>, StoreError> {
    let hash = hash.0.as_slice();
    let row = select_key!("where hash = ? and revoked_at is null", hash)
        .fetch_optional(store.readers())
        .await
        .map_err(unavailable("looking for an API key"))?;
    row.map(Grant::try_from).transpose()
}
