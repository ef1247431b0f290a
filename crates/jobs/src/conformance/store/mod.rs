//! The suite of [`Store`].

pub mod backlog;
pub mod cancels;
pub mod capacity;
pub mod checkpoints;
pub mod claims;
pub mod deadlines;
pub mod deletes;
pub mod deliveries;
pub mod endings;
pub mod endpoints;
pub mod fencing;
pub mod fleet;
pub mod inputs;
pub mod keys;
pub mod life;
pub mod lists;
pub mod model;
pub mod objects;
pub mod order;
pub mod outbox;
pub mod pauses;
pub mod previews;
pub mod replays;
pub mod retention;
pub mod retries;
pub mod samples;
pub mod submissions;
pub mod tenants;
pub mod usage;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::{GenerationSpec, Partition};

use crate::attempt::{Attempt, AttemptEnd};
use crate::blob::BlobKey;
use crate::checkpoint::{Checkpoint, Fingerprint};
use crate::id::{JobId, Tenant, WorkerId};
use crate::job::{Job, NewJob, Told};
use crate::lease::{Claimant, Claimed, Lease, LeaseError};
use crate::metadata::Metadata;
use crate::outcome::{FailureCode, JobError, Outcome, ResultObject, RunReport};
use crate::policy::Policy;
use crate::progress::{Phase, Progress};
use crate::rank::Priority;
use crate::spec::SpecRecord;
use crate::store::Store;

/// An empty store with [`Policy::default`], and a way to let time pass for it.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// Returns the store; always the same one.
    fn store(&self) -> Arc<dyn Store>;

    /// Lets time pass for everything in the store, at once: by moving its clock, or its rows the other way.
    async fn advance(&self, by: Duration);

    /// Opens the same store once more, by another policy.
    async fn store_with(&self, policy: Policy) -> Arc<dyn Store>;
}

/// How long a lease of the policy lasts.
fn lease_duration() -> Duration {
    Policy::default().lease
}

fn tenant() -> Tenant {
    Tenant::default()
}

