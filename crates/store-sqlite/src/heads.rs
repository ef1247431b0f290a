//! The heads of the queues: for each tenant that may run, its first jobs.
//!
//! A recursive query walks from one tenant of a queue to the next by `jobs_heads` and looks at the head of each, so that
//! its cost is that of the tenants with waiting jobs, never that of a backlog that may not run.
//! Jobs before the head that back off or do not suit the worker are passed over in the index. By when a job has to begin is not in
//! it: that is read from the row of each job that suits otherwise, which is the one that is claimed, and before it those that
//! had to begin before now. Those are gone with the next sweep, which runs in the same process.

use clapboard_h3::Partition;
use clapboard_jobs::{CapacityClass, Claimant, Hint, JobId, Micros, Queue, StoreError};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::fleet;
use crate::store::SqliteStore;

/// A waiting job that its claimant can run.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Uuid,
    pub(crate) partition: String,
    pub(crate) priority: String,
    pub(crate) rank: f64,
}

/// What a claimant can run, as the statements take it.
struct Reach {
    partitions: String,
    capacities: String,
    versions: String,
    max_rows: i64,
    heard_since: i64,
}

impl Reach {
    fn of(claimant: &Claimant, now: Micros) -> Result<Self, StoreError> {
        let partitions: Vec<&str> = claimant.partitions.iter().map(|partition| partition.as_str()).collect();
        let capacities: Vec<u8> = CapacityClass::within_reach(claimant.max_rows).map(CapacityClass::number).collect();
        Ok(Self {
            partitions: serde_json::to_string(&partitions).map_err(unreadable("partition"))?,
            capacities: serde_json::to_string(&capacities).map_err(unreadable("capacity"))?,
            versions: serde_json::to_string(&claimant.spec_versions).map_err(unreadable("spec_version"))?,
            max_rows: claimant.max_rows.map_or(i64::MAX, fleet::bound),
            heard_since: fleet::heard_since(now),
        })
    }
}

/// Returns a job by its id, if it waits, is due, may still begin, and the claimant may have it: the same rules as [`first`]'s.
pub(crate) async fn by_id(
    tx: &mut SqliteConnection,
    id: Uuid,
    claimant: &Claimant,
    now: Micros,
    doing: &'static str,
) -> Result<Option<Candidate>, StoreError> {
    let reach = Reach::of(claimant, now)?;
    let (worker, ahead) = (claimant.worker.0, claimant.ahead);
    sqlx::query_as!(
        Candidate,
        r#"
        select j.id as "id: Uuid", j.partition, j.priority, j.rank
        from jobs j
        left join tenants t on t.tenant = j.tenant
        where j.id = ?1 and j.state = 'queued' and j.run_at <= ?2 and (j.start_by is null or j.start_by > ?2)
            and j.partition in (select value from json_each(?3))
            and j.partition not in (select partition from paused_partitions)
            and j.spec_version in (select value from json_each(?4))
            and j.rows <= ?5
            and (
                t.max_running is null
                or t.max_running > (
                    select count(*) from jobs r indexed by jobs_running
                    where r.state = 'running' and r.tenant = j.tenant
                )
            )
            and not (?6 and exists (
                select 1 from workers w, json_each(w.partitions) loaded
                where loaded.value = j.partition and w.state = 'idle' and not w.drain_requested and w.id <> ?7
                    and w.seen_at >= ?8 and (w.max_rows is null or w.max_rows >= j.rows)
                    and j.spec_version in (select value from json_each(w.spec_versions))
            ))
        "#,
        id,
        now.0,
        reach.partitions,
        reach.versions,
        reach.max_rows,
        ahead,
        worker,
        reach.heard_since
    )
    .fetch_optional(tx)
    .await
    .map_err(unavailable(doing))
}

