//! What a request came with is there for as long as its job can run.

use std::time::Duration;

use super::*;
use crate::outcome::HandBack;
use crate::state::JobState;
use crate::store::StoreError;
use crate::tenant::TenantLimits;

/// How long inputs wait for their job.
const LIFE: Duration = Duration::from_secs(3_600);

fn keys(job: JobId) -> Vec<BlobKey> {
    (0..2).map(|index| BlobKey::input(&tenant(), job, index, &"7e".repeat(32))).collect()
}

async fn expect(store: &dyn Store, job: JobId, keys: &[BlobKey]) {
    store.expect_inputs(job, keys, LIFE).await.expect("the store answers");
}

/// A job to be made whose inputs are noted.
async fn with_inputs(store: &dyn Store) -> NewJob {
    let new = new_job();
    let inputs = keys(new.id);
    expect(store, new.id, &inputs).await;
    NewJob { inputs, ..new }
}

async fn create_with_inputs(store: &dyn Store) -> (Job, Vec<BlobKey>) {
    let new = with_inputs(store).await;
    let keys = new.inputs.clone();
    (store.create(new).await.expect("a job is made"), keys)
}

/// A job with inputs that a worker has begun.
async fn running_with_inputs(store: &dyn Store) -> (Lease, Vec<BlobKey>) {
    let (job, keys) = create_with_inputs(store).await;
    let lease = claim(store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    (lease, keys)
}

/// Sees that none of the keys can be collected, and that the store knows them.
async fn assert_kept(store: &dyn Store, keys: &[BlobKey], when: &str) {
    let garbage = garbage(store).await;
    assert!(keys.iter().all(|key| !garbage.contains(key)), "{when}: {garbage:?}");
    assert_eq!(store.unnamed(keys).await.expect("the store answers"), [], "{when}");
}

/// Sees that all of the keys can be collected, and forgets whatever can.
async fn assert_garbage(store: &dyn Store, keys: &[BlobKey], when: &str) {
    let garbage = garbage(store).await;
    assert!(keys.iter().all(|key| garbage.contains(key)), "{when}: {garbage:?}");
    store.forget_garbage(&garbage).await.expect("the store answers");
}

async fn assert_gone(store: &dyn Store, new: NewJob, why: &str) {
    let id = new.id;
    match store.create(new).await {
        Err(StoreError::InputsGone { id: refused }) => assert_eq!(refused, id, "{why}"),
        other => panic!("{why}: answered {other:?}"),
    }
    assert_eq!(store.get(&tenant(), id).await.expect("the store answers"), None, "{why}");
}

/// From before the first byte is stored its key is known, and nobody collects it while its job may yet come.
pub async fn inputs_whose_job_never_comes_are_garbage_in_the_end(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = JobId::new();
    let keys = keys(id);
    expect(&*store, id, &keys).await;
    assert_kept(&*store, &keys, "at first").await;
    harness.advance(LIFE - Duration::from_secs(10)).await;
    assert_kept(&*store, &keys, "within their life").await;
    let now = store.now().await.expect("the store answers");
    let due = store.next_due(now).await.expect("the store answers").expect("they are collected by themselves");
    assert!(due <= now.plus(Duration::from_secs(10)), "{due} after {now}");
    // Noting them again does not make them younger.
    expect(&*store, id, &keys).await;
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(garbage(&*store).await, keys);
    assert_eq!(store.unnamed(&keys).await.expect("the store answers"), []);
    store.forget_garbage(&keys).await.expect("the store answers");
    assert_eq!(store.unnamed(&keys).await.expect("the store answers"), keys);
}

/// Whatever happens to the claims of a job, its inputs are there for the next one.
pub async fn inputs_are_kept_while_their_job_can_run(harness: &impl StoreHarness) {
    let store = harness.store();
    let (job, keys) = create_with_inputs(&*store).await;
    harness.advance(2 * LIFE).await;
    assert_kept(&*store, &keys, "while the job waits").await;
    let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
    let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("no room") };
    for hand_back in [HandBack::Drained, unwell, retry] {
        let lease = claim(&*store, job.id).await.lease;
        store.begin(&lease).await.expect("the lease holds");
        keep(&*store, &lease, 1).await;
        let before = keep(&*store, &lease, 2).await;
        assert_kept(&*store, &keys, "while the job runs").await;
        let when = format!("after {hand_back:?}");
        assert_eq!(store.hand_back(&lease, hand_back).await.expect("the lease holds"), JobState::Queued);
        harness.advance(lease_duration()).await;
        assert_kept(&*store, &keys, &when).await;
        assert_eq!(get(&*store, job.id).await.checkpoint, Some(before));
    }
    let lease = claim(&*store, job.id).await.lease;
    harness.advance(lease_duration()).await;
    assert_eq!(store.reclaim_expired(9).await.expect("the store answers").requeued, [job.id]);
    assert_kept(&*store, &keys, "after a lost lease").await;
    // Nor can anybody put them off or forget them.
    store.postpone_garbage(&keys).await.expect("the store answers");
    store.forget_garbage(&keys).await.expect("the store answers");
    assert_kept(&*store, &keys, "at the end").await;
    assert_fenced(&*store, &lease).await;
    assert_kept(&*store, &keys, "after what a zombie said").await;
}

