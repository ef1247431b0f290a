//! Objects that no row names any more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Blob, Causes, Store};

use crate::error::Error;
use crate::options::Options;
use crate::removal::{Removal, Remover};
use crate::sweep::{Sweep, Swept};

/// Deletes the results and denoising states of deleted jobs, of attempts that came to nothing, and those whose time has passed
/// or that others have replaced, and the inputs of jobs that do not run again or never came.
///
/// The object goes first and its note after it, so that a crash in between repeats the deletion instead of losing it. One that
/// cannot be deleted is put off, for longer each time, so that it does not stand before the others, and a sweep waits only so long
/// for such. While the media store is away nothing is put off: the sweep ends and is tried again.
pub struct Garbage {
    store: Arc<dyn Store>,
    remover: Remover,
    interval: Duration,
    batch: u32,
}

impl Garbage {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, blob: Arc<dyn Blob>, options: &Options) -> Self {
        let remover = Remover::new(blob, options.deletion_timeout);
        Self { store, remover, interval: options.garbage_interval, batch: options.batch }
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
        let (removal, away) = self.remover.remove(keys, &mut self.remover.patience()).await;
        let Removal { deleted, kept, failed, tried } = removal;
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
        Ok(Swept { done: deleted.len(), more: tried < found || found >= self.batch as usize })
    }
}
