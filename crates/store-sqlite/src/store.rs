//! The store: its connections, and the verbs tied to the trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;
use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{
    ApiKey, ApiKeyId, Attempt, Backlog, Beat, BlobKey, Cancelled, Checkpoint, Claimant, Claimed, Clock, Delivery,
    DeliveryId, DeliveryPage, DeliveryQuery, Due, Endpoint, EndpointChange, EndpointId, Grant, HandBack, Hint, Job,
    JobId, JobPage, JobState, KeyHash, Keyring, Lease, LeaseError, ListQuery, Micros, NewJob, Notice, Orders, Outbox,
    Outcome, Policy, Progress, Secret, Store, StoreError, Submission, Tenant, TenantLimits, Tried, Usage, WorkerCard,
    WorkerId, WorkerRecord,
};
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

use crate::error::unavailable;
use crate::identity::Identity;
use crate::{
    attempts, backlog, cancel, checkpoints, claim, courier, create, delete, deliveries, endpoints, finish, fleet,
    heads, keys, lists, objects, pauses, previews, progress, read, retention, room, submissions, sweep, tenants, usage,
};

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

    async fn check_room(&self, tenant: &Tenant) -> Result<(), StoreError> {
        room::check(self, tenant).await
    }

    async fn expect_inputs(&self, job: JobId, keys: &[BlobKey], life: Duration) -> Result<(), StoreError> {
        objects::expect_inputs(self, job, keys, life).await
    }

    async fn abandon_inputs(&self, job: JobId, keys: &[BlobKey]) -> Result<(), StoreError> {
        objects::abandon_inputs(self, job, keys).await
    }

    async fn submitted(&self, tenant: &Tenant, submission: &Submission) -> Result<Option<JobId>, StoreError> {
        submissions::find(self, tenant, submission).await
    }

    async fn create(&self, job: NewJob) -> Result<Job, StoreError> {
        create::create(self, job).await
    }

    async fn get(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        read::get(self, tenant, id).await
    }

    async fn find(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        read::find(self, id).await
    }

    async fn list(&self, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
        lists::list(self, tenant, query).await
    }

    async fn attempts(&self, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
        attempts::read(self, tenant, id).await
    }

    async fn queue_position(&self, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError> {
        read::queue_position(self, tenant, id).await
    }

    async fn cancel(&self, tenant: &Tenant, id: JobId) -> Result<Option<Cancelled>, StoreError> {
        cancel::cancel(self, tenant, id).await
    }

    async fn delete(&self, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
        delete::delete(self, tenant, id).await
    }

    async fn retry(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        cancel::retry(self, tenant, id).await
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

    async fn expect_checkpoint(&self, lease: &Lease, step: u32) -> Result<(), LeaseError> {
        checkpoints::expect(self, lease, step).await
    }

    async fn expect_previews(&self, lease: &Lease) -> Result<(), LeaseError> {
        previews::expect(self, lease).await
    }

    async fn keep_checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), LeaseError> {
        checkpoints::keep(self, lease, checkpoint).await
    }

    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError> {
        finish::finish(self, lease, outcome).await
    }

    async fn hand_back(&self, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError> {
        finish::hand_back(self, lease, hand_back).await
    }

    async fn ready(&self, limit: u32) -> Result<Vec<Hint>, StoreError> {
        heads::ready(self, limit).await
    }

    async fn reclaim_expired(&self, limit: u32) -> Result<Reclaimed, StoreError> {
        sweep::reclaim_expired(self, limit).await
    }

    async fn reclaim_from_dead(&self, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
        sweep::reclaim_from_dead(self, living).await
    }

    async fn fail_overdue(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        sweep::fail_overdue(self, limit).await
    }

    async fn expire_results(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        retention::expire_results(self, limit).await
    }

    async fn purge_records(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        retention::purge_records(self, limit).await
    }

    async fn forget_deleted(&self, limit: u32) -> Result<usize, StoreError> {
        retention::forget_deleted(self, limit).await
    }

    async fn next_due(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        sweep::next_due(self, after).await
    }

    async fn garbage(&self, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
        objects::garbage(self, limit).await
    }

    async fn forget_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        objects::forget(self, keys).await
    }

    async fn postpone_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        objects::postpone(self, keys).await
    }

    async fn unnamed(&self, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
        objects::unnamed(self, keys).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        backlog::read(self).await
    }

    async fn usage(&self) -> Result<Vec<Usage>, StoreError> {
        usage::read(self).await
    }

    async fn set_paused(&self, partition: Partition, paused: bool) -> Result<(), StoreError> {
        pauses::set(self, partition, paused).await
    }

    async fn paused(&self) -> Result<Vec<Partition>, StoreError> {
        pauses::read(self).await
    }

    async fn announce(&self, card: &WorkerCard) -> Result<Orders, StoreError> {
        fleet::announce(self, card).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<(), StoreError> {
        fleet::retire(self, worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        fleet::read(self).await
    }

    async fn ask_drain(&self, worker: WorkerId) -> Result<bool, StoreError> {
        fleet::ask_drain(self, worker).await
    }
}

#[async_trait]
impl Keyring for SqliteStore {
    async fn set_tenant(&self, tenant: &Tenant, limits: &TenantLimits) -> Result<(), StoreError> {
        tenants::set(self, tenant, limits).await
    }

    async fn tenants(&self) -> Result<Vec<(Tenant, TenantLimits)>, StoreError> {
        tenants::list(self).await
    }

    async fn add_key(&self, hash: &KeyHash, key: &ApiKey) -> Result<(), StoreError> {
        keys::add(self, hash, key).await
    }

    async fn keys(&self, tenant: Option<&Tenant>) -> Result<Vec<ApiKey>, StoreError> {
        keys::list(self, tenant).await
    }

    async fn revoke_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        keys::revoke(self, id).await
    }

    async fn grant_of(&self, hash: &KeyHash) -> Result<Option<Grant>, StoreError> {
        keys::grant_of(self, hash).await
    }
}

