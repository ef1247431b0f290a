//! Reading jobs.

use clapboard_jobs::store::FARTHEST_PLACE;
use clapboard_jobs::{Job, JobId, JobState, StoreError, Tenant};
use sqlx::SqliteConnection;

use crate::error::unavailable;
use crate::rows::select_job;
use crate::store::SqliteStore;

/// Reads a job that this transaction knows to be there.
pub(crate) async fn load(tx: &mut SqliteConnection, id: JobId, doing: &'static str) -> Result<Job, StoreError> {
    let id = id.as_uuid();
    select_job!("where id = ?", id).fetch_one(tx).await.map_err(unavailable(doing))?.try_into()
}

pub(crate) async fn get(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    let (id, tenant) = (id.as_uuid(), tenant.as_str());
    let row = select_job!("where id = ? and tenant = ?", id, tenant)
        .fetch_optional(store.readers())
        .await
        .map_err(unavailable("reading a job"))?;
    row.map(Job::try_from).transpose()
}

/// Reads a job of whatever tenant.
pub(crate) async fn find(store: &SqliteStore, id: JobId) -> Result<Option<Job>, StoreError> {
    let id = id.as_uuid();
    let row = select_job!("where id = ?", id)
        .fetch_optional(store.readers())
        .await
        .map_err(unavailable("looking for a job"))?;
    row.map(Job::try_from).transpose()
}

pub(crate) async fn queue_position(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError> {
    let Some(job) = get(store, tenant, id).await? else {
        return Ok(None);
    };
    match job.state {
        JobState::Queued => {}
        JobState::Running if job.begun_at.is_none() => return Ok(Some(0)),
        _ => return Ok(None),
    }
    let (id, partition) = (id.as_uuid(), job.partition.as_str());
    let capacity = i64::from(job.queue().capacity().number());
    let ahead = sqlx::query_scalar!(
        r#"
        select count(*) as "ahead!: i64" from (
            select 1 from jobs
            where state = 'queued' and partition = ? and capacity = ? and (rank, id) < (?, ?)
            limit 1000
        )
        "#,
        partition,
        capacity,
        job.rank,
        id
    )
    .fetch_one(store.readers())
    .await
    .map_err(unavailable("counting the jobs ahead"))?;
    let place = ahead.unsigned_abs() + 1;
    Ok((place <= FARTHEST_PLACE).then_some(place))
}
