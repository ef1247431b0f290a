//! Results and records that were kept long enough.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::Store;

use crate::error::Error;
use crate::options::Options;
use crate::sweep::{Sweep, Swept};

/// Gives up results whose time has passed, deletes jobs that were kept as long as they should be, and forgets those that were
/// deleted that long ago, and the webhooks that were delivered or given up then.
///
/// It changes rows alone: what they named becomes garbage, whose objects [`Garbage`](crate::Garbage) deletes.
pub struct Retention {
    store: Arc<dyn Store>,
    interval: Duration,
    batch: u32,
}

impl Retention {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, options: &Options) -> Self {
        Self { store, interval: options.retention_interval, batch: options.batch }
    }
}

#[async_trait]
impl Sweep for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        true
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let expired = self.store.expire_results(self.batch).await?;
        for job in &expired {
            tracing::info!(job.id = %job, "the result was kept long enough and is given up");
        }
        let purged = self.store.purge_records(self.batch).await?;
        for job in &purged {
            tracing::info!(job.id = %job, "the job was kept long enough and is deleted");
        }
        let forgotten = self.store.forget_deleted(self.batch).await?;
        let told = self.store.forget_deliveries(self.batch).await?;
        let done = [expired.len(), purged.len(), forgotten, told];
        Ok(Swept { done: done.iter().sum(), more: done.iter().any(|&count| count >= self.batch as usize) })
    }
}