/// A completed or cancelled job does not run again: its inputs go at once, whoever ended it.
pub async fn inputs_go_with_the_end_of_their_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let (waits, keys) = create_with_inputs(&*store).await;
    store.cancel(&tenant(), waits.id).await.expect("the store answers");
    assert_garbage(&*store, &keys, "cancelled while it waited").await;

    let (lease, keys) = running_with_inputs(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_garbage(&*store, &keys, "completed").await;

    let retry = HandBack::Retry { after: None, error: failed("broken") };
    let mut cancelled = Vec::new();
    for end in 0..6 {
        let (lease, keys) = running_with_inputs(&*store).await;
        store.cancel(&tenant(), lease.job).await.expect("the store answers");
        assert_kept(&*store, &keys, "while its worker has not heard of the cancel").await;
        match end {
            0 => drop(store.finish(&lease, Outcome::Cancelled).await.expect("the lease holds")),
            1 => drop(store.finish(&lease, completed(&lease)).await.expect("the lease holds")),
            2 => drop(store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds")),
            3 => drop(store.hand_back(&lease, retry.clone()).await.expect("the lease holds")),
            4 => drop(store.reclaim_from_dead(&[]).await.expect("the store answers")),
            _ => {
                harness.advance(lease_duration()).await;
                store.reclaim_expired(9).await.expect("the store answers");
            }
        }
        assert_eq!(get(&*store, lease.job).await.state, JobState::Cancelled, "end {end}");
        assert_garbage(&*store, &keys, "cancelled while it ran").await;
        cancelled.push(lease.job);
    }
    harness.advance(lease_duration()).await;
    let left = garbage(&*store).await;
    assert!(left.iter().all(|key| !key.as_str().contains("input")), "{left:?}");
}

/// A failed job can be retried, and then needs what it came with.
pub async fn a_failed_job_keeps_its_inputs(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut failures = Vec::new();

    let (lease, keys) = running_with_inputs(&*store).await;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    failures.push((lease.job, keys));

    let (job, keys) = create_with_inputs(&*store).await;
    for _ in 0..Policy::default().max_attempts {
        let lease = claim(&*store, job.id).await.lease;
        store.begin(&lease).await.expect("the lease holds");
        let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
        store.hand_back(&lease, retry).await.expect("the lease holds");
    }
    failures.push((job.id, keys));

    let (job, keys) = create_with_inputs(&*store).await;
    for _ in 0..Policy::default().max_attempts {
        let lease = claim(&*store, job.id).await.lease;
        store.begin(&lease).await.expect("the lease holds");
        harness.advance(lease_duration()).await;
        store.reclaim_expired(9).await.expect("the store answers");
    }
    failures.push((job.id, keys));

    let new = NewJob { start_within: Some(Duration::from_secs(10)), ..with_inputs(&*store).await };
    let keys = new.inputs.clone();
    let late = store.create(new).await.expect("a job is made");
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(store.fail_overdue(9).await.expect("the store answers"), [late.id]);
    failures.push((late.id, keys));

    harness.advance(2 * LIFE).await;
    for (id, keys) in failures {
        assert_eq!(get(&*store, id).await.state, JobState::Failed);
        assert_kept(&*store, &keys, "failed").await;
        store.retry(&tenant(), id).await.expect("the store answers");
        let lease = claim(&*store, id).await.lease;
        assert_kept(&*store, &keys, "running again").await;
        store.finish(&lease, completed(&lease)).await.expect("the lease holds");
        assert_garbage(&*store, &keys, "completed at last").await;
    }
}

/// Nothing of a job is left once it is deleted, by its owner or by age.
pub async fn inputs_are_deleted_with_their_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let (waits, keys) = create_with_inputs(&*store).await;
    store.delete(&tenant(), waits.id).await.expect("the store answers");
    assert_garbage(&*store, &keys, "deleted while it waited").await;

    let (lease, keys) = running_with_inputs(&*store).await;
    store.delete(&tenant(), lease.job).await.expect("the store answers");
    assert_kept(&*store, &keys, "while its worker may be reading").await;
    harness.advance(lease_duration()).await;
    assert_garbage(&*store, &keys, "deleted while it ran").await;

    let life = Duration::from_secs(100);
    let purging = harness.store_with(Policy { record_life: Some(life), ..Policy::default() }).await;
    let (lease, keys) = running_with_inputs(&*store).await;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    harness.advance(life).await;
    assert_eq!(purging.purge_records(9).await.expect("the store answers"), [lease.job]);
    assert_garbage(&*store, &keys, "purged").await;
}

