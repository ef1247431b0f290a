//! Media stores that hang or refuse certain objects.

use std::future::pending;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clapboard_jobs::blob::{ObjectInfo, Opened, Put};
use clapboard_jobs::{Blob, BlobError, BlobKey};

use crate::scripted::Gate;

/// What becomes of the objects that were picked.
enum Way {
    /// They wait at the gate.
    Through(Gate),
    /// They wait at the gate, and move all the time.
    Slowly(Gate),
    /// They move for a while.
    SlowlyFor(Duration),
    /// They are not let in before the gate is open; each that comes is counted.
    Denied(Gate, Arc<AtomicU32>),
    /// They wait at the gate; each that comes is counted.
    Counted(Gate, Arc<AtomicU32>),
    /// They cannot be read before the gate is open; each try to is counted.
    UnreadableUntil(Gate, Arc<AtomicU32>),
    /// They are stored, and nobody who wants to remove them is answered.
    Irremovable,
    /// The store is out of reach for them until the gate is open.
    AwayUntil(Gate),
    /// They are refused.
    Closed,
    /// They are stored, and cannot be read.
    Unreadable,
    /// They are stored, and nobody who wants to read them is answered.
    Silent,
}

fn away() -> BlobError {
    BlobError::Unavailable { doing: "following the story", source: "as the story says".into() }
}

/// A real media store, before which objects whose keys have a certain part wait or are refused.
pub(crate) struct GatedBlob {
    inner: Arc<dyn Blob>,
    part: &'static str,
    way: Way,
}

impl GatedBlob {
    /// Lets objects whose keys have this part wait until the gate is open.
    pub(crate) fn over(inner: &Arc<dyn Blob>, part: &'static str) -> (Arc<dyn Blob>, Gate) {
        let gate = Gate::default();
        let blob = Self { inner: Arc::clone(inner), part, way: Way::Through(gate.clone()) };
        (Arc::new(blob), gate)
    }

    /// Lets objects whose keys have this part move, and not come to their end until the gate is open.
    pub(crate) fn slow(inner: &Arc<dyn Blob>, part: &'static str) -> (Arc<dyn Blob>, Gate) {
        let gate = Gate::default();
        let blob = Self { inner: Arc::clone(inner), part, way: Way::Slowly(gate.clone()) };
        (Arc::new(blob), gate)
    }

    /// Lets objects whose keys have this part move for a while, and then through.
    pub(crate) fn slow_for(inner: &Arc<dyn Blob>, part: &'static str, duration: Duration) -> Arc<dyn Blob> {
        Arc::new(Self { inner: Arc::clone(inner), part, way: Way::SlowlyFor(duration) })
    }

    /// Lets nobody put anything until the gate is open, and counts those who try.
    pub(crate) fn denied(inner: &Arc<dyn Blob>) -> (Arc<dyn Blob>, Gate, Arc<AtomicU32>) {
        let (gate, count) = (Gate::default(), Arc::new(AtomicU32::new(0)));
        let way = Way::Denied(gate.clone(), Arc::clone(&count));
        (Arc::new(Self { inner: Arc::clone(inner), part: "", way }), gate, count)
    }

    /// Lets every object wait until the gate is open, and counts them.
    pub(crate) fn counted(inner: &Arc<dyn Blob>) -> (Arc<dyn Blob>, Gate, Arc<AtomicU32>) {
        let (gate, count) = (Gate::default(), Arc::new(AtomicU32::new(0)));
        let way = Way::Counted(gate.clone(), Arc::clone(&count));
        (Arc::new(Self { inner: Arc::clone(inner), part: "", way }), gate, count)
    }

