//! Listing jobs: each way has an index that holds what is asked for in the order of the list.

use std::cmp::Reverse;

use clapboard_jobs::{Job, JobId, JobPage, ListQuery, Order, Status, StoreError, Tenant};
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::{self, JobRow, select_job};
use crate::store::SqliteStore;

const DOING: &str = "listing jobs";

/// How many jobs may have a pair of metadata for all of them to be looked at, where something else is asked for besides. Where more
/// do, the list is gone through, for as long as it takes to meet enough of them.
const MAX_COUNTED: i64 = 10_000;

/// `listed!("indexed by …", " and status = …", "<", "created_at desc, …", arguments…)`: a checked statement that goes through a
/// list in its order until the page is full.
macro_rules! listed {
    ($index:literal, $which:literal, $beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        select_job!(
            $index | " where tenant = ?1" | $which | " and (created_at, id) " | $beyond | r#" (?2, ?3)
                and not exists (
                    select 1 from json_each(?5) w
                    where not exists (select 1 from json_each(jobs.metadata) h where h.key = w.key and h.value = w.value)
                )
            order by "# | $order | " limit ?4"
            $(, $argument)*
        )
    };
}

/// The same of all jobs, of those of one status, or of those of one model and status.
macro_rules! listed_of_all {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        listed!("indexed by jobs_listed", "", $beyond, $order $(, $argument)*)
    };
}
macro_rules! listed_of_status {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        listed!("indexed by jobs_listed_by_status", " and status = ?6", $beyond, $order $(, $argument)*)
    };
}
macro_rules! listed_of_model {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        listed!("indexed by jobs_listed_by_model", " and status = ?6 and model = ?7", $beyond, $order $(, $argument)*)
    };
}

/// `listed_by_metadata!("<", "noted.made_at desc, …", arguments…)`: a checked statement that goes through the jobs with one pair of metadata in
/// the order of a list. Nothing but their pairs can be what finds them: the rest is asked in words that no index answers to.
macro_rules! listed_by_metadata {
    ($beyond:literal, $order:literal $(, $argument:expr)* $(,)?) => {
        select_job!(
            r#"
            join job_metadata noted on noted.job_id = jobs.id
            where noted.owner = ?1 and noted.key = ?6 and noted.value = ?7 and (noted.made_at, noted.job_id)
            "# | $beyond | r#" (?2, ?3)
                and (?8 is null or +jobs.status = ?8) and (?9 is null or +jobs.model = ?9)
                and not exists (
                    select 1 from json_each(?5) w
                    where not exists (
                        select 1 from job_metadata other
                        where other.owner = ?1 and other.key = w.key and other.value = w.value
                            and other.made_at = noted.made_at and other.job_id = noted.job_id
                    )
                )
            order by "# | $order | " limit ?4"
            $(, $argument)*
        )
    };
}

/// `page!(listed_of_all, database, order, arguments…)`: the rows of a page by one of these ways, in either order.
macro_rules! page {
    ($way:ident, $from:expr, $order:expr $(, $argument:expr)* $(,)?) => {
        match $order {
            Order::Ascending => $way!(">", "created_at, id" $(, $argument)*).fetch_all($from).await,
            Order::Descending => $way!("<", "created_at desc, id desc" $(, $argument)*).fetch_all($from).await,
        }
        .map_err(unavailable(DOING))
    };
}

/// Where a page begins, and how many rows are read for it.
#[derive(Clone, Copy)]
struct Place<'a> {
    tenant: &'a str,
    after_at: i64,
    after_id: Uuid,
    limit: i64,
    order: Order,
}

pub(crate) async fn list(store: &SqliteStore, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
    let (after_at, after_id) = match (query.after, query.order) {
        (Some(after), _) => (created_at(store, tenant, after).await?, after.as_uuid()),
        (None, Order::Ascending) => (i64::MIN, Uuid::nil()),
        (None, Order::Descending) => (i64::MAX, Uuid::max()),
    };
    // One more than asked for tells whether there is more.
    let limit = i64::from(query.limit) + 1;
    let place = Place { tenant: tenant.as_str(), after_at, after_id, limit, order: query.order };
    let rarest = rarest(store, tenant.as_str(), query).await?;
    let rows = match rarest {
        Some(pair) if pair.jobs <= MAX_COUNTED || (query.status.is_none() && query.model.is_none()) => {
            by_pair(store, place, query, &pair).await?
        }
        _ => list_in_order(store, place, query).await?,
    };

    let mut jobs = rows.into_iter().map(Job::try_from).collect::<Result<Vec<Job>, StoreError>>()?;
    let asked = query.limit as usize;
    let has_more = jobs.len() > asked;
    jobs.truncate(asked);
    Ok(JobPage { jobs, has_more })
}

