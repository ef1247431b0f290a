//! The model: what a store must hold after each verb, without tables and without a clock.

use std::collections::{BTreeMap, BTreeSet};

use crate::attempt::AttemptEnd;
use crate::blob::BlobKey;
use crate::capacity::CapacityClass;
use crate::id::{JobId, Tenant};
use crate::job::Job;
use crate::lease::Lease;
use crate::outbox::Notice;
use crate::outcome::FailureCode;
use crate::policy::Policy;
use crate::progress::Progress;
use crate::state::JobState;
use crate::tally::MAX_SPARED;
use crate::tenant::TenantLimits;

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Expected,
    Named,
    /// What the request of its job came with.
    Input,
    /// To be collected from that second on.
    Garbage(u64),
}

/// A job of the model. Times are in seconds since the beginning.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) tenant: usize,
    pub(super) rank: f64,
    pub(super) rows: u64,
    pub(super) cost: f64,
    pub(super) state: JobState,
    pub(super) attempt: u32,
    pub(super) spared: u32,
    pub(super) fence: i64,
    pub(super) begun: bool,
    pub(super) percent: u8,
    pub(super) cancel: bool,
    pub(super) run_at: u64,
    pub(super) start_by: Option<u64>,
    pub(super) lease: Option<Lease>,
    pub(super) expires_at: u64,
    pub(super) checkpoint: Option<BlobKey>,
    pub(super) result: Option<BlobKey>,
    pub(super) error: Option<FailureCode>,
    pub(super) ends: Vec<Option<AttemptEnd>>,
}

/// Everything that a store holds.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) paused: bool,
    pub(super) limits: [TenantLimits; 2],
    pub(super) endpoints: [usize; 2],
    pub(super) completed: [(u64, f64); 2],
    pub(super) jobs: BTreeMap<JobId, Life>,
    /// What was told about jobs, deleted ones too.
    pub(super) told: BTreeMap<JobId, Vec<Notice>>,
    pub(super) objects: BTreeMap<BlobKey, (JobId, Standing)>,
}

impl World {
    fn in_state(&self, tenant: usize, state: JobState) -> usize {
        self.jobs.values().filter(|life| life.tenant == tenant && life.state == state).count()
    }

    /// How many more jobs of the tenant may run.
    fn room(&self, tenant: usize) -> usize {
        let running = self.in_state(tenant, JobState::Running);
        self.limits[tenant].max_running.map_or(usize::MAX, |most| (most as usize).saturating_sub(running))
    }

    /// The limit of the tenant's queue, where it is reached.
    pub(super) fn full(&self, tenant: usize) -> Option<u32> {
        let queued = self.in_state(tenant, JobState::Queued);
        self.limits[tenant].max_queued.filter(|&most| queued >= most as usize)
    }

    /// The jobs that wait, are due and may still begin, in the order of their claim.
    fn due(&self) -> Vec<(JobId, &Life)> {
        let mut due: Vec<(JobId, &Life)> = self
            .jobs
            .iter()
            .filter(|(_, life)| life.state == JobState::Queued && life.run_at <= self.now && !self.paused)
            .filter(|(_, life)| life.start_by.is_none_or(|by| by > self.now))
            .map(|(&id, life)| (id, life))
            .collect();
        due.sort_by(|(a, one), (b, other)| one.rank.total_cmp(&other.rank).then(a.cmp(b)));
        due
    }

    /// The jobs that a worker may have, in the order of their claim.
    pub(super) fn claimable(&self, max_rows: Option<u64>) -> Vec<JobId> {
        self.due()
            .into_iter()
            .filter(|(_, life)| self.room(life.tenant) > 0 && max_rows.is_none_or(|most| life.rows <= most))
            .map(|(id, _)| id)
            .collect()
    }

    /// The hints of a class: of each tenant no more than it may still have running.
    pub(super) fn ready(&self, class: CapacityClass) -> Vec<JobId> {
        let mut rooms = [self.room(0), self.room(1)];
        let mut hints = Vec::new();
        for (id, life) in self.due() {
            if CapacityClass::of_rows(life.rows) == class && rooms[life.tenant] > 0 {
                rooms[life.tenant] -= 1;
                hints.push(id);
            }
        }
        hints
    }

    pub(super) fn claimed(&mut self, lease: &Lease) {
        let expires_at = self.now + Policy::default().lease.as_secs();
        let life = self.jobs.get_mut(&lease.job).expect("only a job that is there is claimed");
        (life.state, life.expires_at, life.lease) = (JobState::Running, expires_at, Some(lease.clone()));
        life.attempt += 1;
        life.fence += 1;
        life.ends.push(None);
        self.objects.insert(lease.result_key(), (lease.job, Standing::Expected));
    }

