//! How much waits, for metrics.

use clapboard_h3::Partition;
use clapboard_jobs::Micros;
use clapboard_jobs::StoreError;
use clapboard_jobs::backlog::{Backlog, Depth, MOST_COUNTED, Waiting};

use crate::error::{unavailable, unreadable};
use crate::store::SqliteStore;

const DOING: &str = "counting what waits";

/// Counts along the indexes of what waits, and no further than [`MOST_COUNTED`] entries of each.
pub(crate) async fn read(store: &SqliteStore) -> Result<Backlog, StoreError> {
    let most = i64::from(MOST_COUNTED);
    let mut connection = store.readers().acquire().await.map_err(unavailable(DOING))?;
    let mut depths = Vec::new();
    for partition in Partition::ALL {
        let name = partition.as_str();
        let queued = sqlx::query!(
            r#"
            select count(*) as "count!: i64", min(created_at) as "oldest: i64"
            from (
                select created_at from jobs indexed by jobs_waiting
                where state = 'queued' and partition = ?
                order by capacity, rank, id
                limit ?
            )
            "#,
            name,
            most
        )
        .fetch_one(&mut *connection)
        .await
        .map_err(unavailable(DOING))?;
        // As many as there are workers.
        let running = sqlx::query_scalar!(
            r#"
            select count(*) as "count!: i64" from jobs indexed by jobs_running
            where state = 'running' and partition = ?
            "#,
            name
        )
        .fetch_one(&mut *connection)
        .await
        .map_err(unavailable(DOING))?;
        let queued = waiting(queued.count, queued.oldest)?;
        depths.push(Depth { partition, queued, running: count(running)? });
    }
    let pending = sqlx::query!(
        r#"
        select count(*) as "count!: i64", min(created_at) as "oldest: i64"
        from (
            select created_at from deliveries indexed by deliveries_due
            where state = 'pending'
            order by next_try_at
            limit ?
        )
        "#,
        most
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(unavailable(DOING))?;
    let deliveries = waiting(pending.count, pending.oldest)?;
    Ok(Backlog { at: store.now(), depths, deliveries })
}

fn waiting(counted: i64, oldest: Option<i64>) -> Result<Waiting, StoreError> {
    Ok(Waiting { count: count(counted)?, oldest: oldest.map(Micros) })
}

fn count(count: i64) -> Result<u64, StoreError> {
    u64::try_from(count).map_err(unreadable("count"))
}
