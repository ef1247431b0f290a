//! Deleting, in every state.

use super::*;
use crate::state::JobState;
use crate::store::ListQuery;

async fn delete(store: &dyn Store, id: JobId) -> Option<JobState> {
    store.delete(&tenant(), id).await.expect("the store answers")
}

async fn assert_gone(store: &dyn Store, id: JobId) {
    assert_eq!(store.get(&tenant(), id).await.expect("the store answers"), None);
    assert_eq!(history(store, id).await, []);
    assert_eq!(store.claim(id, &worker()).await.expect("the store answers"), None);
    assert_eq!(store.cancel(&tenant(), id).await.expect("the store answers"), None);
    let page = store.list(&tenant(), &ListQuery::default()).await.expect("the store answers");
    assert!(page.jobs.iter().all(|job| job.id != id));
    assert!(store.ready(100).await.expect("the store answers").iter().all(|hint| hint.job != id));
}

/// Waiting, running, completed, failed and cancelled jobs can be deleted, and the answer says which it was.
pub async fn a_job_is_deleted_in_every_state(harness: &impl StoreHarness) {
    let store = harness.store();
    let queued = create(&*store).await.id;
    let claimed = running(&*store).await.job;
    let (done, broken) = (running(&*store).await, running(&*store).await);
    store.finish(&done, completed(&done)).await.expect("the lease holds");
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    let cancelled = create(&*store).await.id;
    store.cancel(&tenant(), cancelled).await.expect("the store answers");
    for (id, state) in [
        (queued, JobState::Queued),
        (claimed, JobState::Running),
        (done.job, JobState::Completed),
        (broken.job, JobState::Failed),
        (cancelled, JobState::Cancelled),
    ] {
        assert_eq!(delete(&*store, id).await, Some(state));
        assert_gone(&*store, id).await;
    }
}

/// A worker that still runs a deleted job has lost its lease, and nothing it says brings the job back.
pub async fn a_late_result_does_not_bring_a_deleted_job_back(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    assert_eq!(delete(&*store, lease.job).await, Some(JobState::Running));
    assert_fenced(&*store, &lease).await;
    harness.advance(lease_duration()).await;
    assert!(store.reclaim_expired(100).await.expect("the store answers").is_empty());
    assert!(store.reclaim_from_dead(&[]).await.expect("the store answers").is_empty());
    assert_gone(&*store, lease.job).await;
    assert_eq!(store.garbage(10).await.expect("the store answers"), [lease.result_key()]);
}

/// A deleted job is as unknown as one that never was.
pub async fn deleting_twice_finds_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    assert_eq!(delete(&*store, id).await, Some(JobState::Queued));
    assert_eq!(delete(&*store, id).await, None);
    assert_eq!(delete(&*store, JobId::new()).await, None);
}
