//! What a standalone service does before its worker starts.

use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{Store, StoreError, WorkerId};

/// Takes back at once the jobs that were running when the process before this one died.
///
/// Only for a caller that knows that no worker but `living` runs: a standalone service that holds the lock of its data
/// directory, before it starts its own worker. Elsewhere the [`Reaper`](crate::Reaper) waits for the leases to end.
///
/// Errors: [`StoreError`].
pub async fn take_back_from_dead(store: &dyn Store, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
    let reclaimed = store.reclaim_from_dead(living).await?;
    for job in &reclaimed.requeued {
        tracing::info!(job.id = %job, "the job was running when its service died: it runs again");
    }
    for job in &reclaimed.ended {
        tracing::warn!(job.id = %job, "the job was running when its service died, and has ended with it");
    }
    Ok(reclaimed)
}
