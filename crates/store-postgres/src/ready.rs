//! The hints of the refill: which jobs may run now.
//!
//! The work is bounded by the window, not by what waits, save where the first jobs of a queue may not run: then it grows with
//! the tenants that wait there. The jobs of a version that no worker knows are jumped over in the index. To hint at some of
//! every version instead would not do: a queue's window is one for all versions and keeps the lowest ranks.

use clapboard_jobs::store::WORKER_MEMORY;
use clapboard_jobs::{CapacityClass, Hint, JobId, Queue, StoreError};

use crate::error::{unavailable, unreadable};
use crate::rows;
use crate::store::{PostgresStore, micros};

const DOING: &str = "looking for jobs that are due";

pub(crate) async fn ready(store: &PostgresStore, limit: u32) -> Result<Vec<Hint>, StoreError> {
    let above: Vec<i64> = CapacityClass::all()
        .map(|class| class.exceeded_rows().map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX)))
        .collect();
    let found = sqlx::query_file!("queries/ready_jobs.sql", i64::from(limit), &above, micros(WORKER_MEMORY))
        .fetch_all(store.pool())
        .await
        .map_err(unavailable(DOING))?;
    let mut hints = Vec::with_capacity(found.len());
    for row in found {
        let number = u8::try_from(row.class).map_err(unreadable("capacity_class"))?;
        let Some(class) = CapacityClass::from_number(number) else {
            continue;
        };
        let queue = Queue::of(rows::partition(&row.partition)?, class);
        hints.push(Hint { queue, rank: row.rank, job: JobId::from_uuid(row.id) });
    }
    Ok(hints)
}