/// A job is made with all of its inputs or not at all, and a refusal changes nothing.
pub async fn a_job_whose_inputs_are_gone_is_not_made(harness: &impl StoreHarness) {
    let store = harness.store();
    let new = new_job();
    let inputs = keys(new.id);
    let new = NewJob { inputs: inputs.clone(), ..new };
    assert_gone(&*store, new.clone(), "nothing is noted").await;
    expect(&*store, new.id, &inputs[..1]).await;
    assert_gone(&*store, new.clone(), "one is not noted").await;
    expect(&*store, JobId::new(), &inputs[1..]).await;
    assert_gone(&*store, new.clone(), "one is another job's").await;
    // What was there is as it was, and a key that is named twice is one input.
    let twice = NewJob { inputs: vec![inputs[0].clone(), inputs[0].clone()], ..new };
    store.create(twice).await.expect("a job is made");
    harness.advance(LIFE).await;
    assert_kept(&*store, &inputs[..1], "the input of a job").await;
    assert_garbage(&*store, &inputs[1..], "nobody's").await;

    let late = with_inputs(&*store).await;
    harness.advance(LIFE).await;
    assert_gone(&*store, late.clone(), "their time has passed").await;
    store.postpone_garbage(&late.inputs).await.expect("the store answers");
    store.forget_garbage(&late.inputs).await.expect("the store answers");
    assert_gone(&*store, late, "they were collected").await;

    // The inputs of a job are no other's.
    let (_, taken) = create_with_inputs(&*store).await;
    assert_gone(&*store, NewJob { inputs: taken, ..new_job() }, "they belong to a job").await;
}

/// Who sends a create again after its answer was lost hears that it has succeeded, whatever became of the job.
pub async fn a_create_with_inputs_that_is_sent_again_is_a_duplicate(harness: &impl StoreHarness) {
    let store = harness.store();
    let new = with_inputs(&*store).await;
    let (first, second) = tokio::join!(store.create(new.clone()), store.create(new.clone()));
    let (made, refused) = if first.is_ok() { (first, second) } else { (second, first) };
    assert_eq!(made.expect("one of two is made").id, new.id);
    assert!(matches!(refused, Err(StoreError::Duplicate { id }) if id == new.id), "{refused:?}");
    let again = async |when: &str| {
        let refused = store.create(new.clone()).await;
        assert!(matches!(refused, Err(StoreError::Duplicate { id }) if id == new.id), "{when}: {refused:?}");
    };
    let limits = TenantLimits { max_queued: Some(1), ..TenantLimits::default() };
    store.set_tenant(&tenant(), &limits).await.expect("the store answers");
    again("the queue is full of it").await;
    let lease = claim(&*store, new.id).await.lease;
    again("it runs").await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    again("its inputs are garbage").await;
    store.forget_garbage(&new.inputs).await.expect("the store answers");
    again("its inputs are gone").await;
}

