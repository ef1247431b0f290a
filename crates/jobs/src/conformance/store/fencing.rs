//! What a worker that lost its lease can still do: nothing.

use std::time::Duration;

use super::*;
use crate::blob::BlobKey;
use crate::id::{ClaimToken, Fence};
use crate::outcome::HandBack;
use crate::state::JobState;
use crate::store::Reclaimed;

async fn reclaim(store: &dyn Store) -> Reclaimed {
    store.reclaim_expired(100).await.expect("the store answers")
}

/// The straggler's story: its lease ends, another worker finishes the job, its own result comes too late.
pub async fn an_ended_lease_is_reclaimed_and_its_holder_is_fenced(harness: &impl StoreHarness) {
    let store = harness.store();
    let straggler = running(&*store).await;
    let id = straggler.job;
    assert!(reclaim(&*store).await.is_empty());

    harness.advance(lease_duration()).await;
    assert_eq!(reclaim(&*store).await, Reclaimed { requeued: vec![id], ended: vec![] });
    assert!(reclaim(&*store).await.is_empty());
    let job = get(&*store, id).await;
    assert_eq!((job.state, job.attempt, job.fence), (JobState::Queued, 1, Fence(1)));
    assert_eq!((job.begun_at, job.progress), (None, Progress::START));
    assert_fenced(&*store, &straggler).await;

    let winner = claim(&*store, id).await;
    assert_eq!((winner.job.attempt, winner.lease.fence), (2, Fence(2)));
    assert_ne!(winner.lease.token, straggler.token);
    assert_ne!(winner.lease.result_key(), straggler.result_key());
    assert_fenced(&*store, &straggler).await;

    store.finish(&winner.lease, completed(&winner.lease)).await.expect("the lease holds");
    assert_fenced(&*store, &straggler).await;
    let result = get(&*store, id).await.result.expect("it is completed");
    assert_eq!(result.key, winner.lease.result_key());
    assert_eq!(ends(&*store, id).await, [Some(AttemptEnd::LeaseLost), Some(AttemptEnd::Completed)]);
}

/// The fence of an earlier claim opens nothing, even with the present token.
pub async fn every_verb_refuses_a_stale_fence(harness: &impl StoreHarness) {
    let store = harness.store();
    let first = running(&*store).await;
    store.hand_back(&first, HandBack::Drained).await.expect("the lease holds");
    let second = claim(&*store, first.job).await.lease;
    assert_eq!(second.fence, Fence(2));
    for fence in [Fence(0), Fence(1), Fence(3)] {
        assert_fenced(&*store, &Lease { fence, ..second.clone() }).await;
    }
    store.begin(&second).await.expect("the lease still holds");
}

/// The right fence with another token opens nothing: that of a claim made before the store was restored.
pub async fn every_verb_refuses_a_wrong_token(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    assert_fenced(&*store, &Lease { token: ClaimToken::random(), ..lease.clone() }).await;
    assert_fenced(&*store, &Lease { job: JobId::new(), ..lease.clone() }).await;
    store.begin(&lease).await.expect("the lease still holds");
}

/// A finish that is sent again is refused, and the row stays as the first left it.
pub async fn a_finished_job_is_finished_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    let job = get(&*store, lease.job).await;
    assert_fenced(&*store, &lease).await;
    assert_eq!(get(&*store, lease.job).await, job);
}

/// A worker that beats in time is not robbed of its job, however long it runs.
pub async fn a_beat_keeps_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    for step in 0..5 {
        harness.advance(lease_duration() - Duration::from_secs(1)).await;
        store.beat(&lease, &at(Phase::Denoise, step, 5, 10)).await.expect("the lease holds");
        assert!(reclaim(&*store).await.is_empty());
    }
    harness.advance(lease_duration()).await;
    assert_eq!(reclaim(&*store).await.requeued, [lease.job]);
}

/// A worker cannot make another claim's object its result.
pub async fn a_result_under_a_foreign_key_is_refused(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let Outcome::Completed { mut object, previews, report } = completed(&lease) else {
        unreachable!("it is completed")
    };
    object.key = BlobKey::result(&lease.tenant, lease.job, lease.fence, ClaimToken::random());
    let outcome = Outcome::Completed { object: object.clone(), previews, report };
    let refused = store.finish(&lease, outcome).await.expect_err("the key is foreign");
    assert!(
        matches!(&refused, LeaseError::ForeignObject { found, expected, .. }
            if *found == object.key && *expected == lease.result_key()),
        "{refused}"
    );
    assert_eq!(get(&*store, lease.job).await.state, JobState::Running);
    store.finish(&lease, completed(&lease)).await.expect("the lease still holds");
}
