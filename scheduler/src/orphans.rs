//! Objects that no row ever knew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Blob, BlobError, BlobKey, Store};

use crate::error::Error;
use crate::options::Options;
use crate::removal::{Patience, Remover};
use crate::sweep::{Sweep, Swept};

/// What keys begin with: those of results, denoising states and inputs, and those of small objects by which the store is tried out.
const PREFIXES: [&str; 2] = ["v1/", "probe/"];

/// Walks over all objects and deletes those that no row names, once they are old enough.
///
/// A key is written down before its first byte is uploaded, that of a result, of a denoising state and of an input alike, so
/// such an object comes only from a worker that finished its upload after the claim had ended and the key had been collected,
/// or from a request that took as long. The age is there for clocks that disagree.
///
/// A walk waits only so long for objects that cannot be deleted: it ends then, and the next one goes on behind them.
pub struct Orphans {
    store: Arc<dyn Store>,
    blob: Arc<dyn Blob>,
    remover: Remover,
    interval: Duration,
    age: Duration,
    batch: u32,
    /// Where the next walk goes on; none when it begins anew.
    place: Mutex<Option<Place>>,
}

/// How far a walk has come.
#[derive(Debug, Clone, Default)]
struct Place {
    /// How many of the prefixes are done.
    prefixes: usize,
    /// The last object of the next one that is done.
    after: Option<BlobKey>,
}

impl Orphans {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, blob: Arc<dyn Blob>, options: &Options) -> Self {
        let remover = Remover::new(Arc::clone(&blob), options.deletion_timeout);
        Self {
            store,
            blob,
            remover,
            interval: options.orphan_interval,
            age: options.orphan_age,
            batch: options.batch,
            place: Mutex::default(),
        }
    }
}

#[async_trait]
impl Sweep for Orphans {
    fn name(&self) -> &'static str {
        "orphans"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn when_due(&self) -> bool {
        false
    }

    async fn sweep_once(&self) -> Result<Swept, Error> {
        let mut walk = Walk { patience: self.remover.patience(), done: 0, failed: None };
        let begin = self.place().take().unwrap_or_default();
        let mut place = begin.clone();
        let ended = self.walk(&mut place, &mut walk).await;
        match &ended {
            Ok(Ended::Whole) => {}
            Ok(Ended::Impatient) => *self.place() = Some(place),
            // What was done is not there to be found again, and what was not is.
            Err(_) => *self.place() = Some(begin),
        }
        ended?;
        // One object that cannot be deleted does not keep the others from it.
        walk.failed.map_or(Ok(Swept { done: walk.done, more: false }), |error| Err(error.into()))
    }
}

/// What a walk has come to so far.
struct Walk {
    patience: Patience,
    done: usize,
    failed: Option<BlobError>,
}

/// How a walk ended.
enum Ended {
    /// It has been everywhere.
    Whole,
    /// Too many objects could not be deleted.
    Impatient,
}

impl Orphans {
    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Walks over all objects behind `place`, which goes along.
    async fn walk(&self, place: &mut Place, walk: &mut Walk) -> Result<Ended, Error> {
        let now = self.store.now().await?;
        while let Some(prefix) = PREFIXES.get(place.prefixes) {
            let page = self.blob.list(prefix, place.after.as_ref(), self.batch as usize).await?;
            let Some(last) = page.last() else {
                *place = Place { prefixes: place.prefixes + 1, after: None };
                continue;
            };
            let old = page.iter().filter(|object| now.since(object.modified_at) >= self.age);
            let keys: Vec<BlobKey> = old.map(|object| object.key.clone()).collect();
            let unnamed = if keys.is_empty() { keys } else { self.store.unnamed(&keys).await? };
            let (removal, away) = self.remover.remove(unnamed.clone(), &mut walk.patience).await;
            for key in &removal.deleted {
                tracing::warn!(%key, "deleted an object that no row names");
            }
            walk.done += removal.deleted.len();
            if let Some(error) = away {
                return Err(error.into());
            }
            walk.failed = removal.failed.or(walk.failed.take());
            let untried = unnamed.get(removal.tried..).unwrap_or_default();
            place.after = match unnamed[..removal.tried].last() {
                Some(tried) if !untried.is_empty() => Some(tried.clone()),
                _ => Some(last.key.clone()),
            };
            if walk.patience.is_spent() {
                return Ok(Ended::Impatient);
            }
        }
        Ok(Ended::Whole)
    }
}