/// Goes through the list of the tenant, of a status, or of a model.
async fn list_in_order(store: &SqliteStore, place: Place<'_>, query: &ListQuery) -> Result<Vec<JobRow>, StoreError> {
    let Place { tenant, after_at, after_id, limit, order } = place;
    let metadata = rows::metadata(&query.metadata)?;
    let status = query.status.map(Status::as_str);
    let Some(model) = &query.model else {
        return match status {
            None => page!(listed_of_all, store.readers(), order, tenant, after_at, after_id, limit, metadata),
            Some(status) => {
                page!(listed_of_status, store.readers(), order, tenant, after_at, after_id, limit, metadata, status)
            }
        };
    };
    // A page of each status, merged: the index holds every status in its own order. All of one moment: a job that changed its
    // status in between would be in two of them, or in none.
    let mut moment = store.readers().begin().await.map_err(unavailable(DOING))?;
    let statuses = query.status.map_or(Status::ALL.to_vec(), |status| vec![status]);
    let mut rows = Vec::new();
    for status in statuses.into_iter().map(Status::as_str) {
        let page: Result<Vec<JobRow>, StoreError> =
            page!(listed_of_model, &mut *moment, order, tenant, after_at, after_id, limit, metadata, status, model);
        rows.extend(page?);
    }
    match order {
        Order::Ascending => rows.sort_unstable_by_key(|row| (row.created_at, row.id)),
        Order::Descending => rows.sort_unstable_by_key(|row| Reverse((row.created_at, row.id))),
    }
    Ok(rows)
}

/// A pair of metadata, and how many of a tenant's jobs have it, as far as that matters.
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
    jobs: i64,
}

/// Returns the pair that the fewest jobs have, where any is asked for.
async fn rarest<'a>(store: &SqliteStore, tenant: &str, query: &'a ListQuery) -> Result<Option<Pair<'a>>, StoreError> {
    let mut rarest: Option<Pair<'a>> = None;
    for (key, value) in query.metadata.pairs() {
        let most = MAX_COUNTED + 1;
        let jobs = sqlx::query_scalar!(
            r#"
            select count(*) as "jobs!: i64" from (
                select 1 from job_metadata where owner = ? and key = ? and value = ? limit ?
            )
            "#,
            tenant,
            key,
            value,
            most
        )
        .fetch_one(store.readers())
        .await
        .map_err(unavailable(DOING))?;
        if rarest.as_ref().is_none_or(|known| jobs < known.jobs) {
            rarest = Some(Pair { key, value, jobs });
        }
    }
    Ok(rarest)
}

/// Goes through the jobs that have a pair.
async fn by_pair(
    store: &SqliteStore,
    place: Place<'_>,
    query: &ListQuery,
    pair: &Pair<'_>,
) -> Result<Vec<JobRow>, StoreError> {
    let Place { tenant, after_at, after_id, limit, order } = place;
    let metadata = rows::metadata(&query.metadata)?;
    let (status, model) = (query.status.map(Status::as_str), query.model.as_deref());
    let (key, value) = (pair.key, pair.value);
    match order {
        Order::Ascending => {
            listed_by_metadata!(
                ">",
                "noted.made_at, noted.job_id",
                tenant,
                after_at,
                after_id,
                limit,
                metadata,
                key,
                value,
                status,
                model
            )
            .fetch_all(store.readers())
            .await
        }
        Order::Descending => {
            listed_by_metadata!(
                "<",
                "noted.made_at desc, noted.job_id desc",
                tenant,
                after_at,
                after_id,
                limit,
                metadata,
                key,
                value,
                status,
                model
            )
            .fetch_all(store.readers())
            .await
        }
    }
    .map_err(unavailable(DOING))
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
