//! The workers, as far as they have said something.

use std::time::Duration;

use clapboard_h3::Partition;
use clapboard_jobs::store::WORKER_MEMORY;
use clapboard_jobs::{Micros, Orders, StoreError, WorkerCard, WorkerId, WorkerRecord};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::rows;
use crate::store::SqliteStore;

/// How long a worker that says nothing is kept in the table.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns from when on a worker must have been heard of to count as being there.
pub(crate) fn heard_since(now: Micros) -> i64 {
    before(now, WORKER_MEMORY)
}

fn before(now: Micros, by: Duration) -> i64 {
    now.0 - Micros(0).plus(by).0
}

pub(crate) async fn announce(store: &SqliteStore, card: &WorkerCard) -> Result<Orders, StoreError> {
    let doing = "taking note of a worker";
    let mut tx = store.begin(doing).await?;
    let now = store.now().0;
    let (id, state) = (card.id.0, card.state.as_str());
    let partitions: Vec<&str> = card.partitions.iter().map(|partition| partition.as_str()).collect();
    let partitions = serde_json::to_string(&partitions).map_err(unreadable("partitions"))?;
    let spec_versions = serde_json::to_string(&card.spec_versions).map_err(unreadable("spec_versions"))?;
    let max_rows = card.max_rows.map(bound);
    let drain = sqlx::query_scalar!(
        r#"
        insert into workers (id, host, version, partitions, spec_versions, max_rows, state, started_at, seen_at)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
        on conflict (id) do update
        set host = excluded.host, version = excluded.version, partitions = excluded.partitions,
            spec_versions = excluded.spec_versions, max_rows = excluded.max_rows, state = excluded.state,
            seen_at = excluded.seen_at
        returning drain_requested as "drain_requested!: bool"
        "#,
        id,
        card.host,
        card.version,
        partitions,
        spec_versions,
        max_rows,
        state,
        now
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Orders { drain })
}

/// Returns how many rows a worker holds as the table keeps it. Nothing is longer than the longest number.
pub(crate) fn bound(max_rows: u64) -> i64 {
    i64::try_from(max_rows).unwrap_or(i64::MAX)
}

pub(crate) async fn retire(store: &SqliteStore, worker: WorkerId) -> Result<(), StoreError> {
    let doing = "forgetting a worker that has ended";
    let mut tx = store.begin(doing).await?;
    sqlx::query!("delete from workers where id = ?", worker.0).execute(&mut *tx).await.map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))
}

pub(crate) async fn read(store: &SqliteStore) -> Result<Vec<WorkerRecord>, StoreError> {
    let since = heard_since(store.now());
    let workers = sqlx::query!(
        r#"
        select
            id as "id: Uuid", host, version, partitions, spec_versions, max_rows, state, started_at, seen_at,
            drain_requested as "drain_requested!: bool"
        from workers
        where seen_at >= ?
        order by started_at, id
        "#,
        since
    )
    .fetch_all(store.readers())
    .await
    .map_err(unavailable("reading the workers"))?;
    workers
        .into_iter()
        .map(|row| {
            let names: Vec<String> = serde_json::from_str(&row.partitions).map_err(unreadable("partitions"))?;
            let partitions = names.iter().map(|name| rows::partition(name)).collect::<Result<Vec<Partition>, _>>()?;
            Ok(WorkerRecord {
                card: WorkerCard {
                    id: WorkerId(row.id),
                    host: row.host,
                    version: row.version,
                    partitions,
                    spec_versions: serde_json::from_str(&row.spec_versions).map_err(unreadable("spec_versions"))?,
                    max_rows: row.max_rows.map(|rows| rows::number("max_rows", rows)).transpose()?,
                    state: row.state.parse().map_err(unreadable("state"))?,
                },
                started_at: Micros(row.started_at),
                seen_at: Micros(row.seen_at),
                drain_requested: row.drain_requested,
            })
        })
        .collect()
}

pub(crate) async fn ask_drain(store: &SqliteStore, worker: WorkerId) -> Result<bool, StoreError> {
    let doing = "asking a worker to drain";
    let mut tx = store.begin(doing).await?;
    let asked = sqlx::query!("update workers set drain_requested = 1 where id = ?", worker.0)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(asked.rows_affected() > 0)
}

/// Forgets the workers that have not been heard of for a day.
pub(crate) async fn forget(tx: &mut SqliteConnection, now: Micros, doing: &'static str) -> Result<(), StoreError> {
    let since = before(now, FORGOTTEN_AFTER);
    sqlx::query!("delete from workers where seen_at < ?", since).execute(tx).await.map_err(unavailable(doing))?;
    Ok(())
}
