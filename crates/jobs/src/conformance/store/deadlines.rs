//! Jobs that have to begin by a time.

use std::time::Duration;

use super::*;
use crate::outcome::HandBack;
use crate::state::{JobState, Status};

/// How long the jobs here may wait.
const WITHIN: Duration = Duration::from_secs(100);

async fn urgent(store: &dyn Store) -> Job {
    make(store, |new| new.start_within = Some(WITHIN)).await
}

async fn fail_overdue(store: &dyn Store) -> Vec<JobId> {
    store.fail_overdue(100).await.expect("the store answers")
}

/// The deadline ends the job, says why, and touches no other.
pub async fn a_job_that_did_not_begin_in_time_fails(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    assert_eq!(job.start_by, Some(job.created_at.plus(WITHIN)));
    let patient = create(&*store).await;
    assert_eq!(patient.start_by, None);
    harness.advance(WITHIN - Duration::from_secs(10)).await;
    assert_eq!(fail_overdue(&*store).await, []);
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(fail_overdue(&*store).await, [job.id]);
    assert_eq!(fail_overdue(&*store).await, []);

    let failed = get(&*store, job.id).await;
    assert_eq!((failed.state, failed.status()), (JobState::Failed, Status::Failed));
    assert_eq!(failed.error.map(|error| error.code), Some(FailureCode::StartDeadlineExceeded));
    assert!(failed.finished_at.is_some());
    assert_eq!(history(&*store, job.id).await, []);
    assert_eq!(store.claim(job.id, &worker()).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &worker()).await, Some(patient.id));
    assert_eq!(next(&*store, &worker()).await, None);
}

/// A worker that claims ahead and gives the job back unbegun has not kept the promise.
pub async fn a_claim_alone_does_not_meet_the_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    harness.advance(WITHIN - Duration::from_secs(30)).await;
    let claimed = claim(&*store, job.id).await;
    assert!(claimed.job.start_by.is_some());
    harness.advance(Duration::from_secs(30)).await;
    // It does not wait any more, so it is its worker's to begin.
    assert_eq!(fail_overdue(&*store).await, []);
    store.hand_back(&claimed.lease, HandBack::Drained).await.expect("the lease holds");
    assert_eq!(fail_overdue(&*store).await, [job.id]);
    assert_eq!(ends(&*store, job.id).await, [Some(AttemptEnd::Drained)]);
    let mut expected = garbage(&*store).await;
    expected.retain(|key| *key != claimed.lease.result_key());
    assert_eq!(expected, []);
}

/// Once it has begun the deadline is met for good, also where another attempt has to begin anew.
pub async fn a_job_that_has_begun_once_is_exempt(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    let lease = claim(&*store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    assert_eq!(get(&*store, job.id).await.start_by, None);
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    let waiting = get(&*store, job.id).await;
    assert_eq!((waiting.state, waiting.start_by), (JobState::Queued, None));

    let unsaid = urgent(&*store).await;
    let lease = claim(&*store, unsaid.id).await.lease;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_eq!(get(&*store, unsaid.id).await.start_by, None);

    harness.advance(WITHIN).await;
    assert_eq!(fail_overdue(&*store).await, []);
    assert_eq!(next(&*store, &worker()).await, Some(job.id));
}

/// The longest overdue first, no more than were asked for, none twice.
pub async fn overdue_jobs_are_failed_up_to_the_limit(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(urgent(&*store).await.id);
        harness.advance(Duration::from_secs(1)).await;
    }
    harness.advance(WITHIN).await;
    let first = store.fail_overdue(2).await.expect("the store answers");
    assert_eq!(first, made[..2]);
    assert_eq!(fail_overdue(&*store).await, made[2..]);
}

/// A sweep that sleeps until the next moment wakes for a deadline, and not for one that was met.
pub async fn the_next_moment_may_be_a_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let now = store.now().await.expect("the store answers");
    let job = urgent(&*store).await;
    let due = async |after| store.next_due(after).await.expect("the store answers");
    let start_by = job.start_by.expect("it has a deadline");
    assert_eq!(due(job.run_at.max(now)).await, Some(start_by));
    assert_eq!(due(start_by).await, None);
    let lease = claim(&*store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    let lease_end = get(&*store, job.id).await.lease_expires_at;
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    // No deadline any more: what is left is the garbage of the claim.
    let now = store.now().await.expect("the store answers");
    assert_eq!(due(now).await, lease_end);
}