/// Returns the job of the lowest rank that the claimant may have.
pub(crate) async fn first(
    tx: &mut SqliteConnection,
    claimant: &Claimant,
    now: Micros,
    doing: &'static str,
) -> Result<Option<Candidate>, StoreError> {
    let reach = Reach::of(claimant, now)?;
    let (worker, ahead) = (claimant.worker.0, claimant.ahead);
    sqlx::query_file_as!(
        Candidate,
        "src/heads/first.sql",
        reach.partitions,
        reach.capacities,
        now.0,
        reach.versions,
        reach.max_rows,
        worker,
        ahead,
        reach.heard_since
    )
    .fetch_optional(tx)
    .await
    .map_err(unavailable(doing))
}

pub(crate) async fn ready(store: &SqliteStore, limit: u32) -> Result<Vec<Hint>, StoreError> {
    let (now, limit) = (store.now(), i64::from(limit));
    let mut hints = Vec::new();
    for queue in waiting(store.readers()).await? {
        let versions = known_versions(store.readers(), queue, now).await?;
        hints.extend(of_queue(store.readers(), queue, versions, now, limit).await?);
    }
    Ok(hints)
}

/// Returns the spec versions that are known to workers which could run jobs of the queue; none where there is no such worker.
async fn known_versions(readers: &SqlitePool, queue: Queue, now: Micros) -> Result<Option<String>, StoreError> {
    let (partition, heard_since) = (queue.partition().as_str(), fleet::heard_since(now));
    let above = queue.capacity().exceeded_rows().map_or(-1, fleet::bound);
    sqlx::query_scalar!(
        r#"
        select nullif(json_group_array(distinct known.value), '[]') as "versions: String"
        from workers w, json_each(w.partitions) loaded, json_each(w.spec_versions) known
        where loaded.value = ? and w.seen_at >= ? and (w.max_rows is null or w.max_rows > ?)
        "#,
        partition,
        heard_since,
        above
    )
    .fetch_one(readers)
    .await
    .map_err(unavailable("looking for what workers know"))
}

/// Returns the queues with waiting jobs that are not paused.
async fn waiting(readers: &SqlitePool) -> Result<Vec<Queue>, StoreError> {
    let partitions: Vec<&str> = Partition::ALL.iter().map(|partition| partition.as_str()).collect();
    let partitions = serde_json::to_string(&partitions).map_err(unreadable("partition"))?;
    let capacities: Vec<u8> = CapacityClass::all().map(CapacityClass::number).collect();
    let capacities = serde_json::to_string(&capacities).map_err(unreadable("capacity"))?;
    let found = sqlx::query!(
        r#"
        select cast(p.value as text) as "partition!: String", cast(c.value as integer) as "capacity!: u8"
        from json_each(?) p, json_each(?) c
        where p.value not in (select partition from paused_partitions) and exists (
            select 1 from jobs j indexed by jobs_heads
            where j.state = 'queued' and j.partition = p.value and j.capacity = c.value
        )
        order by 1, 2
        "#,
        partitions,
        capacities
    )
    .fetch_all(readers)
    .await
    .map_err(unavailable("looking for queues with waiting jobs"))?;
    found
        .into_iter()
        .map(|row| {
            let capacity = CapacityClass::from_number(row.capacity).expect("only numbers of classes were asked for");
            Ok(Queue::of(crate::rows::partition(&row.partition)?, capacity))
        })
        .collect()
}

/// Returns the first jobs of a queue that are due and may run: of each tenant as many as it may still have running.
async fn of_queue(
    readers: &SqlitePool,
    queue: Queue,
    versions: Option<String>,
    now: Micros,
    limit: i64,
) -> Result<Vec<Hint>, StoreError> {
    let (partition, capacity) = (queue.partition().as_str(), i64::from(queue.capacity().number()));
    let jobs = sqlx::query_file!("src/heads/ready.sql", partition, capacity, now.0, limit, versions)
        .fetch_all(readers)
        .await
        .map_err(unavailable("looking for jobs that are due"))?;
    Ok(jobs.into_iter().map(|row| Hint { queue, rank: row.rank, job: JobId::from_uuid(row.id) }).collect())
}
