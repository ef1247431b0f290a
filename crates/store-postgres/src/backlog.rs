//! How much waits, for metrics.

use clapboard_h3::Partition;
use clapboard_jobs::backlog::{Backlog, Depth, MOST_COUNTED, Waiting};
use clapboard_jobs::{Micros, StoreError};

use crate::error::{unavailable, unreadable};
use crate::rows;
use crate::store::PostgresStore;

/// Counts along the indexes of what waits, and no further than [`MOST_COUNTED`] entries of each: what that costs does not grow
/// with the backlog, and what runs is as much as there are workers.
pub(crate) async fn read(store: &PostgresStore) -> Result<Backlog, StoreError> {
    let names: Vec<String> = Partition::ALL.iter().map(|partition| partition.as_str().to_owned()).collect();
    let found = sqlx::query_file!("queries/backlog.sql", &names, i64::from(MOST_COUNTED))
        .fetch_all(store.pool())
        .await
        .map_err(unavailable("counting what waits"))?;
    let count = |field, count: i64| u64::try_from(count).map_err(unreadable(field));
    let mut backlog = Backlog { at: Micros(0), depths: Vec::new(), deliveries: Waiting::default() };
    for row in found {
        backlog.at = Micros(row.at);
        backlog.deliveries = Waiting {
            count: count("deliveries", row.deliveries)?.min(u64::from(MOST_COUNTED)),
            oldest: row.oldest_delivery.map(Micros),
        };
        backlog.depths.push(Depth {
            partition: rows::partition(&row.partition)?,
            queued: Waiting { count: count("queued", row.queued)?, oldest: row.oldest_queued.map(Micros) },
            running: count("running", row.running)?,
        });
    }
    Ok(backlog)
}