    /// Returns the job of a lease that still holds.
    pub(super) fn held(&mut self, lease: &Lease) -> Option<&mut Life> {
        self.jobs.get_mut(&lease.job).filter(|life| life.lease.as_ref() == Some(lease))
    }

    /// Makes what the job does not name garbage, and its inputs if it cannot run again: what was stored from now on, what was
    /// only expected from `puts_end` on.
    fn discard(&mut self, id: JobId, puts_end: u64) {
        let life = self.jobs.get(&id);
        let named: BTreeSet<BlobKey> =
            life.map(|life| life.checkpoint.iter().chain(&life.result).cloned().collect()).unwrap_or_default();
        let over = life.is_none_or(|life| matches!(life.state, JobState::Completed | JobState::Cancelled));
        for (key, (job, standing)) in &mut self.objects {
            if *job == id && !named.contains(key) {
                *standing = match *standing {
                    Standing::Expected => Standing::Garbage(puts_end),
                    Standing::Named => Standing::Garbage(self.now),
                    Standing::Input if over => Standing::Garbage(self.now),
                    kept @ (Standing::Input | Standing::Garbage(_)) => kept,
                };
            }
        }
    }

    fn close(&mut self, id: JobId, end: AttemptEnd) {
        let life = self.jobs.get_mut(&id).expect("the job is there");
        life.lease = None;
        *life.ends.last_mut().expect("it was claimed") = Some(end);
    }

    /// Ends a job without a result: as cancelled where that was asked for or the error says so.
    pub(super) fn fail(&mut self, id: JobId, code: FailureCode, end: Option<AttemptEnd>) -> JobState {
        if let Some(end) = end {
            self.close(id, end);
        }
        let life = self.jobs.get_mut(&id).expect("the job is there");
        let code = if life.cancel { FailureCode::Cancelled } else { code };
        life.state = if code == FailureCode::Cancelled { JobState::Cancelled } else { JobState::Failed };
        (life.error, life.checkpoint) = (Some(code), None);
        let (state, tenant, puts_end) = (life.state, life.tenant, life.expires_at.max(self.now));
        self.discard(id, puts_end);
        self.tell(id, tenant, Notice::Failed);
        state
    }

    pub(super) fn complete(&mut self, id: JobId, key: BlobKey) {
        self.close(id, AttemptEnd::Completed);
        self.objects.insert(key.clone(), (id, Standing::Named));
        let life = self.jobs.get_mut(&id).expect("the job is there");
        (life.state, life.begun, life.percent) = (JobState::Completed, true, 100);
        (life.result, life.checkpoint) = (Some(key), None);
        let (tenant, cost, puts_end) = (life.tenant, life.cost, life.expires_at.max(self.now));
        self.completed[tenant].0 += 1;
        self.completed[tenant].1 += cost;
        self.discard(id, puts_end);
        self.tell(id, tenant, Notice::Completed);
    }

    fn tell(&mut self, id: JobId, tenant: usize, notice: Notice) {
        let endpoints = self.endpoints[tenant];
        self.told.entry(id).or_default().extend(std::iter::repeat_n(notice, endpoints));
    }

    pub(super) fn requeue(&mut self, id: JobId, run_at: u64, counts: bool, end: AttemptEnd) {
        self.close(id, end);
        let life = self.jobs.get_mut(&id).expect("the job is there");
        (life.state, life.run_at, life.begun, life.percent) = (JobState::Queued, run_at, false, 0);
        if !counts {
            life.attempt -= 1;
        }
        let puts_end = life.expires_at.max(self.now);
        self.discard(id, puts_end);
    }

    /// Notes that a claim did not count although nobody had asked for its end.
    pub(super) fn spare(&mut self, id: JobId, spared: bool) {
        self.jobs.get_mut(&id).expect("the job is there").spared += u32::from(spared);
    }