#[async_trait]
impl Outbox for SqliteStore {
    async fn add_endpoint(&self, endpoint: &Endpoint) -> Result<(), StoreError> {
        endpoints::add(self, endpoint).await
    }

    async fn endpoints(&self, tenant: &Tenant) -> Result<Vec<Endpoint>, StoreError> {
        endpoints::list(self, tenant).await
    }

    async fn endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<Option<Endpoint>, StoreError> {
        endpoints::get(self, tenant, id).await
    }

    async fn change_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        change: &EndpointChange,
    ) -> Result<Option<Endpoint>, StoreError> {
        endpoints::change(self, tenant, id, change).await
    }

    async fn rotate_secret(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        secret: &Secret,
        keep_old: Option<Duration>,
    ) -> Result<Option<Endpoint>, StoreError> {
        endpoints::rotate_secret(self, tenant, id, secret, keep_old).await
    }

    async fn delete_endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<bool, StoreError> {
        endpoints::delete(self, tenant, id).await
    }

    async fn hook_secret(&self, tenant: &Tenant, candidate: &Secret) -> Result<Secret, StoreError> {
        endpoints::hook_secret(self, tenant, candidate).await
    }

    async fn test_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        notice: Notice,
    ) -> Result<Option<Delivery>, StoreError> {
        deliveries::test(self, tenant, id, notice).await
    }

    async fn deliveries_of(&self, tenant: &Tenant, job: JobId) -> Result<Vec<Delivery>, StoreError> {
        deliveries::of_job(self, tenant, job).await
    }

    async fn deliveries(&self, tenant: &Tenant, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        deliveries::list(self, tenant, query).await
    }

    async fn replay(&self, tenant: &Tenant, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        deliveries::replay(self, tenant, id).await
    }

    async fn take_due(
        &self,
        limit: u32,
        per_receiver: u32,
        per_tenant: u32,
        hold: Duration,
    ) -> Result<Vec<Due>, StoreError> {
        courier::take_due(self, limit, per_receiver, per_tenant, hold).await
    }

    async fn tried(&self, id: DeliveryId, number: u32, tried: &Tried) -> Result<(), StoreError> {
        courier::tried(self, id, number, tried).await
    }

    async fn next_delivery(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        courier::next_delivery(self, after).await
    }

    async fn forget_deliveries(&self, limit: u32) -> Result<usize, StoreError> {
        courier::forget(self, limit).await
    }
}
