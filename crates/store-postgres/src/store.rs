//! The store: its pool, and the verbs tied to the trait.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;
use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{
    ApiKey, ApiKeyId, Attempt, Backlog, Beat, BlobKey, Cancelled, Checkpoint, Claimant, Claimed, Delivery, DeliveryId,
    DeliveryPage, DeliveryQuery, Due, Endpoint, EndpointChange, EndpointId, Grant, HandBack, Hint, Job, JobId, JobPage,
    JobState, KeyHash, Keyring, Lease, LeaseError, ListQuery, Micros, NewJob, Notice, Orders, Outbox, Outcome, Policy,
    Progress, Secret, Store, StoreError, Submission, Tenant, TenantLimits, Tried, Usage, WorkerCard, WorkerId,
    WorkerRecord,
};
use sqlx::postgres::PgPool;

use crate::error::{NoAnswer, VerbError};
use crate::options::Options;
use crate::{
    backlog, cancel, checkpoint, claim, courier, create, delete, deliveries, endpoints, finish, fleet, garbage, inputs,
    keys, previews, progress, read, ready, retention, room, submissions, sweep, tenants,
};

/// How often a verb whose transaction was rolled back for another's sake is done again.
const REPEATS: u32 = 3;

/// Jobs in a Postgres database.
pub struct PostgresStore {
    /// Made on the runtime that first uses it, because its upkeep runs there.
    pool: OnceLock<PgPool>,
    options: Options,
    policy: Policy,
    verbs: AtomicUsize,
}

/// How the connections of a store are used at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// How many there may be.
    pub limit: usize,
    /// How many are in use.
    pub in_use: usize,
    /// How many verbs wait for one.
    pub waiting: usize,
}

/// A verb under way.
struct Verb<'a>(&'a AtomicUsize);

impl<'a> Verb<'a> {
    fn begin(verbs: &'a AtomicUsize) -> Self {
        verbs.fetch_add(1, Ordering::Relaxed);
        Self(verbs)
    }
}

impl Drop for Verb<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PostgresStore {
    pub(crate) fn over(pool: OnceLock<PgPool>, options: Options, policy: Policy) -> Self {
        Self { pool, options, policy, verbs: AtomicUsize::new(0) }
    }

