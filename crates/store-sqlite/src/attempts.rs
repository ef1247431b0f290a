//! The history of a job.

use clapboard_jobs::{Attempt, AttemptEnd, JobError, JobId, StoreError, Tenant};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::held::Held;
use crate::rows::AttemptRow;
use crate::store::SqliteStore;
use crate::usage;

pub(crate) async fn read(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
    let (id, tenant) = (id.as_uuid(), tenant.as_str());
    let rows = sqlx::query_as!(
        AttemptRow,
        r#"
        select
            a.fence, a.number, a.worker as "worker: Uuid", a.claimed_at, a.begun_at, a.ended_at, a.ending,
            a.error_code, a.error_message
        from job_attempts a
        join jobs j on j.id = a.job_id
        where a.job_id = ? and j.tenant = ?
        order by a.fence
        "#,
        id,
        tenant
    )
    .fetch_all(store.readers())
    .await
    .map_err(unavailable("reading the attempts of a job"))?;
    rows.into_iter().map(Attempt::try_from).collect()
}

/// Writes down how a claim ended, and what it has used of a worker's time.
pub(crate) async fn close(
    tx: &mut SqliteConnection,
    held: &Held,
    now: i64,
    ending: AttemptEnd,
    error: Option<&JobError>,
    doing: &'static str,
) -> Result<(), StoreError> {
    let (id, fence, _) = held.condition();
    usage::add_time(tx, id, now, doing).await?;
    let ending = ending.as_str();
    let (code, message) = (error.map(|error| error.code.as_str()), error.map(|error| error.message.as_str()));
    sqlx::query!(
        r#"
        update job_attempts
        set ended_at = ?1, ending = ?2, error_code = ?3, error_message = ?4,
            begun_at = iif(?2 = 'completed', coalesce(begun_at, ?1), begun_at)
        where job_id = ?5 and fence = ?6
        "#,
        now,
        ending,
        code,
        message,
        id,
        fence
    )
    .execute(tx)
    .await
    .map_err(unavailable(doing))?;
    Ok(())
}
