//! Whether a tenant's queue takes one more job.

use clapboard_jobs::{StoreError, Tenant};
use sqlx::SqliteConnection;

use crate::error::unavailable;
use crate::store::SqliteStore;

/// Refuses a tenant that has as many jobs waiting as it may.
pub(crate) async fn check(store: &SqliteStore, tenant: &Tenant) -> Result<(), StoreError> {
    let doing = "looking for room in a queue";
    let mut connection = store.readers().acquire().await.map_err(unavailable(doing))?;
    let name = tenant.as_str();
    let limit = sqlx::query_scalar!(r#"select max_queued as "max_queued: u32" from tenants where tenant = ?"#, name)
        .fetch_optional(&mut *connection)
        .await
        .map_err(unavailable(doing))?
        .flatten();
    match limit {
        Some(limit) => require(&mut connection, tenant, limit, doing).await,
        None => Ok(()),
    }
}

/// Counts a tenant's waiting jobs, no further than to `limit`, and refuses it when there are so many.
pub(crate) async fn require(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    limit: u32,
    doing: &'static str,
) -> Result<(), StoreError> {
    let (name, most) = (tenant.as_str(), i64::from(limit));
    let queued = sqlx::query_scalar!(
        r#"
        select count(*) as "queued!: i64"
        from (select 1 from jobs indexed by jobs_queued where state = 'queued' and tenant = ? limit ?)
        "#,
        name,
        most
    )
    .fetch_one(connection)
    .await
    .map_err(unavailable(doing))?;
    if queued >= most { Err(StoreError::QueueFull { tenant: tenant.clone(), limit }) } else { Ok(()) }
}
