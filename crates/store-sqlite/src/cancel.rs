//! What a client may do to its job: cancel and delete it.

use clapboard_jobs::{Job, JobError, JobEvent, JobId, JobState, StoreError, Tenant};

use crate::error::{unavailable, unreadable};
use crate::read;
use crate::store::SqliteStore;

pub(crate) async fn cancel(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    let doing = "cancelling a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (uuid, tenant) = (id.as_uuid(), tenant.as_str());
    let error = JobError::cancelled();
    let (state, code) = (JobState::Queued.on(JobEvent::Cancel).map_err(unreadable("state"))?, error.code.as_str());
    let state = state.as_str();
    sqlx::query!(
        r#"
        update jobs
        set state = ?1, finished_at = ?2, cancel_requested_at = ?2, error_code = ?3, error_message = ?4
        where id = ?5 and tenant = ?6 and state = 'queued'
        "#,
        state,
        now,
        code,
        error.message,
        uuid,
        tenant
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!(
        r#"
        update jobs set cancel_requested_at = coalesce(cancel_requested_at, ?)
        where id = ? and tenant = ? and state = 'running'
        "#,
        now,
        uuid,
        tenant
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let found =
        sqlx::query_scalar!(r#"select count(*) as "found!: i64" from jobs where id = ? and tenant = ?"#, uuid, tenant)
            .fetch_one(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    let job = if found == 0 { None } else { Some(read::load(&mut tx, id, doing).await?) };
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(job)
}

pub(crate) async fn delete(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
    let doing = "deleting a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (id, tenant) = (id.as_uuid(), tenant.as_str());
    let row =
        sqlx::query!("select state, created_at, lease_expires_at from jobs where id = ? and tenant = ?", id, tenant)
            .fetch_optional(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let state: JobState = row.state.parse().map_err(unreadable("state"))?;
    // A worker that still runs it stops at the latest when its lease would have ended.
    let collect_after = row.lease_expires_at.unwrap_or(now).max(now);
    sqlx::query!(
        "update objects set standing = 'garbage', collect_after = ? where job_id = ? and standing <> 'garbage'",
        collect_after,
        id
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!(
        "insert into deleted_jobs (id, tenant, created_at, deleted_at) values (?, ?, ?, ?)",
        id,
        tenant,
        row.created_at,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!("delete from jobs where id = ? and tenant = ?", id, tenant)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(state))
}