    /// Tells how the connections are used. A verb uses one at a time, so those that have none wait for one.
    pub fn connections(&self) -> Connections {
        let (size, idle) = self.pool.get().map_or((0, 0), |pool| (pool.size() as usize, pool.num_idle()));
        let in_use = size.saturating_sub(idle);
        let waiting = self.verbs.load(Ordering::Relaxed).saturating_sub(in_use);
        Connections { limit: self.options.max_connections as usize, in_use, waiting }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.pool.get_or_init(|| self.options.pool())
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the length of a lease in microseconds.
    pub(crate) fn lease_micros(&self) -> i64 {
        micros(self.policy.lease)
    }

    /// Closes the connections.
    pub async fn close(&self) {
        if let Some(pool) = self.pool.get() {
            pool.close().await;
        }
    }

    /// Does a verb within the store's patience, and again where the server rolled it back for another's sake.
    ///
    /// Every verb is one transaction that reads all it decides by, so it can be done again whole. That is so even where
    /// its commit was refused, but not where the answer to its commit was not heard: that is an error.
    async fn run<T, E, F, W>(&self, doing: &'static str, work: W) -> Result<T, E>
    where
        E: VerbError,
        F: Future<Output = Result<T, E>> + Send,
        W: Fn() -> F + Send + Sync,
    {
        let _verb = Verb::begin(&self.verbs);
        let waited = self.options.patience();
        let answer = async {
            for _ in 0..REPEATS {
                match work().await {
                    Err(error) if error.is_conflict() => {
                        tracing::debug!(doing, "rolled back for another's sake, once more")
                    }
                    answer => return answer,
                }
            }
            work().await
        };
        match tokio::time::timeout(waited, answer).await {
            Ok(answer) => answer.map_err(|error| error.with_wait(self.options.acquire_timeout, doing)),
            Err(_) => Err(StoreError::Unavailable { doing, source: NoAnswer { waited }.into() }.into()),
        }
    }
}

/// Returns a duration in microseconds, at most so many that the end of it is still a moment.
pub(crate) fn micros(duration: Duration) -> i64 {
    /// About 146,000 years.
    const MOST: i64 = i64::MAX / 2;
    i64::try_from(duration.as_micros()).unwrap_or(MOST).min(MOST)
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("url", &self.options.url)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<Micros, StoreError> {
        self.run("reading the clock", || read::now(self)).await
    }

    async fn check_room(&self, tenant: &Tenant) -> Result<(), StoreError> {
        self.run("looking for room in a queue", || room::check(self, tenant)).await
    }

    async fn expect_inputs(&self, job: JobId, keys: &[BlobKey], life: Duration) -> Result<(), StoreError> {
        self.run("expecting the inputs of a job", || inputs::expect(self, job, keys, life)).await
    }

    async fn abandon_inputs(&self, job: JobId, keys: &[BlobKey]) -> Result<(), StoreError> {
        self.run("giving up the inputs of a job", || inputs::abandon(self, job, keys)).await
    }

    async fn submitted(&self, tenant: &Tenant, submission: &Submission) -> Result<Option<JobId>, StoreError> {
        self.run("looking for a request that came before", || submissions::find(self, tenant, submission)).await
    }

    async fn create(&self, job: NewJob) -> Result<Job, StoreError> {
        self.run("creating a job", || create::create(self, &job)).await
    }

    async fn get(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        self.run("reading a job", || read::get(self, tenant, id)).await
    }

    async fn find(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.run("looking for a job", || read::find_of_any(self, id)).await
    }

    async fn list(&self, tenant: &Tenant, query: &ListQuery) -> Result<JobPage, StoreError> {
        self.run("listing jobs", || read::list(self, tenant, query)).await
    }

    async fn attempts(&self, tenant: &Tenant, id: JobId) -> Result<Vec<Attempt>, StoreError> {
        self.run("reading the attempts of a job", || read::attempts(self, tenant, id)).await
    }

    async fn queue_position(&self, tenant: &Tenant, id: JobId) -> Result<Option<u64>, StoreError> {
        self.run("counting the jobs ahead", || read::queue_position(self, tenant, id)).await
    }

    async fn cancel(&self, tenant: &Tenant, id: JobId) -> Result<Option<Cancelled>, StoreError> {
        self.run("cancelling a job", || cancel::cancel(self, tenant, id)).await
    }

    async fn delete(&self, tenant: &Tenant, id: JobId) -> Result<Option<JobState>, StoreError> {
        self.run("deleting a job", || delete::delete(self, tenant, id)).await
    }

    async fn retry(&self, tenant: &Tenant, id: JobId) -> Result<Option<Job>, StoreError> {
        self.run("retrying a job", || cancel::retry(self, tenant, id)).await
    }

    async fn claim(&self, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        self.run("claiming a job", || claim::claim(self, id, claimant)).await
    }

    async fn claim_next(&self, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
        self.run("claiming the next job", || claim::claim_next(self, claimant)).await
    }

    async fn begin(&self, lease: &Lease) -> Result<Beat, LeaseError> {
        self.run("recording that a job has begun", || progress::begin(self, lease)).await
    }

    async fn beat(&self, lease: &Lease, progress: &Progress) -> Result<Beat, LeaseError> {
        self.run("renewing a lease", || progress::beat(self, lease, progress)).await
    }

    async fn expect_checkpoint(&self, lease: &Lease, step: u32) -> Result<(), LeaseError> {
        self.run("expecting a checkpoint", || checkpoint::expect(self, lease, step)).await
    }

    async fn expect_previews(&self, lease: &Lease) -> Result<(), LeaseError> {
        self.run("expecting pictures of a result", || previews::expect(self, lease)).await
    }

    async fn keep_checkpoint(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), LeaseError> {
        self.run("keeping a checkpoint", || checkpoint::keep(self, lease, checkpoint)).await
    }

    async fn finish(&self, lease: &Lease, outcome: Outcome) -> Result<JobState, LeaseError> {
        self.run("finishing a job", || finish::finish(self, lease, &outcome)).await
    }

    async fn hand_back(&self, lease: &Lease, hand_back: HandBack) -> Result<JobState, LeaseError> {
        self.run("handing a job back", || finish::hand_back(self, lease, &hand_back)).await
    }

    async fn ready(&self, limit: u32) -> Result<Vec<Hint>, StoreError> {
        self.run("looking for jobs that are due", || ready::ready(self, limit)).await
    }

    async fn reclaim_expired(&self, limit: u32) -> Result<Reclaimed, StoreError> {
        self.run("taking back jobs whose leases have ended", || sweep::reclaim_expired(self, limit)).await
    }

    async fn reclaim_from_dead(&self, living: &[WorkerId]) -> Result<Reclaimed, StoreError> {
        self.run("taking back the jobs of dead workers", || sweep::reclaim_from_dead(self, living)).await
    }

    async fn fail_overdue(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.run("failing jobs that did not begin in time", || sweep::fail_overdue(self, limit)).await
    }

    async fn expire_results(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.run("giving up results", || retention::expire_results(self, limit)).await
    }

    async fn purge_records(&self, limit: u32) -> Result<Vec<JobId>, StoreError> {
        self.run("purging records", || retention::purge_records(self, limit)).await
    }

    async fn forget_deleted(&self, limit: u32) -> Result<usize, StoreError> {
        self.run("forgetting deleted jobs", || retention::forget_deleted(self, limit)).await
    }

    async fn next_due(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        self.run("looking for the next moment that matters", || retention::next_due(self, after)).await
    }

    async fn garbage(&self, limit: u32) -> Result<Vec<BlobKey>, StoreError> {
        self.run("looking for garbage", || garbage::garbage(self, limit)).await
    }

    async fn forget_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        self.run("forgetting collected garbage", || garbage::forget(self, keys)).await
    }

    async fn postpone_garbage(&self, keys: &[BlobKey]) -> Result<(), StoreError> {
        self.run("putting garbage off", || garbage::postpone(self, keys)).await
    }

    async fn unnamed(&self, keys: &[BlobKey]) -> Result<Vec<BlobKey>, StoreError> {
        self.run("looking for objects that no row names", || garbage::unnamed(self, keys)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.run("counting what waits", || backlog::read(self)).await
    }

    async fn usage(&self) -> Result<Vec<Usage>, StoreError> {
        self.run("summing up usage", || tenants::usage(self)).await
    }

    async fn set_paused(&self, partition: Partition, paused: bool) -> Result<(), StoreError> {
        self.run("pausing a partition", || fleet::set_paused(self, partition, paused)).await
    }

    async fn paused(&self) -> Result<Vec<Partition>, StoreError> {
        self.run("reading which partitions are paused", || fleet::paused(self)).await
    }

    async fn announce(&self, card: &WorkerCard) -> Result<Orders, StoreError> {
        self.run("announcing a worker", || fleet::announce(self, card)).await
    }

    async fn retire(&self, worker: WorkerId) -> Result<(), StoreError> {
        self.run("retiring a worker", || fleet::retire(self, worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        self.run("listing the workers", || fleet::workers(self)).await
    }

    async fn ask_drain(&self, worker: WorkerId) -> Result<bool, StoreError> {
        self.run("asking a worker to drain", || fleet::ask_drain(self, worker)).await
    }
}

#[async_trait]
impl Keyring for PostgresStore {
    async fn set_tenant(&self, tenant: &Tenant, limits: &TenantLimits) -> Result<(), StoreError> {
        self.run("setting the limits of a tenant", || tenants::set(self, tenant, limits)).await
    }

    async fn tenants(&self) -> Result<Vec<(Tenant, TenantLimits)>, StoreError> {
        self.run("reading the limits of tenants", || tenants::list(self)).await
    }

    async fn add_key(&self, hash: &KeyHash, key: &ApiKey) -> Result<(), StoreError> {
        self.run("adding an API key", || keys::add(self, hash, key)).await
    }

    async fn keys(&self, tenant: Option<&Tenant>) -> Result<Vec<ApiKey>, StoreError> {
        self.run("listing API keys", || keys::list(self, tenant)).await
    }

    async fn revoke_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, StoreError> {
        self.run("revoking an API key", || keys::revoke(self, id)).await
    }

    async fn grant_of(&self, hash: &KeyHash) -> Result<Option<Grant>, StoreError> {
        self.run("looking up an API key", || keys::grant_of(self, hash)).await
    }
}

#[async_trait]
impl Outbox for PostgresStore {
    async fn add_endpoint(&self, endpoint: &Endpoint) -> Result<(), StoreError> {
        self.run("adding an endpoint", || endpoints::add(self, endpoint)).await
    }

    async fn endpoints(&self, tenant: &Tenant) -> Result<Vec<Endpoint>, StoreError> {
        self.run("listing endpoints", || endpoints::list(self, tenant)).await
    }

    async fn endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<Option<Endpoint>, StoreError> {
        self.run("reading an endpoint", || endpoints::get(self, tenant, id)).await
    }

    async fn change_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        change: &EndpointChange,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.run("changing an endpoint", || endpoints::change(self, tenant, id, change)).await
    }

    async fn rotate_secret(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        secret: &Secret,
        keep_old: Option<Duration>,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.run("giving an endpoint a new secret", || endpoints::rotate_secret(self, tenant, id, secret, keep_old))
            .await
    }

    async fn delete_endpoint(&self, tenant: &Tenant, id: EndpointId) -> Result<bool, StoreError> {
        self.run("deleting an endpoint", || endpoints::delete(self, tenant, id)).await
    }

    async fn hook_secret(&self, tenant: &Tenant, candidate: &Secret) -> Result<Secret, StoreError> {
        self.run("reading what signs for single jobs", || endpoints::hook_secret(self, tenant, candidate)).await
    }

    async fn test_endpoint(
        &self,
        tenant: &Tenant,
        id: EndpointId,
        notice: Notice,
    ) -> Result<Option<Delivery>, StoreError> {
        self.run("adding a delivery to try an endpoint with", || deliveries::test(self, tenant, id, notice)).await
    }

    async fn deliveries_of(&self, tenant: &Tenant, job: JobId) -> Result<Vec<Delivery>, StoreError> {
        self.run("reading the deliveries of a job", || deliveries::of_job(self, tenant, job)).await
    }

    async fn deliveries(&self, tenant: &Tenant, query: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        self.run("listing deliveries", || deliveries::list(self, tenant, query)).await
    }

    async fn replay(&self, tenant: &Tenant, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        self.run("replaying a delivery", || deliveries::replay(self, tenant, id)).await
    }

    async fn take_due(
        &self,
        limit: u32,
        per_receiver: u32,
        per_tenant: u32,
        hold: Duration,
    ) -> Result<Vec<Due>, StoreError> {
        self.run("taking deliveries that are due", || courier::take_due(self, limit, per_receiver, per_tenant, hold))
            .await
    }

    async fn tried(&self, id: DeliveryId, number: u32, tried: &Tried) -> Result<(), StoreError> {
        self.run("recording how a delivery went", || courier::tried(self, id, number, tried)).await
    }

    async fn next_delivery(&self, after: Micros) -> Result<Option<Micros>, StoreError> {
        self.run("looking for the next delivery", || courier::next_delivery(self, after)).await
    }

    async fn forget_deliveries(&self, limit: u32) -> Result<usize, StoreError> {
        self.run("forgetting deliveries", || courier::forget(self, limit)).await
    }
}
