//! The workers, and which partitions they may take jobs of.

use clapboard_h3::Partition;
use clapboard_jobs::store::WORKER_MEMORY;
use clapboard_jobs::{Micros, Orders, StoreError, WorkerCard, WorkerId, WorkerRecord};

use crate::error::unavailable;
use crate::rows::{number, parse, partition, text};
use crate::store::{PostgresStore, micros};

pub(crate) async fn set_paused(store: &PostgresStore, paused: Partition, pause: bool) -> Result<(), StoreError> {
    let name = paused.as_str();
    let set = if pause {
        sqlx::query!("insert into paused_partitions (partition) values ($1) on conflict do nothing", name)
    } else {
        sqlx::query!("delete from paused_partitions where partition = $1", name)
    };
    set.execute(store.pool()).await.map_err(unavailable("pausing a partition"))?;
    Ok(())
}

pub(crate) async fn paused(store: &PostgresStore) -> Result<Vec<Partition>, StoreError> {
    sqlx::query_scalar!("select partition from paused_partitions order by partition")
        .fetch_all(store.pool())
        .await
        .map_err(unavailable("reading which partitions are paused"))?
        .iter()
        .map(|name| partition(name))
        .collect()
}

pub(crate) async fn announce(store: &PostgresStore, card: &WorkerCard) -> Result<Orders, StoreError> {
    let partitions: Vec<String> = card.partitions.iter().map(|partition| partition.as_str().to_owned()).collect();
    let spec_versions: Vec<i64> = card.spec_versions.iter().map(|&version| i64::from(version)).collect();
    let drain = sqlx::query_scalar!(
        r#"
        insert into workers as w (id, host, version, partitions, spec_versions, max_rows, state, started_at, seen_at)
        values ($1, $2, $3, $4, $5, $6, $7, now_micros(), now_micros())
        on conflict (id) do update
        set host = excluded.host, version = excluded.version, partitions = excluded.partitions,
            spec_versions = excluded.spec_versions, max_rows = excluded.max_rows, state = excluded.state,
            seen_at = excluded.seen_at
        returning drain_requested
        "#,
        card.id.0,
        text(&card.host),
        text(&card.version),
        &partitions,
        &spec_versions,
        card.max_rows.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX)),
        card.state.as_str()
    )
    .fetch_one(store.pool())
    .await
    .map_err(unavailable("announcing a worker"))?;
    Ok(Orders { drain })
}

pub(crate) async fn retire(store: &PostgresStore, worker: WorkerId) -> Result<(), StoreError> {
    sqlx::query!("delete from workers where id = $1", worker.0)
        .execute(store.pool())
        .await
        .map_err(unavailable("retiring a worker"))?;
    Ok(())
}

pub(crate) async fn workers(store: &PostgresStore) -> Result<Vec<WorkerRecord>, StoreError> {
    let found = sqlx::query!(
        r#"
        select id, host, version, partitions, spec_versions, max_rows, state, started_at, seen_at, drain_requested
        from workers
        where seen_at > now_micros() - $1
        order by started_at, id
        "#,
        micros(WORKER_MEMORY)
    )
    .fetch_all(store.pool())
    .await
    .map_err(unavailable("listing the workers"))?;
    let mut all = Vec::with_capacity(found.len());
    for row in found {
        let card = WorkerCard {
            id: WorkerId(row.id),
            host: row.host,
            version: row.version,
            partitions: row.partitions.iter().map(|name| partition(name)).collect::<Result<_, _>>()?,
            spec_versions: row
                .spec_versions
                .iter()
                .map(|&version| number("spec_versions", version))
                .collect::<Result<_, _>>()?,
            max_rows: row.max_rows.map(|rows| number("max_rows", rows)).transpose()?,
            state: parse("state", &row.state)?,
        };
        all.push(WorkerRecord {
            card,
            started_at: Micros(row.started_at),
            seen_at: Micros(row.seen_at),
            drain_requested: row.drain_requested,
        });
    }
    Ok(all)
}

pub(crate) async fn ask_drain(store: &PostgresStore, worker: WorkerId) -> Result<bool, StoreError> {
    let asked = sqlx::query!("update workers set drain_requested = true where id = $1", worker.0)
        .execute(store.pool())
        .await
        .map_err(unavailable("asking a worker to drain"))?;
    Ok(asked.rows_affected() > 0)
}
