//! Does to a store and to the model what a verb says, and compares.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::super::{StoreHarness, new_job, worker};
use super::verbs::Verb;
use super::world::{Life, Standing, World};
use crate::attempt::AttemptEnd;
use crate::blob::BlobKey;
use crate::capacity::CapacityClass;
use crate::id::{JobId, Tenant};
use crate::job::NewJob;
use crate::lease::{Claimant, Claimed, Lease};
use crate::outbox::{Endpoint, EndpointId, Notice};
use crate::outcome::FailureCode;
use crate::policy::Policy;
use crate::rank::Priority;
use crate::state::JobState;
use crate::store::{ListQuery, Order, Store, StoreError};
use crate::tenant::TenantLimits;

/// More than a life makes of anything.
const ALL: u32 = 1_000;
const SMALL_ROWS: u64 = 1_000;
const LARGE_ROWS: u64 = 12_000;
/// How long inputs wait for their job: less than a lease.
const INPUT_LIFE_S: u64 = 40;

/// One life: the store, the model, and what has come up so far.
pub(super) struct Player<'a, H> {
    harness: &'a H,
    pub(super) store: Arc<dyn Store>,
    tenants: [Tenant; 2],
    pub(super) world: World,
    jobs: Vec<JobId>,
    leases: Vec<Lease>,
}

pub(super) fn store_error(error: StoreError) -> String {
    format!("the store failed: {error}")
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: the store says {found:?}, the model {expected:?}")) }
}

impl<'a, H: StoreHarness> Player<'a, H> {
    pub(super) fn new(harness: &'a H, seed: u8) -> Self {
        let name = |which: &str| format!("life-{seed}-{which}").parse().expect("the name is legal");
        Self {
            harness,
            store: harness.store(),
            tenants: [name("a"), name("b")],
            world: World::default(),
            jobs: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// Plays one verb and compares all jobs, hints and garbage afterwards.
    pub(super) async fn play(&mut self, verb: &Verb) -> Result<(), String> {
        match *verb {
            Verb::Create { tenant, large, low, start_within_s, inputs, late } => {
                let rows = if large { LARGE_ROWS } else { SMALL_ROWS };
                let priority = if low { Priority::Low } else { Priority::Normal };
                let new = NewJob { tenant: self.tenants[tenant].clone(), rows, priority, ..new_job() };
                self.create(tenant, new, start_within_s, inputs, late).await?;
            }
            Verb::ClaimNext { small } => self.claim_next(small).await?,
            Verb::Claim { job, small } => self.claim(job, small).await?,
            Verb::Cancel { job } => self.cancel(job).await?,
            Verb::Delete { job } => self.delete(job).await?,
            Verb::RunAgain { job } => self.run_again(job).await?,
            Verb::Limit { tenant, max_running, max_queued } => {
                let limits = TenantLimits { max_running, max_queued, ..TenantLimits::default() };
                self.limit(tenant, limits).await?;
            }
            Verb::Listen { tenant } => {
                let (id, url) = (EndpointId::new(), "https://example.org/hooks".to_owned());
                let endpoint = Endpoint { id, ..Endpoint::new(self.tenants[tenant].clone(), url) };
                self.store.add_endpoint(&endpoint).await.map_err(store_error)?;
                self.world.endpoints[tenant] += 1;
            }
            Verb::Pause { paused } => self.pause(paused).await?,
            Verb::Wait { seconds } => self.wait(seconds).await,
            Verb::Reclaim => {
                let found = self.store.reclaim_expired(ALL).await.map_err(store_error)?;
                let (requeued, ended) = self.world.reclaim();
                same("requeued", &found.requeued.into_iter().collect(), &requeued)?;
                same("ended", &found.ended.into_iter().collect(), &ended)?;
            }
            Verb::FailOverdue => {
                let found: BTreeSet<JobId> =
                    self.store.fail_overdue(ALL).await.map_err(store_error)?.into_iter().collect();
                same("overdue", &found, &self.world.fail_overdue())?;
            }
            Verb::CollectGarbage => self.collect_garbage().await?,
            Verb::Begin { lease }
            | Verb::Beat { lease, .. }
            | Verb::ExpectCheckpoint { lease, .. }
            | Verb::KeepCheckpoint { lease, .. }
            | Verb::Complete { lease }
            | Verb::Fail { lease }
            | Verb::StopCancelled { lease }
            | Verb::Drain { lease }
            | Verb::Return { lease }
            | Verb::Unwell { lease, .. }
            | Verb::Retry { lease, .. } => {
                // Half of the time the newest, so that lives come to an end now and then.
                let count = self.leases.len();
                let pick = if lease % 2 == 0 { count.checked_sub(1) } else { (lease / 2).checked_rem(count) };
                if let Some(lease) = pick.map(|number| self.leases[number].clone()) {
                    self.under(&lease, verb).await?;
                }
            }
        }
        self.compare().await
    }

    /// Compares histories and deliveries, then deletes everything and sees that nothing is left.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        for (&id, life) in &self.world.jobs {
            let attempts = self.store.attempts(&self.tenants[life.tenant], id).await.map_err(store_error)?;
            let ends: Vec<Option<AttemptEnd>> =
                attempts.iter().map(|attempt| attempt.ended.map(|(_, end)| end)).collect();
            same("history", &ends, &life.ends)?;
        }
        for (id, told) in &self.world.told {
            let mut found: Vec<Notice> = Vec::new();
            for tenant in &self.tenants {
                let deliveries = self.store.deliveries_of(tenant, *id).await.map_err(store_error)?;
                found.extend(deliveries.iter().map(|delivery| delivery.notice));
            }
            same("deliveries", &found, told)?;
        }
        let usage = self.store.usage().await.map_err(store_error)?;
        for (tenant, expected) in self.tenants.iter().zip(self.world.completed) {
            let used = usage.iter().find(|used| used.tenant == *tenant);
            same("usage", &used.map_or((0, 0.0), |used| (used.completed, used.tflop)), &expected)?;
        }
        for number in 0..self.jobs.len() {
            self.delete(number).await?;
        }
        self.pause(false).await?;
        self.wait(Policy::default().lease.as_secs()).await;
        self.collect_garbage().await?;
        same("objects", &self.world.objects.len(), &0)?;
        self.compare().await
    }

