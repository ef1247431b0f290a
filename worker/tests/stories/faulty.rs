//! A job store and a media store that fail when the story says so.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use clapboard_jobs::blob::{ObjectInfo, Opened, Put};
use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{
    Attempt, Beat, Blob, BlobError, BlobKey, Claimant, Claimed, HandBack, Hint, Job, JobId, JobPage, JobState, Lease,
    LeaseError, ListQuery, Micros, NewJob, Outcome, Progress, Store, StoreError, Tenant, WorkerId,
};

fn unavailable() -> StoreError {
    StoreError::Unavailable { doing: "following the script", source: "as the story says".into() }
}

/// The real store behind a connection that can break.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    beats_refused: AtomicBool,
    finish_lost: AtomicBool,
    finishes: AtomicU32,
}

impl FaultyStore {
    pub(crate) fn over(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            beats_refused: AtomicBool::new(false),
            finish_lost: AtomicBool::new(false),
            finishes: AtomicU32::new(0),
        }
    }

    pub(crate) fn refuse_beats(&self) {
        self.beats_refused.store(true, Ordering::SeqCst);
    }

    /// The next finish takes effect and its answer is lost.
    pub(crate) fn lose_next_finish(&self) {
        self.finish_lost.store(true, Ordering::SeqCst);
    }

    pub(crate) fn finishes(&self) -> u32 {
        self.finishes.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn now(&self) -> Result<Micros, StoreError> {
        self.inner.now().await
    }

    async fn create(&self, job: NewJob) -> Result<Job, StoreError> {
        self.inner.create(job).await
    }

    async fn get(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.get(tenant, id).await
    }

    async fn list(&self, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
        self.inner.list(tenant, query).await
    }

    async fn attempts(&self, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
        self.inner.attempts(tenant, id).await
    }

    async fn queue_position(&self, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError> {
        self.inner.queue_position(tenant, id).await
    }

    async fn cancel(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.cancel(tenant, id).await
    }

    async fn delete(&self, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
        self.inner.delete(tenant, id).await
    }

    async fn claim(&self, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        self.inner.claim(id, claimant).await
    }

    async fn claim_next(&self, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        self.inner.claim_next(claimant).await
    }

    async fn begin(&self, lease: &Lease) -> Result<Beat, LeaseError> {
        self.inner.begin(lease).await
    }

    async fn beat(&self, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError> {
        if self.beats_refused.load(Ordering::SeqCst) {
            return Err(unavailable().into());
        }
        self.inner.beat(lease, progress).await
    }

    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError> {
        self.finishes.fetch_add(1, Ordering::SeqCst);
        let state = self.inner.finish(lease, outcome).await?;
        if self.finish_lost.swap(false, Ordering::SeqCst) {
            return Err(unavailable().into());
        }
        Ok(state)
    }

    async fn hand_back(&self, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError> {
        self.inner.hand_back(lease, hand_back).await
    }

    async fn ready(&self, limit: u32) -> Result<Vec<Hint>, StoreError> {
        self.inner.ready(limit).await
    }

    async fn reclaim_expired(&self, limit: u32) -> Result<Reclaimed, StoreError> {
        self.inner.reclaim_expired(limit).await
    }

    async fn reclaim_from_dead(&self, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
        self.inner.reclaim_from_dead(living).await
    }

    async fn next_due(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        self.inner.next_due(after).await
    }

    async fn garbage(&self, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
        self.inner.garbage(limit).await
    }

    async fn forget_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        self.inner.forget_garbage(keys).await
    }

    async fn unnamed(&self, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
        self.inner.unnamed(keys).await
    }
}

/// The real media store, which is away for a number of puts.
pub(crate) struct FaultyBlob {
    inner: Arc<dyn Blob>,
    failures_left: AtomicU32,
}

impl FaultyBlob {
    pub(crate) fn failing(inner: Arc<dyn Blob>, times: u32) -> Self {
        Self { inner, failures_left: AtomicU32::new(times) }
    }

    pub(crate) fn failures_left(&self) -> u32 {
        self.failures_left.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Blob for FaultyBlob {
    async fn put_file(&self, key: &BlobKey, file: &Path) -> Result<Put, BlobError> {
        let fails = |left: u32| left.checked_sub(1);
        if self.failures_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(BlobError::Unavailable { doing: "following the script", source: "as the story says".into() });
        }
        self.inner.put_file(key, file).await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        self.inner.head(key).await
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        self.inner.open(key, range).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        self.inner.list(prefix, after, limit).await
    }
}
