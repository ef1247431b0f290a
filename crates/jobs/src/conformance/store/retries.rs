//! Failed jobs that are let run again.

use std::time::Duration;

use super::*;
use crate::id::Fence;
use crate::outcome::HandBack;
use crate::state::JobState;

async fn retry(store: &dyn Store, id: JobId) -> Option<Job> {
    store.retry(&tenant(), id).await.expect("the store answers")
}

/// The job waits again as if it had just been made, but keeps its place, its fence and its history.
pub async fn a_failed_job_runs_again_with_all_its_attempts(harness: &impl StoreHarness) {
    let store = harness.store();
    let made = make(&*store, |new| new.start_within = Some(Duration::from_secs(3_600))).await;
    let later = create(&*store).await;
    for _ in 0..made.max_attempts {
        let lease = claim(&*store, made.id).await.lease;
        let again = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
        store.hand_back(&lease, again).await.expect("the lease holds");
    }
    let before = get(&*store, made.id).await;
    assert_eq!((before.state, before.attempt), (JobState::Failed, made.max_attempts));
    let attempts = history(&*store, made.id).await;
    harness.advance(Duration::from_secs(10)).await;
    let now = store.now().await.expect("the store answers");

    let retried = retry(&*store, made.id).await.expect("the job is there");
    assert_eq!(retried, get(&*store, made.id).await);
    assert_eq!((retried.state, retried.attempt, retried.fence), (JobState::Queued, 0, before.fence));
    assert_eq!((&retried.error, retried.finished_at, retried.begun_at), (&None, None, None));
    assert_eq!((retried.start_by, retried.progress, retried.rank), (None, Progress::START, made.rank));
    assert!(retried.run_at >= now, "{} is before {now}", retried.run_at);
    assert_eq!(history(&*store, made.id).await, attempts);
    assert_eq!(retry(&*store, made.id).await, Some(retried));

    let claimed = store.claim_next(&worker()).await.expect("the store answers").expect("a job waits");
    assert_eq!((claimed.job.id, claimed.job.attempt, claimed.lease.fence), (made.id, 1, Fence(4)));
    store.finish(&claimed.lease, completed(&claimed.lease)).await.expect("the lease holds");
    assert_eq!(get(&*store, made.id).await.state, JobState::Completed);
    assert_eq!(history(&*store, made.id).await.len(), 4);
    assert_eq!(next(&*store, &worker()).await, Some(later.id));
}

/// Jobs that wait, run, are completed or were cancelled stay as they are.
pub async fn only_a_failed_job_is_retried(harness: &impl StoreHarness) {
    let store = harness.store();
    let waiting = create(&*store).await.id;
    let held = running(&*store).await;
    let done = running(&*store).await;
    store.finish(&done, completed(&done)).await.expect("the lease holds");
    let cancelled = create(&*store).await.id;
    store.cancel(&tenant(), cancelled).await.expect("the store answers");
    for id in [waiting, held.job, done.job, cancelled] {
        let before = get(&*store, id).await;
        assert_eq!(retry(&*store, id).await, Some(before.clone()));
        assert_eq!(get(&*store, id).await, before);
    }
    assert_eq!(retry(&*store, JobId::new()).await, None);
    let strangers = store.retry(&named("other"), waiting).await.expect("the store answers");
    assert_eq!(strangers, None);
}

/// A deadline that has passed is not held against the job again.
pub async fn a_job_that_failed_by_its_deadline_is_retried_without_one(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = make(&*store, |new| new.start_within = Some(Duration::from_secs(30))).await;
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(store.fail_overdue(100).await.expect("the store answers"), [job.id]);
    let retried = retry(&*store, job.id).await.expect("the job is there");
    assert_eq!((retried.state, retried.start_by, retried.error), (JobState::Queued, None, None));
    assert_eq!(store.fail_overdue(100).await.expect("the store answers"), []);
    assert_eq!(next(&*store, &worker()).await, Some(job.id));
}
