//! Reading jobs.

use clapboard_jobs::store::FARTHEST_PLACE;
use clapboard_jobs::{Job, JobId, JobPage, JobState, ListQuery, Order, StoreError, Tenant};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::{self, select_job};
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

/// `listed!(" and status = …", "<", "created_at desc, …", arguments…)`: a checked statement that reads a page of a list.
macro_rules! listed {
    ($which:literal, $beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        select_job!(
            "where tenant = ?1" | $which | " and (created_at, id) " | $beyond | r#" (?2, ?3)
                and (?5 is null or model = ?5)
                and not exists (
                    select 1 from json_each(?6) w
                    where not exists (select 1 from json_each(jobs.metadata) h where h.key = w.key and h.value = w.value)
                )
            order by "# | $order | " limit ?4"
            $(, $argument)*
        )
    };
}

pub(crate) async fn list(store: &SqliteStore, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
    let doing = "listing jobs";
    let (first_at, first_id) = match query.order {
        Order::Ascending => (i64::MIN, Uuid::nil()),
        Order::Descending => (i64::MAX, Uuid::max()),
    };
    let (after_at, after_id) = match query.after {
        None => (first_at, first_id),
        Some(after) => (created_at(store, tenant, after).await?, after.as_uuid()),
    };
    let (tenant, status) = (tenant.as_str(), query.status.map(|status| status.as_str()));
    // One more than asked for tells whether there is more.
    let limit = i64::from(query.limit) + 1;
    let metadata = rows::metadata(&query.metadata)?;
    // Each has its index, so that a list of few does not read the many of other statuses.
    let rows = match (query.order, status) {
        (Order::Ascending, None) => {
            listed!("", ">", "created_at, id", tenant, after_at, after_id, limit, query.model, metadata)
                .fetch_all(store.readers())
                .await
        }
        (Order::Descending, None) => {
            listed!("", "<", "created_at desc, id desc", tenant, after_at, after_id, limit, query.model, metadata)
                .fetch_all(store.readers())
                .await
        }
        (Order::Ascending, Some(status)) => {
            listed!(
                " and status = ?7",
                ">",
                "created_at, id",
                tenant,
                after_at,
                after_id,
                limit,
                query.model,
                metadata,
                status
            )
            .fetch_all(store.readers())
            .await
        }
        (Order::Descending, Some(status)) => {
            listed!(
                " and status = ?7",
                "<",
                "created_at desc, id desc",
                tenant,
                after_at,
                after_id,
                limit,
                query.model,
                metadata,
                status
            )
            .fetch_all(store.readers())
            .await
        }
    }
    .map_err(unavailable(doing))?;

    let mut jobs = rows.into_iter().map(Job::try_from).collect::<Result<Vec<Job>, StoreError>>()?;
    let asked = query.limit as usize;
    let has_more = jobs.len() > asked;
    jobs.truncate(asked);
    Ok(JobPage { jobs, has_more })
}

/// Returns when a job was made, even one that is deleted.
async fn created_at(store: &SqliteStore, tenant: &Tenant, id: JobId) -> Result<i64, StoreError> {
    let (uuid, tenant) = (id.as_uuid(), tenant.as_str());
    let found = sqlx::query_scalar!(
        r#"
        select created_at as "created_at!: i64" from jobs where id = ?1 and tenant = ?2
        union all
        select created_at from deleted_jobs where id = ?1 and tenant = ?2
        "#,
        uuid,
        tenant
    )
    .fetch_optional(store.readers())
    .await
    .map_err(unavailable("looking for the job to list after"))?;
    found.ok_or(StoreError::UnknownCursor { after: id })
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
