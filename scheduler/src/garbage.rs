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
/// The object goes first and its note after it, so that a crash in between repeats the deletion instead of losing it. One that
/// cannot be deleted is put off, for longer each time, so that it does not stand before the others.
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
        let (mut deleted, mut kept) = (Vec::with_capacity(found), Vec::new());
        let mut failed = None;
        for key in keys {
            match self.blob.delete(&key).await {
                Ok(()) => deleted.push(key),
                Err(error) => {
                    tracing::debug!(error = %Causes(&error), %key, "could not delete garbage");
                    kept.push(key);
                    failed = Some(error);
                }
            }
        }
        if !deleted.is_empty() {
            self.store.forget_garbage(&deleted).await?;
        }
        if !kept.is_empty() {
            self.store.postpone_garbage(&kept).await?;
        }
        match failed {
            // The media store may be away, or take no deletion at all: the next ones can wait as well.
            Some(error) if deleted.is_empty() => return Err(error.into()),
            Some(error) => tracing::warn!(
                error = %Causes(&error), objects = kept.len(), "some garbage could not be deleted and is put off"
            ),
            None => {}
        }
        Ok(Swept { done: deleted.len(), more: found >= self.batch as usize })
    }
}
