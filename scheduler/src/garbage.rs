//! Objects that no row names any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clapboard_jobs::{Blob, Causes, Store};

use crate::error::Error;
use crate::options::Options;
use crate::removal::{Kept, Remover};
use crate::sweep::{Sweep, Swept};

/// Deletes the results and denoising states of deleted jobs, of attempts that came to nothing, and those whose time has passed
/// or that others have replaced, and the inputs of jobs that do not run again or never came.
///
/// The object goes first and its note after it, so that a crash in between repeats the deletion instead of losing it. One that
/// cannot be deleted is put off, for longer each time, so that it does not stand before the others. While the media store is
/// away nothing is put off: the sweep ends and is tried again.
pub struct Garbage {
    store: Arc<dyn Store>,
    remover: Remover,
    interval: Duration,
    batch: u32,
    /// How much time a sweep spends on objects that are not deleted.
    patience: Duration,
}

impl Garbage {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, blob: Arc<dyn Blob>, options: &Options) -> Self {
        let patience = options.deletion_timeout;
        let remover = Remover::new(blob, patience);
        Self { store, remover, interval: options.garbage_interval, batch: options.batch, patience }
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
        let (mut failed, mut away) = (None, None);
        let mut in_vain = Duration::ZERO;
        for key in keys {
            let begun = Instant::now();
            match self.remover.remove(&key).await {
                Ok(()) => deleted.push(key),
                Err(Kept::Object(error)) => {
                    tracing::debug!(error = %Causes(&error), %key, "could not delete garbage");
                    kept.push(key);
                    failed = Some(error);
                    in_vain += begun.elapsed();
                    if in_vain >= self.patience {
                        break;
                    }
                }
                Err(Kept::Store(error)) => {
                    away = Some(error);
                    break;
                }
            }
        }
        if !deleted.is_empty() {
            self.store.forget_garbage(&deleted).await?;
        }
        if !kept.is_empty() {
            self.store.postpone_garbage(&kept).await?;
        }
        if let Some(error) = away {
            return Err(error.into());
        }
        match failed {
            // The media store may take no deletion at all: the next ones can wait as well.
            Some(error) if deleted.is_empty() => return Err(error.into()),
            Some(error) => tracing::warn!(
                error = %Causes(&error), objects = kept.len(), "some garbage could not be deleted and is put off"
            ),
            None => {}
        }
        Ok(Swept { done: deleted.len(), more: found >= self.batch as usize })
    }
}