    /// Stores objects whose keys have this part, lets nobody read them until the gate is open, and counts those who try.
    pub(crate) fn unreadable_until(inner: &Arc<dyn Blob>, part: &'static str) -> (Arc<dyn Blob>, Gate, Arc<AtomicU32>) {
        let (gate, count) = (Gate::default(), Arc::new(AtomicU32::new(0)));
        let way = Way::UnreadableUntil(gate.clone(), Arc::clone(&count));
        (Arc::new(Self { inner: Arc::clone(inner), part, way }), gate, count)
    }

    /// Stores objects whose keys have this part, and answers nobody who wants to remove them.
    pub(crate) fn irremovable(inner: &Arc<dyn Blob>, part: &'static str) -> Arc<dyn Blob> {
        Arc::new(Self { inner: Arc::clone(inner), part, way: Way::Irremovable })
    }

    fn picks(&self, key: &BlobKey) -> bool {
        key.as_str().contains(self.part)
    }

    /// Refuses objects whose keys have this part.
    pub(crate) fn closed(inner: &Arc<dyn Blob>, part: &'static str) -> Arc<dyn Blob> {
        Arc::new(Self { inner: Arc::clone(inner), part, way: Way::Closed })
    }

    /// Is out of reach for objects whose keys have this part until the gate is open.
    pub(crate) fn away_until(inner: &Arc<dyn Blob>, part: &'static str) -> (Arc<dyn Blob>, Gate) {
        let gate = Gate::default();
        let blob = Self { inner: Arc::clone(inner), part, way: Way::AwayUntil(gate.clone()) };
        (Arc::new(blob), gate)
    }

    /// Stores objects whose keys have this part, and lets nobody read them.
    pub(crate) fn unreadable(inner: &Arc<dyn Blob>, part: &'static str) -> Arc<dyn Blob> {
        Arc::new(Self { inner: Arc::clone(inner), part, way: Way::Unreadable })
    }

    /// Stores objects whose keys have this part, and answers nobody who wants to read them.
    pub(crate) fn silent(inner: &Arc<dyn Blob>, part: &'static str) -> Arc<dyn Blob> {
        Arc::new(Self { inner: Arc::clone(inner), part, way: Way::Silent })
    }
}

#[async_trait]
impl Blob for GatedBlob {
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
        if self.picks(key) {
            match &self.way {
                Way::Counted(gate, count) => {
                    count.fetch_add(1, Ordering::SeqCst);
                    while !gate.is_open() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Way::Through(gate) => {
                    while !gate.is_open() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Way::Slowly(gate) => {
                    while !gate.is_open() {
                        moved();
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Way::SlowlyFor(duration) => {
                    let begun = Instant::now();
                    while begun.elapsed() < *duration {
                        moved();
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Way::Denied(gate, count) if !gate.is_open() => {
                    count.fetch_add(1, Ordering::SeqCst);
                    return Err(BlobError::Denied { doing: "following the story", source: "as the story says".into() });
                }
                Way::AwayUntil(gate) if !gate.is_open() => return Err(away()),
                Way::Closed => return Err(away()),
                Way::Denied(..) | Way::AwayUntil(_) => {}
                Way::Irremovable | Way::Unreadable | Way::UnreadableUntil(..) | Way::Silent => {}
            }
        }
        self.inner.put_file(key, file, moved).await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        self.inner.head(key).await
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        if matches!(self.way, Way::Unreadable) && self.picks(key) {
            return Err(away());
        }
        if let Way::UnreadableUntil(gate, count) = &self.way
            && self.picks(key)
        {
            count.fetch_add(1, Ordering::SeqCst);
            if !gate.is_open() {
                return Err(away());
            }
        }
        if matches!(self.way, Way::Silent) && self.picks(key) {
            return pending().await;
        }
        self.inner.open(key, range).await
    }

    async fn link(&self, key: &BlobKey, life: Duration, file_name: &str) -> Result<Option<String>, BlobError> {
        self.inner.link(key, life, file_name).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        if matches!(self.way, Way::Irremovable) && self.picks(key) {
            return pending().await;
        }
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        self.inner.list(prefix, after, limit).await
    }
}