/// A refusal for the queue's sake leaves the inputs for another try.
pub async fn a_full_queue_leaves_inputs_as_they_are(harness: &impl StoreHarness) {
    let store = harness.store();
    let limit = async |most| {
        let limits = TenantLimits { max_queued: Some(most), ..TenantLimits::default() };
        store.set_tenant(&tenant(), &limits).await.expect("the store answers");
    };
    limit(1).await;
    create_with_inputs(&*store).await;
    let new = with_inputs(&*store).await;
    let refused = store.create(new.clone()).await;
    assert!(matches!(refused, Err(StoreError::QueueFull { limit: 1, .. })), "{refused:?}");
    limit(2).await;
    store.create(new.clone()).await.expect("a job is made");
    harness.advance(LIFE).await;
    assert_kept(&*store, &new.inputs, "the input of a job").await;
}

/// Who was refused need not leave what it had stored for as long as it would have waited.
pub async fn inputs_that_are_given_up_go_at_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let (new, other) = (with_inputs(&*store).await, with_inputs(&*store).await);
    // Neither an unknown key nor another job's is touched, and one may be named twice.
    let unknown = BlobKey::input(&tenant(), new.id, 9, &"7e".repeat(32));
    let asked = [&new.inputs[..], &new.inputs[..1], &other.inputs[..], std::slice::from_ref(&unknown)].concat();
    store.abandon_inputs(new.id, &asked).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, new.inputs);
    assert_kept(&*store, &other.inputs, "another job's").await;
    assert_eq!(store.unnamed(std::slice::from_ref(&unknown)).await.expect("the store answers"), [unknown]);
    assert_gone(&*store, new.clone(), "they were given up").await;
    // Noting them again does not bring them back.
    expect(&*store, new.id, &new.inputs).await;
    assert_gone(&*store, new.clone(), "they may be half deleted").await;
    store.abandon_inputs(new.id, &new.inputs).await.expect("the store answers");
    store.abandon_inputs(new.id, &[]).await.expect("the store answers");
    assert_garbage(&*store, &new.inputs, "given up").await;
    store.create(other).await.expect("a job is made");

    // What could not be deleted waits as long as it has to, and no shorter.
    let new = with_inputs(&*store).await;
    store.abandon_inputs(new.id, &new.inputs).await.expect("the store answers");
    store.postpone_garbage(&new.inputs).await.expect("the store answers");
    store.abandon_inputs(new.id, &new.inputs).await.expect("the store answers");
    assert_kept(&*store, &new.inputs, "put off").await;
}

/// A create may have taken effect although its sender heard of a failure.
pub async fn what_a_job_has_or_had_is_not_given_up(harness: &impl StoreHarness) {
    let store = harness.store();
    let (job, keys) = create_with_inputs(&*store).await;
    let abandon = async |id| store.abandon_inputs(id, &keys).await.expect("the store answers");
    abandon(job.id).await;
    assert_kept(&*store, &keys, "of a job that waits").await;
    let lease = claim(&*store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    abandon(job.id).await;
    assert_kept(&*store, &keys, "of a job that runs").await;
    store.delete(&tenant(), job.id).await.expect("the store answers");
    abandon(job.id).await;
    assert_kept(&*store, &keys, "while the worker of a deleted job may be reading").await;
    harness.advance(lease_duration()).await;
    assert_garbage(&*store, &keys, "deleted while it ran").await;

    let (lease, keys) = running_with_inputs(&*store).await;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    store.abandon_inputs(lease.job, &keys).await.expect("the store answers");
    assert_kept(&*store, &keys, "of a job that can be retried").await;
}

/// Either there is a job with all of its inputs, or none and they are garbage.
pub async fn of_a_create_and_its_abandonment_one_wins(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..10 {
        let new = with_inputs(&*store).await;
        let (made, abandoned) = tokio::join!(store.create(new.clone()), store.abandon_inputs(new.id, &new.inputs));
        abandoned.expect("the store answers");
        match made {
            Ok(_) => assert_kept(&*store, &new.inputs, "of a job that was made").await,
            Err(StoreError::InputsGone { .. }) => assert_garbage(&*store, &new.inputs, "given up").await,
            Err(other) => panic!("{other}"),
        }
    }
}
