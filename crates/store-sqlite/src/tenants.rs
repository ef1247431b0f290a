//! What tenants may have.

use clapboard_jobs::{StoreError, Tenant, TenantLimits, Weight};

use crate::error::{unavailable, unreadable};
use crate::rows::{number, parse};
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

pub(crate) async fn list(store: &SqliteStore) -> Result<Vec<(Tenant, TenantLimits)>, StoreError> {
    let rows = sqlx::query!("select tenant, weight, max_running, max_queued from tenants order by tenant")
        .fetch_all(store.readers())
        .await
        .map_err(unavailable("reading what tenants may have"))?;
    rows.into_iter()
        .map(|row| {
            let limits = TenantLimits {
                weight: Weight::new(row.weight).map_err(unreadable("weight"))?,
                max_running: row.max_running.map(|most| number("max_running", most)).transpose()?,
                max_queued: row.max_queued.map(|most| number("max_queued", most)).transpose()?,
            };
            Ok((parse("tenant", &row.tenant)?, limits))
        })
        .collect()
}
