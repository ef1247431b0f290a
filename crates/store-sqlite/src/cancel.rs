//! What people may do to a job that has to go another way: cancel it, or let it run again.

use clapboard_jobs::{Cancelled, Job, JobError, JobEvent, JobId, JobState, StoreError, Tenant};
use sqlx::SqliteConnection;

use crate::error::{unavailable, unreadable};
use crate::rows::parse;
use crate::store::SqliteStore;
use crate::{closing, read};

pub(crate) async fn cancel(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<Cancelled>, StoreError> {
    let doing = "cancelling a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (uuid, tenant) = (id.as_uuid(), tenant.as_str());
    let Some(state) = sqlx::query_scalar!("select state from jobs where id = ? and tenant = ?", uuid, tenant)
        .fetch_optional(&mut *tx)
        .await
        .map_err(unavailable(doing))?
    else {
        return Ok(None);
    };
    let state = parse("state", &state)?;
    match state {
        JobState::Queued => {
            closing::end_waiting(&mut tx, uuid, now, &JobError::cancelled(), Some(now), doing).await?;
        }
        JobState::Running => {
            sqlx::query!(
                "update jobs set cancel_requested_at = ? where id = ? and cancel_requested_at is null",
                now,
                uuid
            )
            .execute(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
        }
        JobState::Completed | JobState::Failed | JobState::Cancelled => {}
    }
    let job = read::load(&mut tx, id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(Cancelled { job, has_ended_it: state == JobState::Queued }))
}

pub(crate) async fn retry(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    let doing = "letting a failed job run again";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (uuid, tenant) = (id.as_uuid(), tenant.as_str());
    let state = JobState::Failed.on(JobEvent::Retry).map_err(unreadable("state"))?.as_str();
    sqlx::query!(
        r#"
        update jobs
        set state = ?, run_at = ?, attempt = 0, spared = 0, start_by = null, begun_at = null, finished_at = null,
            error_code = null, error_message = null, phase = 'prepare', step = 0, total_steps = 0, percent = 0
        where id = ? and tenant = ? and state = 'failed'
        "#,
        state,
        now,
        uuid,
        tenant
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let job = find(&mut tx, id, tenant, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(job)
}

async fn find(
    tx: &mut SqliteConnection,
    id: JobId,
    tenant: &str,
    doing: &'static str,
) -> Result<Option<Job>, StoreError> {
    let uuid = id.as_uuid();
    let found =
        sqlx::query_scalar!(r#"select count(*) as "found!: i64" from jobs where id = ? and tenant = ?"#, uuid, tenant)
            .fetch_one(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
    if found == 0 { Ok(None) } else { Ok(Some(read::load(tx, id, doing).await?)) }
}
