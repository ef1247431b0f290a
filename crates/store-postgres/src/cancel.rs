//! What a client may do to a job that lives, and an operator to one that failed.

use clapboard_jobs::{Cancelled, Job, JobError, JobEvent, JobId, JobState, StoreError, Tenant};

use crate::closing::end_waiting;
use crate::error::{unavailable, unreadable};
use crate::read;
use crate::rows::parse;
use crate::store::PostgresStore;

pub(crate) async fn cancel(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Option<Cancelled>, StoreError> {
    let doing = "cancelling a job";
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    // Locked first: a job that is given back between two looks must not slip through both.
    let found = sqlx::query!(
        r#"select state, now_micros() as "now!" from jobs where id = $1 and tenant = $2 for update"#,
        id.as_uuid(),
        tenant.as_str()
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(found) = found else {
        return Ok(None);
    };
    let state = parse("state", &found.state)?;
    match state {
        JobState::Queued => {
            end_waiting(&mut tx, &[id.as_uuid()], &JobError::cancelled(), Some(found.now), doing).await?;
        }
        JobState::Running => {
            sqlx::query!(
                "update jobs set cancel_requested_at = $2 where id = $1 and cancel_requested_at is null",
                id.as_uuid(),
                found.now
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

pub(crate) async fn retry(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    let doing = "retrying a job";
    let state = JobState::Failed.on(JobEvent::Retry).map_err(unreadable("state"))?;
    let mut tx = store.pool().begin().await.map_err(unavailable(doing))?;
    sqlx::query!(
        r#"
        update jobs
        set state = $3, attempt = 0, spared = 0, run_at = now_micros(), start_by = null, begun_at = null, finished_at = null,
            phase = 'prepare', step = 0, total_steps = 0, percent = 0, error_code = null, error_message = null
        where id = $1 and tenant = $2 and state = 'failed'
        "#,
        id.as_uuid(),
        tenant.as_str(),
        state.as_str()
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let job = read::find(&mut *tx, tenant, id, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(job)
}