    /// Takes back what is held too long; returns the jobs that wait again and those that have ended.
    pub(super) fn reclaim(&mut self) -> (BTreeSet<JobId>, BTreeSet<JobId>) {
        let now = self.now;
        let lost = |life: &Life| life.state == JobState::Running && life.expires_at <= now;
        let lost: Vec<JobId> = self.jobs.iter().filter(|(_, life)| lost(life)).map(|(&id, _)| id).collect();
        let (mut requeued, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for id in lost {
            let life = &self.jobs[&id];
            let counts = life.begun || life.spared >= MAX_SPARED;
            if life.cancel || (counts && life.attempt >= Policy::default().max_attempts) {
                self.fail(id, FailureCode::WorkerLost, Some(AttemptEnd::LeaseLost));
                ended.insert(id);
            } else {
                self.requeue(id, now, counts, AttemptEnd::LeaseLost);
                self.spare(id, !counts);
                requeued.insert(id);
            }
        }
        (requeued, ended)
    }

    /// Fails what did not begin in time, and returns it.
    pub(super) fn fail_overdue(&mut self) -> BTreeSet<JobId> {
        let now = self.now;
        let overdue = |life: &Life| !life.state.is_final() && life.start_by.is_some_and(|by| by <= now);
        let overdue: BTreeSet<JobId> = self.jobs.iter().filter(|(_, life)| overdue(life)).map(|(&id, _)| id).collect();
        for &id in &overdue {
            let life = &self.jobs[&id];
            match (life.lease.is_some(), life.cancel) {
                (false, _) => self.fail(id, FailureCode::StartDeadlineExceeded, None),
                (true, false) => self.fail(id, FailureCode::StartDeadlineExceeded, Some(AttemptEnd::Failed)),
                (true, true) => self.fail(id, FailureCode::Cancelled, Some(AttemptEnd::Cancelled)),
            };
        }
        overdue
    }

    /// Tells whether the lease's job had to begin before now, and has not.
    pub(super) fn is_late(&self, lease: &Lease) -> bool {
        self.jobs.get(&lease.job).and_then(|life| life.start_by).is_some_and(|by| by <= self.now)
    }

    pub(super) fn delete(&mut self, id: JobId) -> Option<JobState> {
        let life = self.jobs.remove(&id)?;
        let after = if life.state == JobState::Running { life.expires_at.max(self.now) } else { self.now };
        // Its worker may also be reading what is stored.
        for (job, standing) in self.objects.values_mut() {
            if *job == id && !matches!(standing, Standing::Garbage(_)) {
                *standing = Standing::Garbage(after);
            }
        }
        Some(life.state)
    }

    /// What can be collected now.
    pub(super) fn garbage(&self) -> Vec<BlobKey> {
        let due = |standing: Standing| matches!(standing, Standing::Garbage(after) if after <= self.now);
        self.objects.iter().filter(|(_, (_, standing))| due(*standing)).map(|(key, _)| key.clone()).collect()
    }

    /// Compares a tenant's jobs as the store lists them.
    pub(super) fn compare(&self, tenant: usize, name: &Tenant, listed: &[Job]) -> Result<(), String> {
        let ours: BTreeSet<JobId> =
            self.jobs.iter().filter(|(_, life)| life.tenant == tenant).map(|(&id, _)| id).collect();
        let theirs: BTreeSet<JobId> = listed.iter().map(|job| job.id).collect();
        if ours != theirs {
            return Err(format!("{name} has {theirs:?}, the model {ours:?}"));
        }
        listed.iter().try_for_each(|job| self.jobs[&job.id].compare(job))
    }
}

impl Life {
    /// Compares the job with its row.
    fn compare(&self, job: &Job) -> Result<(), String> {
        let ended = self.state.is_final();
        let agrees = job.state == self.state
            && job.attempt == self.attempt
            && job.fence.0 == self.fence
            && job.rank == self.rank
            && job.begun_at.is_some() == self.begun
            && job.finished_at.is_some() == ended
            && job.progress.percent == self.percent
            && (ended || job.cancel_requested_at.is_some() == self.cancel)
            && (ended || job.start_by.is_some() == self.start_by.is_some())
            && job.worker == self.lease.as_ref().map(|lease| lease.worker)
            && job.lease_expires_at.is_some() == self.lease.is_some()
            && job.checkpoint.as_ref().map(|kept| &kept.key) == self.checkpoint.as_ref()
            && job.result.as_ref().map(|object| &object.key) == self.result.as_ref()
            && job.report.is_some() == (self.state == JobState::Completed)
            && job.error.as_ref().map(|error| error.code) == self.error;
        if agrees { Ok(()) } else { Err(format!("the store holds {job:#?}\nthe model {self:#?}")) }
    }

    pub(super) fn beat(&mut self, percent: u8) {
        self.percent = self.percent.max(percent.min(Progress::MAX_PERCENT_UNSTORED));
    }
}
