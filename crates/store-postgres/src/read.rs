//! Reading jobs.

use clapboard_jobs::store::FARTHEST_PLACE;
use clapboard_jobs::{Attempt, Job, JobId, JobPage, JobState, ListQuery, Micros, Order, Status, StoreError, Tenant};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::{self, AttemptRow, JobRow, job_rows, text};
use crate::store::PostgresStore;

pub(crate) async fn now(store: &PostgresStore) -> Result<Micros, StoreError> {
    sqlx::query_scalar!(r#"select now_micros() as "now!""#)
        .fetch_one(store.pool())
        .await
        .map(Micros)
        .map_err(unavailable("reading the clock"))
}

/// Reads a job that this transaction knows to be there.
pub(crate) async fn load(tx: &mut PgConnection, id: JobId, doing: &'static str) -> Result<Job, StoreError> {
    job_rows!("", "from jobs where id = $1", id.as_uuid()).fetch_one(tx).await.map_err(unavailable(doing))?.try_into()
}

/// Reads a tenant's job, if there is one of that id.
pub(crate) async fn find(
    executor: impl PgExecutor<'_>,
    tenant: &Tenant,
    id: JobId,
    doing: &'static str,
) -> Result<Option<Job>, StoreError> {
    let row = job_rows!("", "from jobs where id = $1 and tenant = $2", id.as_uuid(), tenant.as_str())
        .fetch_optional(executor)
        .await
        .map_err(unavailable(doing))?;
    row.map(Job::try_from).transpose()
}

pub(crate) async fn get(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
    find(store.pool(), tenant, id, "reading a job").await
}

pub(crate) async fn find_of_any(store: &PostgresStore, id: JobId) -> Result<Option<Job>, StoreError> {
    let row = job_rows!("", "from jobs where id = $1", id.as_uuid())
        .fetch_optional(store.pool())
        .await
        .map_err(unavailable("looking for a job"))?;
    row.map(Job::try_from).transpose()
}

/// How many jobs may match a filter by metadata for all of them to be read and sorted. Where more do, the list is gone through for
/// as long as it takes to meet enough of them: not far where they are spread over it, and past all the others where they are not.
const MAX_SORTED: i64 = 10_000;

/// `listed!("owner's key =", "<", "created_at desc, …", arguments…)`: goes through a list in its order until the page is full. The
/// index holds every status in its own order; they are merged before anything else is asked of a job, so that none is gone through
/// further than the page reaches.
macro_rules! listed {
    ($owner_key:literal, $beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        job_rows!(
            "",
            r#"
            from (
                select * from (
                    (
                        select * from jobs
                        where "# | $owner_key | r#" = $1 and job_status(state, begun_at is not null) = 'queued'
                            and 'queued' = any($4) and (created_at, id) "# | $beyond | " ($2, $3) order by " | $order | r#"
                    )
                    union all
                    (
                        select * from jobs
                        where "# | $owner_key | r#" = $1 and job_status(state, begun_at is not null) = 'in_progress'
                            and 'in_progress' = any($4) and (created_at, id) "# | $beyond | " ($2, $3) order by " | $order | r#"
                    )
                    union all
                    (
                        select * from jobs
                        where "# | $owner_key | r#" = $1 and job_status(state, begun_at is not null) = 'completed'
                            and 'completed' = any($4) and (created_at, id) "# | $beyond | " ($2, $3) order by " | $order | r#"
                    )
                    union all
                    (
                        select * from jobs
                        where "# | $owner_key | r#" = $1 and job_status(state, begun_at is not null) = 'failed'
                            and 'failed' = any($4) and (created_at, id) "# | $beyond | " ($2, $3) order by " | $order | r#"
                    )
                ) merged
                order by "# | $order | r#"
                -- What follows stays outside.
                offset 0
            ) walked
            where $6::text is null or metadata @> ($6::text)::jsonb
            order by "# | $order | " limit $5"
            $(, $argument)*
        )
    };
}

/// The same of a tenant, by the index of all its jobs.
macro_rules! listed_of_all {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        listed!(r#"tenant collate "POSIX""#, $beyond, $order $(, $argument)*)
    };
}

/// The same of a tenant and a model with a space between, by the index of those.
macro_rules! listed_of_model {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        listed!(r#"(tenant || ' ' || model) collate "POSIX""#, $beyond, $order $(, $argument)*)
    };
}

/// `found_by_metadata!("<", "created_at desc, …", arguments…)`: reads all that have the metadata and sorts them.
macro_rules! found_by_metadata {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        job_rows!(
            "",
            r#"
            from jobs
            where metadata is not null and owned_metadata(tenant, metadata) @> owned_metadata($1, ($7::text)::jsonb)
                and job_status(state, begun_at is not null) = any($4::text[]) and ($6::text is null or model = $6)
                and (created_at, id)
            "# | $beyond | " ($2, $3) order by " | $order | " limit $5"
            $(, $argument)*
        )
    };
}

