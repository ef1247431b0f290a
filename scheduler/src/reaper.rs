//! Jobs whose workers are gone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::Store;

use crate::error::Error;
use crate::options::Options;
use crate::sweep::{Sweep, Swept};

/// Takes back jobs whose leases have ended: they wait for their next attempt, or end when there is none.
pub struct Reaper {
    store: Arc<dyn Store>,
    interval: Duration,
    batch: u32,
}

impl Reaper {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, options: &Options) -> Self {
        Self { store, interval: options.reaper_interval, batch: options.batch }
    }
}

#[async_trait]
impl Sweep for Reaper {
    fn name(&self) -> &'static str {
        "reaper"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        true
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let reclaimed = self.store.reclaim_expired(self.batch).await?;
        for job in &reclaimed.requeued {
            tracing::warn!(job.id = %job, "the lease ended without its worker: the job waits for its next attempt");
        }
        for job in &reclaimed.ended {
            tracing::warn!(job.id = %job, "the lease ended without its worker, and the job with it");
        }
        let done = reclaimed.requeued.len() + reclaimed.ended.len();
        Ok(Swept { done, more: done >= self.batch as usize })
    }
}
