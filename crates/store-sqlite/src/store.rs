//! The store: its connections, and the verbs tied to the trait.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{
    Attempt, Beat, BlobKey, Claimant, Claimed, Clock, HandBack, Hint, Job, JobId, JobPage, JobState, Lease, LeaseError,
    ListQuery, Micros, NewJob, Outcome, Policy, Progress, Store, StoreError, Tenant, WorkerId,
};
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

use crate::error::unavailable;
use crate::identity::Identity;
use crate::{cancel, claim, create, finish, garbage, progress, read, sweep};

/// Jobs in a SQLite file.
pub struct SqliteStore {
    /// One connection, so that writers of this process queue up instead of meeting at the lock.
    writer: SqlitePool,
    readers: SqlitePool,
    identity: Identity,
    policy: Policy,
    clock: Arc<dyn Clock>,
}

impl SqliteStore {
    pub(crate) fn over(
        writer: SqlitePool,
        readers: SqlitePool,
        identity: Identity,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { writer, readers, identity, policy, clock }
    }

    /// Begins a transaction that may write, into the file that was opened or not at all.
    pub(crate) async fn begin(&self, doing: &'static str) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.require_file(doing)?;
        self.writer.begin_with("begin immediate").await.map_err(unavailable(doing))
    }

    fn require_file(&self, doing: &'static str) -> Result<(), StoreError> {
        self.identity.check().map_err(|error| StoreError::Unavailable { doing, source: error.into() })
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Closes the connections, which moves what is in the write-ahead log into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> Result<Micros, StoreError> {
        self.require_file("reading the clock")?;
        Ok(self.clock.now())
    }

    async fn create(&self, job: NewJob) -> Result<Job, StoreError> {
        create::create(self, job).await
    }

    async fn get(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        read::get(self, tenant, id).await
    }

    async fn list(&self, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
        read::list(self, tenant, query).await
    }

    async fn attempts(&self, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
        read::attempts(self, tenant, id).await
    }

    async fn queue_position(&self, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError> {
        read::queue_position(self, tenant, id).await
    }

    async fn cancel(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        cancel::cancel(self, tenant, id).await
    }

    async fn delete(&self, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
        cancel::delete(self, tenant, id).await
    }

    async fn claim(&self, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        claim::claim(self, id, claimant).await
    }

    async fn claim_next(&self, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        claim::claim_next(self, claimant).await
    }

    async fn begin(&self, lease: &Lease) -> Result<Beat, LeaseError> {
        progress::begin(self, lease).await
    }

    async fn beat(&self, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError> {
        progress::beat(self, lease, progress).await
    }

    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError> {
        finish::finish(self, lease, outcome).await
    }

    async fn hand_back(&self, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError> {
        finish::hand_back(self, lease, hand_back).await
    }

    async fn ready(&self, limit: u32) -> Result<Vec<Hint>, StoreError> {
        sweep::ready(self, limit).await
    }

    async fn reclaim_expired(&self, limit: u32) -> Result<Reclaimed, StoreError> {
        sweep::reclaim_expired(self, limit).await
    }

    async fn reclaim_from_dead(&self, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
        sweep::reclaim_from_dead(self, living).await
    }

    async fn next_due(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        sweep::next_due(self, after).await
    }

    async fn garbage(&self, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
        garbage::garbage(self, limit).await
    }

    async fn forget_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        garbage::forget(self, keys).await
    }

    async fn unnamed(&self, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
        garbage::unnamed(self, keys).await
    }
}