fn new_job() -> NewJob {
    NewJob {
        id: JobId::new(),
        tenant: tenant(),
        model: "minimax-h3".to_owned(),
        partition: Partition::Fl2va,
        spec: SpecRecord { version: GenerationSpec::VERSION, json: r#"{"kept":"unread"}"#.to_owned() },
        cost_tflop: 100.0,
        rows: 1_000,
        inputs: Vec::new(),
        priority: Priority::Normal,
        start_within: None,
        result_life: None,
        metadata: Metadata::default(),
        told: Told::default(),
        remixed_from: None,
        hook: None,
        trace: None,
        submission: None,
    }
}

/// A new worker that can run what [`new_job`] makes.
fn worker() -> Claimant {
    Claimant::new(WorkerId::new(), vec![Partition::Fl2va])
}

fn at(phase: Phase, step: u32, total_steps: u32, percent: u8) -> Progress {
    Progress { phase, step, total_steps, percent }
}

fn completed(lease: &Lease) -> Outcome {
    let object = ResultObject { key: lease.result_key(), size_bytes: 4_321, sha256: "5a".repeat(32) };
    let report = RunReport {
        inference_s: 12.5,
        stage_durations_s: [("denoise".to_owned(), 10.25), ("decode_video".to_owned(), 2.0)].into(),
        peak_memory_bytes: 7 << 30,
    };
    Outcome::Completed { object, previews: Vec::new(), report }
}

fn failed(message: &str) -> JobError {
    JobError::new(FailureCode::GenerationFailed, message)
}

/// Another tenant than [`tenant`].
fn named(name: &str) -> Tenant {
    name.parse().expect("the name is legal")
}

async fn create(store: &dyn Store) -> Job {
    make(store, |_| {}).await
}

/// Makes a job that differs from the usual one.
async fn make(store: &dyn Store, change: impl FnOnce(&mut NewJob)) -> Job {
    let mut new = new_job();
    change(&mut new);
    store.create(new).await.expect("a job is made")
}

async fn make_for(store: &dyn Store, tenant: &Tenant) -> Job {
    make(store, |new| new.tenant = tenant.clone()).await
}

async fn claim(store: &dyn Store, id: JobId) -> Claimed {
    store.claim(id, &worker()).await.expect("the store answers").expect("the job can be claimed")
}

/// Claims the job at the head of what the claimant can run.
async fn next(store: &dyn Store, claimant: &Claimant) -> Option<JobId> {
    store.claim_next(claimant).await.expect("the store answers").map(|claimed| claimed.job.id)
}

/// A job that a worker has begun.
async fn running(store: &dyn Store) -> Lease {
    let job = create(store).await;
    let lease = claim(store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    lease
}

async fn get(store: &dyn Store, id: JobId) -> Job {
    store.get(&tenant(), id).await.expect("the store answers").expect("the job is there")
}

/// What can be collected now, in the order of the keys.
async fn garbage(store: &dyn Store) -> Vec<BlobKey> {
    let mut keys = store.garbage(1_000).await.expect("the store answers");
    keys.sort();
    keys
}

fn checkpoint(lease: &Lease, step: u32) -> Checkpoint {
    Checkpoint {
        key: lease.checkpoint_key(step),
        step,
        size_bytes: 1_234_567,
        sha256: "c4".repeat(32),
        fingerprint: Fingerprint("weights-kernels-card".to_owned()),
    }
}

/// Stores the claim's state after `step` steps.
async fn keep(store: &dyn Store, lease: &Lease, step: u32) -> Checkpoint {
    let checkpoint = checkpoint(lease, step);
    store.expect_checkpoint(lease, step).await.expect("the lease holds");
    store.keep_checkpoint(lease, &checkpoint).await.expect("the lease holds");
    checkpoint
}

async fn history(store: &dyn Store, id: JobId) -> Vec<Attempt> {
    store.attempts(&tenant(), id).await.expect("the store answers")
}

async fn ends(store: &dyn Store, id: JobId) -> Vec<Option<AttemptEnd>> {
    history(store, id).await.into_iter().map(|attempt| attempt.ended.map(|(_, end)| end)).collect()
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(verb: &str, answer: Result<T, LeaseError>, lease: &Lease) {
    match answer {
        Err(LeaseError::Lost { job, fence }) => assert_eq!((job, fence), (lease.job, lease.fence), "{verb}"),
        other => panic!("{verb} should have been refused, but answered {other:?}"),
    }
}

/// Tries every verb of a worker and expects each to be refused.
async fn assert_fenced(store: &dyn Store, lease: &Lease) {
    use crate::outcome::HandBack;

    let progress = at(Phase::Denoise, 1, 2, 50);
    let retry = HandBack::Retry { after: None, error: failed("late") };
    let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("late") };
    assert_lost("begin", store.begin(lease).await, lease);
    assert_lost("beat", store.beat(lease, &progress).await, lease);
    assert_lost("expect a checkpoint", store.expect_checkpoint(lease, 1).await, lease);
    assert_lost("keep a checkpoint", store.keep_checkpoint(lease, &checkpoint(lease, 1)).await, lease);
    assert_lost("expect pictures", store.expect_previews(lease).await, lease);
    assert_lost("finish as completed", store.finish(lease, completed(lease)).await, lease);
    assert_lost("finish as failed", store.finish(lease, Outcome::Failed(failed("late"))).await, lease);
    assert_lost("finish as cancelled", store.finish(lease, Outcome::Cancelled).await, lease);
    assert_lost("hand back drained", store.hand_back(lease, HandBack::Drained).await, lease);
    assert_lost("hand back unwell", store.hand_back(lease, unwell).await, lease);
    assert_lost("hand back for a retry", store.hand_back(lease, retry).await, lease);
}
