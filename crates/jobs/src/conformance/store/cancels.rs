//! Cancelling, in every state.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::*;
use crate::outcome::HandBack;
use crate::state::{JobState, Status};
use crate::store::{Cancelled, Reclaimed};

/// Cancels a job and returns it and whether that has ended it.
async fn try_cancel(store: &dyn Store, id: JobId) -> (Job, bool) {
    let Cancelled { job, has_ended_it } =
        store.cancel(&tenant(), id).await.expect("the store answers").expect("the job is there");
    (job, has_ended_it)
}

async fn cancel(store: &dyn Store, id: JobId) -> Job {
    try_cancel(store, id).await.0
}

async fn assert_cancelled(store: &dyn Store, id: JobId) {
    let job = get(store, id).await;
    assert_eq!((job.state, job.status()), (JobState::Cancelled, Status::Failed));
    assert_eq!(job.error.map(|error| error.code), Some(FailureCode::Cancelled));
    assert!(job.cancel_requested_at.is_some() && job.finished_at >= job.cancel_requested_at);
    assert_eq!((job.result, job.report, job.worker), (None, None, None));
}

/// A job that waits has nobody to ask.
pub async fn a_waiting_job_is_cancelled_at_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let (cancelled, has_ended_it) = try_cancel(&*store, id).await;
    assert!(has_ended_it);
    assert_eq!(cancelled, get(&*store, id).await);
    assert_cancelled(&*store, id).await;
    assert_eq!(store.claim(id, &worker()).await.expect("the store answers"), None);
    assert_eq!(try_cancel(&*store, id).await, (cancelled, false));
}

/// The worker hears of the cancel with its next beat and says when it has stopped.
pub async fn a_running_job_is_cancelled_by_its_worker(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let (marked, has_ended_it) = try_cancel(&*store, lease.job).await;
    assert!(!has_ended_it);
    assert_eq!((marked.state, marked.status()), (JobState::Running, Status::InProgress));
    assert!(marked.cancel_requested_at.is_some());
    assert_eq!(try_cancel(&*store, lease.job).await, (marked, false));

    let beat = store.beat(&lease, &at(Phase::Denoise, 1, 2, 50)).await.expect("the lease holds");
    assert!(beat.cancel_requested);
    assert!(store.begin(&lease).await.expect("the lease holds").cancel_requested);
    let state = store.finish(&lease, Outcome::Cancelled).await.expect("the lease holds");
    assert_eq!(state, JobState::Cancelled);
    assert_cancelled(&*store, lease.job).await;
    assert_eq!(ends(&*store, lease.job).await, [Some(AttemptEnd::Cancelled)]);
}

/// A cancel that its client was promised is kept, and the object that came too late is garbage.
pub async fn an_accepted_cancel_wins_over_a_late_result(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    cancel(&*store, lease.job).await;
    let state = store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_eq!(state, JobState::Cancelled);
    assert_cancelled(&*store, lease.job).await;
    harness.advance(lease_duration()).await;
    assert_eq!(store.garbage(10).await.expect("the store answers"), [lease.result_key()]);
}

/// Neither a failure nor a hand-back lets a cancelled job fail in another way or run again.
pub async fn an_accepted_cancel_wins_over_every_other_end(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    cancel(&*store, lease.job).await;
    let state = store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    assert_eq!(state, JobState::Cancelled);
    assert_cancelled(&*store, lease.job).await;

    for hand_back in [
        HandBack::Drained,
        HandBack::Unwell { after: Duration::ZERO, error: failed("no room") },
        HandBack::Retry { after: None, error: failed("broken") },
    ] {
        let lease = running(&*store).await;
        cancel(&*store, lease.job).await;
        let state = store.hand_back(&lease, hand_back).await.expect("the lease holds");
        assert_eq!(state, JobState::Cancelled);
        assert_cancelled(&*store, lease.job).await;
    }
}

/// If the worker dies before it has seen the cancel, the end of its lease ends the job.
pub async fn a_cancelled_job_whose_worker_is_lost_does_not_run_again(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    cancel(&*store, lease.job).await;
    harness.advance(lease_duration()).await;
    let reclaimed = store.reclaim_expired(100).await.expect("the store answers");
    assert_eq!(reclaimed, Reclaimed { requeued: vec![], ended: vec![lease.job] });
    assert_cancelled(&*store, lease.job).await;
    assert_fenced(&*store, &lease).await;
}

/// What has ended stays as it ended.
pub async fn an_ended_job_is_not_cancelled(harness: &impl StoreHarness) {
    let store = harness.store();
    let (done, broken) = (running(&*store).await, running(&*store).await);
    store.finish(&done, completed(&done)).await.expect("the lease holds");
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    for id in [done.job, broken.job] {
        let before = get(&*store, id).await;
        assert_eq!(try_cancel(&*store, id).await, (before.clone(), false));
        assert_eq!(get(&*store, id).await, before);
    }
}

/// Of many who cancel a job that waits one is told that this has ended it, so that an end is counted once.
pub async fn of_many_cancels_one_ends_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..5 {
        let id = create(&*store).await.id;
        let mut cancelling = JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            cancelling.spawn(async move { try_cancel(&*store, id).await });
        }
        let cancelled = cancelling.join_all().await;
        assert!(cancelled.iter().all(|(job, _)| job.state == JobState::Cancelled), "{cancelled:?}");
        assert_eq!(cancelled.iter().filter(|(_, has_ended_it)| *has_ended_it).count(), 1, "{cancelled:?}");
    }
}

/// There is nothing to cancel where there is no job.
pub async fn cancelling_a_job_that_is_not_there_finds_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    assert_eq!(store.cancel(&tenant(), JobId::new()).await.expect("the store answers"), None);
}