    async fn compare(&self) -> Result<(), String> {
        let query = ListQuery { limit: ALL, order: Order::Ascending, ..ListQuery::default() };
        for (number, tenant) in self.tenants.iter().enumerate() {
            let page = self.store.list(tenant, &query).await.map_err(store_error)?;
            self.world.compare(number, tenant, &page.jobs)?;
        }
        let hints = self.store.ready(ALL).await.map_err(store_error)?;
        for class in CapacityClass::all() {
            let found: Vec<JobId> =
                hints.iter().filter(|hint| hint.queue.capacity() == class).map(|hint| hint.job).collect();
            same("hints", &found, &self.world.ready(class))?;
        }
        let mut garbage = self.store.garbage(ALL).await.map_err(store_error)?;
        garbage.sort();
        same("garbage", &garbage, &self.world.garbage())
    }

    /// Notes the inputs of a job and makes it: `late` when their time has passed by then.
    async fn create(
        &mut self,
        tenant: usize,
        new: NewJob,
        within_s: Option<u64>,
        inputs: usize,
        late: bool,
    ) -> Result<(), String> {
        let (id, rows) = (new.id, new.rows);
        let inputs: Vec<BlobKey> = (0..inputs).map(|index| BlobKey::input(&new.tenant, id, index, "5eed")).collect();
        let life_s = if late { 0 } else { INPUT_LIFE_S };
        self.store.expect_inputs(id, &inputs, Duration::from_secs(life_s)).await.map_err(store_error)?;
        let until = self.world.now + life_s;
        self.world.objects.extend(inputs.iter().map(|key| (key.clone(), (id, Standing::Garbage(until)))));

        let (gone, full) = (late && !inputs.is_empty(), self.world.full(tenant));
        let new = NewJob { inputs: inputs.clone(), start_within: within_s.map(Duration::from_secs), ..new };
        let job = match (self.store.create(new).await, gone, full) {
            (Ok(job), false, None) => job,
            (Err(StoreError::InputsGone { id: found }), true, _) => return same("inputs gone", &found, &id),
            (Err(StoreError::QueueFull { limit, .. }), false, Some(most)) => return same("limit", &limit, &most),
            (made, ..) => {
                return Err(format!("create: the store says {made:?}, the model gone: {gone}, full: {full:?}"));
            }
        };
        self.jobs.push(job.id);
        self.world.objects.extend(inputs.into_iter().map(|key| (key, (id, Standing::Input))));
        let life = Life {
            tenant,
            rank: job.rank,
            rows,
            cost: job.cost_tflop,
            state: JobState::Queued,
            attempt: 0,
            spared: 0,
            fence: 0,
            begun: false,
            percent: 0,
            cancel: false,
            run_at: self.world.now,
            start_by: within_s.map(|within| self.world.now + within),
            lease: None,
            expires_at: 0,
            checkpoint: None,
            result: None,
            error: None,
            ends: Vec::new(),
        };
        self.world.jobs.insert(job.id, life);
        Ok(())
    }

