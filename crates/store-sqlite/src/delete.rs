//! Deleting jobs, of which something is left.

use clapboard_jobs::{JobId, JobState, StoreError, Tenant};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::store::SqliteStore;
use crate::{objects, usage};

pub(crate) async fn delete(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
    let doing = "deleting a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (id, tenant) = (id.as_uuid(), tenant.as_str());
    let state = sqlx::query_scalar!("select state from jobs where id = ? and tenant = ?", id, tenant)
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let Some(state) = state else {
        return Ok(None);
    };
    let state: JobState = state.parse().map_err(unreadable("state"))?;
    remove(&mut tx, id, now, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(state))
}

/// Deletes a job that is there, whatever its state.
pub(crate) async fn remove(
    tx: &mut SqliteConnection,
    id: Uuid,
    now: i64,
    doing: &'static str,
) -> Result<(), StoreError> {
    usage::add_time(tx, id, now, doing).await?;
    // A worker that still runs it stops at the latest when its lease would have ended.
    let collect_after = sqlx::query_scalar!(
        r#"select max(coalesce(lease_expires_at, ?1), ?1) as "collect_after!: i64" from jobs where id = ?2"#,
        now,
        id
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    objects::discard_all(tx, id, collect_after, doing).await?;
    sqlx::query!(
        r#"
        insert into deleted_jobs (id, tenant, created_at, deleted_at)
        select id, tenant, created_at, ? from jobs where id = ?
        "#,
        now,
        id
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!("delete from jobs where id = ?", id).execute(&mut *tx).await.map_err(unavailable(doing))?;
    Ok(())
}
