//! Hints for all that can be claimed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Dispatch, Store};
use clapboard_telemetry::metrics::names;

use crate::error::Error;
use crate::options::Options;
use crate::sweep::{Sweep, Swept};

/// Pushes a hint for each job that waits and may run, up to a window per queue: of each tenant no more than it may still have
/// running, so that the backlog of one cannot fill the window.
///
/// This is what makes a dispatcher's losses harmless: hints that were lost come back, those that are there are not
/// doubled, and a job whose backoff has ended gets its first.
pub struct Refill {
    store: Arc<dyn Store>,
    dispatch: Arc<dyn Dispatch>,
    interval: Duration,
    window: u32,
}

impl Refill {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, dispatch: Arc<dyn Dispatch>, options: &Options) -> Self {
        Self { store, dispatch, interval: options.refill_interval, window: options.refill_window }
    }
}

#[async_trait]
impl Sweep for Refill {
    fn name(&self) -> &'static str {
        "refill"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        true
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let hints = self.store.ready(self.window).await?;
        let missing = self.dispatch.push(&hints).await?;
        names::HINT_REPAIRS.add(missing as u64, []);
        // What lies beyond the window becomes the window as jobs are claimed: there is nothing more to do now.
        Ok(Swept { done: hints.len(), more: false })
    }
}
