//! Objects that no row ever knew.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Blob, BlobError, BlobKey, Causes, Store};

use crate::error::Error;
use crate::options::Options;
use crate::removal::{Kept, Remover};
use crate::sweep::{Sweep, Swept};

/// What keys begin with: those of results, denoising states and inputs, and those of small objects by which the store is tried out.
const PREFIXES: [&str; 2] = ["v1/", "probe/"];

/// Walks over all objects and deletes those that no row names, once they are old enough.
///
/// A key is written down before its first byte is uploaded, that of a result, of a denoising state and of an input alike, so
/// such an object comes only from a worker that finished its upload after the claim had ended and the key had been collected,
/// or from a request that took as long. The age is there for clocks that disagree.
pub struct Orphans {
    store: Arc<dyn Store>,
    blob: Arc<dyn Blob>,
    remover: Remover,
    interval: Duration,
    age: Duration,
    batch: u32,
}

impl Orphans {
    /// Makes the sweep.
    pub fn new(store: Arc<dyn Store>, blob: Arc<dyn Blob>, options: &Options) -> Self {
        let remover = Remover::new(Arc::clone(&blob), options.deletion_timeout);
        Self { store, blob, remover, interval: options.orphan_interval, age: options.orphan_age, batch: options.batch }
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
        let mut found = Found::default();
        for prefix in PREFIXES {
            self.walk(prefix, &mut found).await?;
        }
        // One object that cannot be deleted does not keep the others from it.
        found.failed.map_or(Ok(Swept { done: found.done, more: false }), |error| Err(error.into()))
    }
}

/// What a walk has come to so far.
#[derive(Default)]
struct Found {
    done: usize,
    failed: Option<BlobError>,
}

impl Orphans {
    /// Walks over all objects whose keys begin with `prefix`.
    async fn walk(&self, prefix: &str, found: &mut Found) -> Result<(), Error> {
        let now = self.store.now().await?;
        let page_size = self.batch as usize;
        let mut after: Option<BlobKey> = None;
        loop {
            let page = self.blob.list(prefix, after.as_ref(), page_size).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.key.clone());
            let old = page.iter().filter(|object| now.since(object.modified_at) >= self.age);
            let keys: Vec<BlobKey> = old.map(|object| object.key.clone()).collect();
            if keys.is_empty() {
                continue;
            }
            for key in self.store.unnamed(&keys).await? {
                match self.remover.remove(&key).await {
                    Ok(()) => {
                        tracing::warn!(%key, "deleted an object that no row names");
                        found.done += 1;
                    }
                    Err(Kept::Store(error)) => return Err(error.into()),
                    Err(Kept::Object(error)) => {
                        tracing::debug!(error = %Causes(&error), %key, "could not delete an object that no row names");
                        found.failed = Some(error);
                    }
                }
            }
        }
    }
}