/// `page!(listed, executor, order, arguments…)`: the rows of a page by one of these ways, in either order.
macro_rules! page {
    ($way:ident, $executor:expr, $order:expr $(, $argument:expr)* $(,)?) => {
        match $order {
            Order::Ascending => $way!(">", "created_at, id" $(, $argument)*).fetch_all($executor).await,
            Order::Descending => $way!("<", "created_at desc, id desc" $(, $argument)*).fetch_all($executor).await,
        }
    };
}

/// Lets a transaction plan by the index of metadata, which has no other scan, and by no other, whatever the table was like.
const BY_METADATA: &str =
    "set local enable_bitmapscan = on; set local enable_indexscan = off; set local enable_indexonlyscan = off";

pub(crate) async fn list(store: &PostgresStore, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
    let doing = "listing jobs";
    let (first_at, first_id) = match query.order {
        Order::Ascending => (i64::MIN, Uuid::nil()),
        Order::Descending => (i64::MAX, Uuid::max()),
    };
    let (after_at, after_id) = match query.after {
        None => (first_at, first_id),
        Some(after) => (created_at(store, tenant, after).await?, after.as_uuid()),
    };
    let statuses: Vec<String> = match query.status {
        Some(status) => vec![status.as_str().to_owned()],
        None => Status::ALL.iter().map(|status| status.as_str().to_owned()).collect(),
    };
    // One more than asked for tells whether there is more.
    let limit = i64::from(query.limit) + 1;
    let page =
        Page { tenant: tenant.as_str(), after_at, after_id, statuses, limit, model: query.model.as_deref().map(text) };
    let metadata = rows::metadata(&query.metadata)?;
    let rare = match &metadata {
        Some(metadata) => rare(store, &page, query.order, metadata).await.map_err(unavailable(doing))?,
        None => None,
    };
    let rows = match rare {
        Some(rows) => rows,
        None => list_in_order(store, &page, query.order, metadata).await.map_err(unavailable(doing))?,
    };

    let mut jobs = rows.into_iter().map(Job::try_from).collect::<Result<Vec<Job>, StoreError>>()?;
    let asked = query.limit as usize;
    let has_more = jobs.len() > asked;
    jobs.truncate(asked);
    Ok(JobPage { jobs, has_more })
}

/// Which page is asked for.
struct Page<'a> {
    tenant: &'a str,
    after_at: i64,
    after_id: Uuid,
    statuses: Vec<String>,
    limit: i64,
    model: Option<String>,
}

/// Returns a page by going through the tenant's list, or through that of one of its models.
async fn list_in_order(
    store: &PostgresStore,
    page: &Page<'_>,
    order: Order,
    metadata: Option<String>,
) -> Result<Vec<JobRow>, sqlx::Error> {
    let (after_at, after_id, statuses, limit) = (page.after_at, page.after_id, &page.statuses, page.limit);
    match &page.model {
        None => {
            page!(
                listed_of_all,
                store.pool(),
                order,
                page.tenant,
                after_at,
                after_id,
                statuses,
                limit,
                metadata.as_deref()
            )
        }
        Some(model) => {
            let owner_key = format!("{} {model}", page.tenant);
            page!(
                listed_of_model,
                store.pool(),
                order,
                owner_key,
                after_at,
                after_id,
                statuses,
                limit,
                metadata.as_deref()
            )
        }
    }
}

