//! Jobs that did not begin in time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::Store;

use crate::depths::count_ends;
use crate::error::Error;
use crate::options::Options;
use crate::sweep::{Sweep, Swept};

/// Fails jobs whose time to begin has passed, those as well that a worker has claimed and not begun.
pub struct Deadlines {
    store: Arc<dyn Store>,
    interval: Duration,
    batch: u32,
}

impl Deadlines {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, options: &Options) -> Self {
        Self { store, interval: options.deadline_interval, batch: options.batch }
    }
}

#[async_trait]
impl Sweep for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        true
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let overdue = self.store.fail_overdue(self.batch).await?;
        for job in &overdue {
            tracing::info!(job.id = %job, "no worker began the job in time: it has ended");
        }
        count_ends(&*self.store, &overdue).await;
        Ok(Swept { done: overdue.len(), more: overdue.len() >= self.batch as usize })
    }
}
