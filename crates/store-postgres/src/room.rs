//! Whether a tenant's queue takes one more job.

use clapboard_jobs::{StoreError, Tenant};
use sqlx::PgConnection;

use crate::error::unavailable;
use crate::store::PostgresStore;

/// Refuses a tenant that has as many jobs waiting as it may. It waits for no lock, so that creates under way count once
/// they are over.
pub(crate) async fn check(store: &PostgresStore, tenant: &Tenant) -> Result<(), StoreError> {
    let doing = "looking for room in a queue";
    let mut connection = store.pool().acquire().await.map_err(unavailable(doing))?;
    let most = sqlx::query_scalar!("select max_queued from tenants where tenant = $1", tenant.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(unavailable(doing))?
        .flatten();
    require(&mut connection, tenant, most, doing).await
}

/// Locks the tenant's row, so that no other create of the tenant is counted too late, and refuses it as [`check`] does.
pub(crate) async fn require_locked(
    tx: &mut PgConnection,
    tenant: &Tenant,
    doing: &'static str,
) -> Result<(), StoreError> {
    let most = sqlx::query_scalar!("select max_queued from tenants where tenant = $1 for update", tenant.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(doing))?
        .flatten();
    require(tx, tenant, most, doing).await
}

/// Counts the tenant's waiting jobs, no further than to the cap.
async fn require(
    connection: &mut PgConnection,
    tenant: &Tenant,
    most: Option<i64>,
    doing: &'static str,
) -> Result<(), StoreError> {
    let Some(most) = most else {
        return Ok(());
    };
    let waiting = sqlx::query_scalar!(
        r#"
        select count(*) as "waiting!" from (
            select from jobs
            -- Claimed ones that have not begun have the same status; they are few.
            where tenant collate "POSIX" = $1 and job_status(state, begun_at is not null) = 'queued'
                and lease_expires_at is null
            limit $2
        ) counted
        "#,
        tenant.as_str(),
        most
    )
    .fetch_one(connection)
    .await
    .map_err(unavailable(doing))?;
    if waiting >= most {
        let limit = u32::try_from(most).unwrap_or(u32::MAX);
        return Err(StoreError::QueueFull { tenant: tenant.clone(), limit });
    }
    Ok(())
}