/// Returns a page of those with the metadata; none where more than [`MAX_SORTED`] of the tenant's jobs have them.
async fn rare(
    store: &PostgresStore,
    page: &Page<'_>,
    order: Order,
    metadata: &str,
) -> Result<Option<Vec<JobRow>>, sqlx::Error> {
    let mut tx = store.pool().begin().await?;
    sqlx::raw_sql(BY_METADATA).execute(&mut *tx).await?;
    let found = sqlx::query_scalar!(
        r#"
        select count(*) as "found!" from (
            select from jobs
            where metadata is not null and owned_metadata(tenant, metadata) @> owned_metadata($1, ($2::text)::jsonb)
            limit $3
        ) found
        "#,
        page.tenant,
        metadata,
        MAX_SORTED + 1
    )
    .fetch_one(&mut *tx)
    .await?;
    let rows = if found > MAX_SORTED {
        None
    } else {
        let rows = page!(
            found_by_metadata,
            &mut *tx,
            order,
            page.tenant,
            page.after_at,
            page.after_id,
            &page.statuses,
            page.limit,
            page.model,
            metadata
        );
        Some(rows?)
    };
    tx.commit().await?;
    Ok(rows)
}

/// Returns when a job was made, even one that is deleted.
async fn created_at(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<i64, StoreError> {
    let found = sqlx::query_scalar!(
        r#"
        select created_at as "created_at!" from jobs where id = $1 and tenant = $2
        union all
        select created_at from deleted_jobs where id = $1 and tenant = $2
        limit 1
        "#,
        id.as_uuid(),
        tenant.as_str()
    )
    .fetch_optional(store.pool())
    .await
    .map_err(unavailable("looking for the job to list after"))?;
    found.ok_or(StoreError::UnknownCursor { after: id })
}

pub(crate) async fn attempts(store: &PostgresStore, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
    let rows = sqlx::query_as!(
        AttemptRow,
        r#"
        select
            a.fence, a.number, a.worker, a.claimed_at, a.begun_at, a.ended_at, a.ending, a.error_code, a.error_message
        from job_attempts a
        join jobs j on j.id = a.job_id
        where a.job_id = $1 and j.tenant = $2
        order by a.fence
        "#,
        id.as_uuid(),
        tenant.as_str()
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("reading the attempts of a job"))?;
    rows.into_iter().map(Attempt::try_from).collect()
}

pub(crate) async fn queue_position(
    store: &PostgresStore,
    tenant: &Tenant,
    id: JobId,
) -> Result<Option<u64>, StoreError> {
    let Some(job) = get(store, tenant, id).await? else {
        return Ok(None);
    };
    match job.state {
        JobState::Queued => {}
        JobState::Running if job.begun_at.is_none() => return Ok(Some(0)),
        _ => return Ok(None),
    }
    // No further than any place is told: a poll must not read a backlog.
    let ahead = sqlx::query_scalar!(
        r#"
        select count(*) as "ahead!" from (
            select from jobs j
            where j.claim_token is null and j.finished_at is null and j.partition = $1 and j.capacity_class = $2
                and (j.rank, j.id) < ($3, $4)
            limit 1000
        ) counted
        "#,
        job.partition.as_str(),
        i32::from(job.queue().capacity().number()),
        job.rank,
        id.as_uuid()
    )
    .fetch_one(store.pool())
    .await
    .map_err(unavailable("counting the jobs ahead"))?;
    let place = ahead.unsigned_abs() + 1;
    Ok((place <= FARTHEST_PLACE).then_some(place))
}