    fn claimant(small: bool) -> Claimant {
        Claimant { max_rows: small.then_some(LARGE_ROWS - 1), ..worker() }
    }

    async fn claim_next(&mut self, small: bool) -> Result<(), String> {
        let claimant = Self::claimant(small);
        let expected = self.world.claimable(claimant.max_rows).first().copied();
        let claimed = self.store.claim_next(&claimant).await.map_err(store_error)?;
        self.claimed(claimed, expected)
    }

    async fn claim(&mut self, job: usize, small: bool) -> Result<(), String> {
        let Some(id) = self.pick(job) else {
            return Ok(());
        };
        let claimant = Self::claimant(small);
        let expected = self.world.claimable(claimant.max_rows).into_iter().find(|&other| other == id);
        let claimed = self.store.claim(id, &claimant).await.map_err(store_error)?;
        self.claimed(claimed, expected)
    }

    fn claimed(&mut self, claimed: Option<Claimed>, expected: Option<JobId>) -> Result<(), String> {
        same("claimed", &claimed.as_ref().map(|claimed| claimed.job.id), &expected)?;
        if let Some(Claimed { lease, job }) = claimed {
            self.world.claimed(&lease);
            let kept = self.world.jobs[&lease.job].checkpoint.clone();
            same("checkpoint", &job.checkpoint.map(|checkpoint| checkpoint.key), &kept)?;
            self.leases.push(lease);
        }
        Ok(())
    }

    fn pick(&self, job: usize) -> Option<JobId> {
        job.checked_rem(self.jobs.len()).map(|number| self.jobs[number])
    }

    /// The tenant of a job; of one that is gone, either.
    fn tenant_of(&self, id: JobId) -> &Tenant {
        &self.tenants[self.world.jobs.get(&id).map_or(0, |life| life.tenant)]
    }

    async fn cancel(&mut self, job: usize) -> Result<(), String> {
        let Some(id) = self.pick(job) else {
            return Ok(());
        };
        let cancelled = self.store.cancel(self.tenant_of(id), id).await.map_err(store_error)?;
        let waited = self.world.jobs.get(&id).is_some_and(|life| life.state == JobState::Queued);
        match self.world.jobs.get_mut(&id) {
            Some(life) if life.state == JobState::Queued => {
                life.cancel = true;
                self.world.fail(id, FailureCode::Cancelled, None);
            }
            Some(life) if life.state == JobState::Running => life.cancel = true,
            _ => {}
        }
        let expected = self.world.jobs.get(&id).map(|life| (life.state, waited));
        same("cancelled", &cancelled.map(|cancelled| (cancelled.job.state, cancelled.has_ended_it)), &expected)
    }

    async fn delete(&mut self, job: usize) -> Result<(), String> {
        let Some(id) = self.pick(job) else {
            return Ok(());
        };
        let deleted = self.store.delete(self.tenant_of(id), id).await.map_err(store_error)?;
        same("deleted", &deleted, &self.world.delete(id))
    }

    async fn run_again(&mut self, job: usize) -> Result<(), String> {
        let Some(id) = self.pick(job) else {
            return Ok(());
        };
        let retried = self.store.retry(self.tenant_of(id), id).await.map_err(store_error)?;
        let now = self.world.now;
        if let Some(life) = self.world.jobs.get_mut(&id)
            && life.state == JobState::Failed
        {
            (life.state, life.run_at, life.attempt, life.percent) = (JobState::Queued, now, 0, 0);
            life.spared = 0;
            (life.begun, life.start_by, life.error) = (false, None, None);
        }
        same("retried", &retried.map(|job| job.state), &self.world.jobs.get(&id).map(|life| life.state))
    }

    async fn limit(&mut self, tenant: usize, limits: TenantLimits) -> Result<(), String> {
        self.store.set_tenant(&self.tenants[tenant], &limits).await.map_err(store_error)?;
        self.world.limits[tenant] = limits;
        Ok(())
    }

    async fn pause(&mut self, paused: bool) -> Result<(), String> {
        self.store.set_paused(new_job().partition, paused).await.map_err(store_error)?;
        self.world.paused = paused;
        Ok(())
    }

    async fn wait(&mut self, seconds: u64) {
        self.harness.advance(Duration::from_secs(seconds)).await;
        self.world.now += seconds;
    }

    async fn collect_garbage(&mut self) -> Result<(), String> {
        let found = self.world.garbage();
        self.store.forget_garbage(&found).await.map_err(store_error)?;
        for key in found {
            self.world.objects.remove(&key);
        }
        Ok(())
    }
}
