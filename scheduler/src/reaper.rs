//! Jobs whose workers are gone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Causes, Dispatch, Store};
use clapboard_telemetry::metrics::names;

use crate::depths::count_ends;
use crate::error::Error;
use crate::options::Options;
use crate::refill::Refill;
use crate::sweep::{Sweep, Swept};

/// Takes back jobs whose leases have ended: they wait for their next attempt, or end when there is none.
///
/// Those that wait are hinted at once: they have lost a lease's time already.
pub struct Reaper {
    store: Arc<dyn Store>,
    refill: Refill,
    interval: Duration,
    batch: u32,
}

impl Reaper {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, dispatch: Arc<dyn Dispatch>, options: &Options) -> Self {
        let interval = options.reaper_interval.min(Options::LONGEST_REAPER_INTERVAL);
        let refill = Refill::new(Arc::clone(&store), dispatch, options);
        Self { store, refill, interval, batch: options.batch }
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
        names::LEASE_EXPIRED.add((reclaimed.requeued.len() + reclaimed.ended.len()) as u64, []);
        if !reclaimed.requeued.is_empty()
            && let Err(error) = self.refill.sweep_once().await
        {
            // Theirs is the next refill, and the workers' own look into the store.
            tracing::debug!(error = %Causes(&error), "could not hint at the jobs that were taken back");
        }
        // Jobs that wait come first: this asks for each that has ended.
        count_ends(&*self.store, &reclaimed.ended).await;
        let done = reclaimed.requeued.len() + reclaimed.ended.len();
        Ok(Swept { done, more: done >= self.batch as usize })
    }
}
