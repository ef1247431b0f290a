//! What metrics tell of the store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::backlog::Waiting;
use clapboard_jobs::{Backlog, JobId, JobState, Micros, Store};
use clapboard_telemetry::metrics::{self, names};

use crate::error::Error;
use crate::sweep::{Sweep, Swept};

/// How often it is looked. What a look costs does not grow with what waits.
const INTERVAL: Duration = Duration::from_secs(5);

/// Measures how much waits, for as long as anybody can read that.
pub struct Depths {
    store: Arc<dyn Store>,
}

impl Depths {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Sweep for Depths {
    fn name(&self) -> &'static str {
        "depths"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn when_due(&self) -> bool {
        false
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        if metrics::is_on() {
            show(&self.store.backlog().await?);
        }
        Ok(Swept { done: 0, more: false })
    }
}

fn show(backlog: &Backlog) {
    for depth in &backlog.depths {
        let partition = depth.partition.as_str();
        names::JOB_QUEUE_DEPTH.set(depth.queued.count as f64, [partition, "queued"]);
        names::JOB_QUEUE_DEPTH.set(depth.running as f64, [partition, "running"]);
        names::JOB_OLDEST_QUEUED_AGE_SECONDS.set(age(&depth.queued, backlog.at), [partition]);
    }
    names::WEBHOOK_BACKLOG.set(backlog.deliveries.count as f64, []);
    names::WEBHOOK_OLDEST_AGE_SECONDS.set(age(&backlog.deliveries, backlog.at), []);
}

fn age(waiting: &Waiting, now: Micros) -> f64 {
    waiting.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64())
}

/// Counts jobs that a sweep has ended, as their rows tell. One that cannot be read, or is deleted by now, is not counted.
pub(crate) async fn count_ends(store: &dyn Store, ended: &[JobId]) {
    if !metrics::is_on() {
        return;
    }
    for &id in ended {
        let Ok(Some(job)) = store.find(id).await else { continue };
        let outcome = match job.state {
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
            _ => continue,
        };
        let reason = job.error.as_ref().map_or("none", |error| error.code.as_str());
        names::JOBS_FINISHED.increment([job.partition.as_str(), outcome, reason]);
    }
}
