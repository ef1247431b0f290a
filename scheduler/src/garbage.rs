//! Objects that no row names any more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Blob, Causes, Store};

use crate::error::Error;
use crate::options::Options;
use crate::sweep::{Sweep, Swept};

/// Deletes the results and denoising states of deleted jobs, of attempts that came to nothing, and those whose time has passed
/// or that others have replaced.
///
/// The object goes first and its note after it, so that a crash in between repeats the deletion instead of losing it.
pub struct Garbage {
    store: Arc<dyn Store>,
    blob: Arc<dyn Blob>,
    interval: Duration,
    batch: u32,
}

impl Garbage {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, blob: Arc<dyn Blob>, options: &Options) -> Self {
        Self { store, blob, interval: options.garbage_interval, batch: options.batch }
    }
}

#[async_trait]
impl Sweep for Garbage {
    fn name(&self) -> &'static str {
        "garbage"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        true
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let keys = self.store.garbage(self.batch).await?;
        let found = keys.len();
        let mut deleted = Vec::with_capacity(found);
        let mut failed = None;
        for key in keys {
            match self.blob.delete(&key).await {
                Ok(()) => deleted.push(key),
                Err(error) => {
                    tracing::debug!(error = %Causes(&error), %key, "could not delete garbage");
                    failed = Some(error);
                }
            }
        }
        if !deleted.is_empty() {
            self.store.forget_garbage(&deleted).await?;
        }
        match failed {
            // What can be deleted was; the rest is for the next run.
            Some(error) => Err(error.into()),
            None => Ok(Swept { done: deleted.len(), more: found >= self.batch as usize }),
        }
    }
}
