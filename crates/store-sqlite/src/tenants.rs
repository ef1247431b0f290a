//! What tenants may have, and the keys by which they are known.

use clapboard_jobs::{KeyHash, StoreError, Tenant, TenantLimits};

use crate::error::unavailable;
use crate::rows;
use crate::store::SqliteStore;

pub(crate) async fn set(store: &SqliteStore, tenant: &Tenant, limits: &TenantLimits) -> Result<(), StoreError> {
    let doing = "setting what a tenant may have";
    let mut tx = store.begin(doing).await?;
    let tenant = tenant.as_str();
    let weight = limits.weight.get();
    let (running, queued) = (limits.max_running.map(i64::from), limits.max_queued.map(i64::from));
    sqlx::query!(
        r#"
        insert into tenants (tenant, weight, max_running, max_queued) values (?, ?, ?, ?)
        on conflict (tenant) do update
        set weight = excluded.weight, max_running = excluded.max_running, max_queued = excluded.max_queued
        "#,
        tenant,
        weight,
        running,
        queued
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn add_key(store: &SqliteStore, key: &KeyHash, tenant: &Tenant) -> Result<(), StoreError> {
    let doing = "adding an API key";
    let mut tx = store.begin(doing).await?;
    let (hash, tenant) = (key.0.as_slice(), tenant.as_str());
    sqlx::query!(
        "insert into api_keys (hash, tenant) values (?, ?) on conflict (hash) do update set tenant = excluded.tenant",
        hash,
        tenant
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn of_key(store: &SqliteStore, key: &KeyHash) -> Result<Option<Tenant>, StoreError> {
    let hash = key.0.as_slice();
    let found = sqlx::query_scalar!("select tenant from api_keys where hash = ?", hash)
        .fetch_optional(store.readers())
        .await
        .map_err(unavailable("looking for an API key"))?;
    found.map(|name| rows::parse("tenant", &name)).transpose()
}
