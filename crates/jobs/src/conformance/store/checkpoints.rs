//! Where a job goes on after its worker is gone.

use std::time::Duration;

use super::*;
use crate::id::ClaimToken;
use crate::outcome::HandBack;
use crate::state::JobState;
use crate::store::Reclaimed;

async fn unnamed(store: &dyn Store, key: &BlobKey) -> Vec<BlobKey> {
    store.unnamed(std::slice::from_ref(key)).await.expect("the store answers")
}

/// The key is known before the first byte is uploaded; the row names it when all of them are.
pub async fn a_checkpoint_is_expected_and_then_kept(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let key = lease.checkpoint_key(3);
    assert_eq!(unnamed(&*store, &key).await, std::slice::from_ref(&key));
    for _ in 0..2 {
        store.expect_checkpoint(&lease, 3).await.expect("the lease holds");
        assert_eq!(unnamed(&*store, &key).await, []);
        assert_eq!(get(&*store, lease.job).await.checkpoint, None);
    }
    // A keep whose answer was lost is sent again.
    for _ in 0..2 {
        store.keep_checkpoint(&lease, &checkpoint(&lease, 3)).await.expect("the lease holds");
        assert_eq!(get(&*store, lease.job).await.checkpoint, Some(checkpoint(&lease, 3)));
        assert_eq!(garbage(&*store).await, []);
    }
    // Nobody can make the store forget what is named.
    store.forget_garbage(std::slice::from_ref(&key)).await.expect("the store answers");
    assert_eq!(unnamed(&*store, &key).await, []);
}

/// A job has one checkpoint, the one kept last.
pub async fn a_replaced_checkpoint_is_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let first = keep(&*store, &lease, 1).await;
    let second = keep(&*store, &lease, 2).await;
    assert_eq!(get(&*store, lease.job).await.checkpoint, Some(second));
    assert_eq!(garbage(&*store).await, [first.key]);
}

/// However a claim ends without ending the job, the next one gets the checkpoint.
pub async fn a_checkpoint_outlives_its_claim(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let id = lease.job;
    let own = keep(&*store, &lease, 7).await;
    let (key, kept) = (own.key.clone(), Some(own));
    let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
    let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("no room") };
    let mut held = lease;
    for hand_back in [HandBack::Drained, unwell, retry] {
        store.hand_back(&held, hand_back).await.expect("the lease holds");
        assert_eq!(get(&*store, id).await.checkpoint, kept);
        let claimed = claim(&*store, id).await;
        assert_eq!(claimed.job.checkpoint, kept);
        held = claimed.lease;
        store.begin(&held).await.expect("the lease holds");
    }
    harness.advance(lease_duration()).await;
    let reclaimed = store.reclaim_expired(100).await.expect("the store answers");
    assert_eq!(reclaimed, Reclaimed { requeued: vec![id], ended: vec![] });
    let claimed = store.claim_next(&worker()).await.expect("the store answers").expect("the job waits");
    assert_eq!(claimed.job.checkpoint, kept);

    // The state of an earlier claim is replaced like one's own.
    let own = keep(&*store, &claimed.lease, 9).await;
    assert_eq!(get(&*store, id).await.checkpoint, Some(own));
    harness.advance(lease_duration()).await;
    assert!(garbage(&*store).await.contains(&key));
}

/// No end of a job leaves its checkpoint behind.
pub async fn a_checkpoint_ends_with_its_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut expected = Vec::new();
    let mut check = async |lease: &Lease, state: JobState, collected: Vec<BlobKey>| {
        let job = get(&*store, lease.job).await;
        assert_eq!((job.state, job.checkpoint), (state, None));
        expected.extend(collected);
        expected.sort();
        harness.advance(lease_duration()).await;
        assert_eq!(garbage(&*store).await, expected, "after the job {state}");
    };

    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await.key;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    check(&lease, JobState::Completed, vec![kept]).await;

    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await.key;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    check(&lease, JobState::Failed, vec![kept, lease.result_key()]).await;

    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await.key;
    store.cancel(&tenant(), lease.job).await.expect("the store answers");
    store.finish(&lease, Outcome::Cancelled).await.expect("the lease holds");
    check(&lease, JobState::Cancelled, vec![kept, lease.result_key()]).await;

    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await.key;
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    store.cancel(&tenant(), lease.job).await.expect("the store answers");
    check(&lease, JobState::Cancelled, vec![kept, lease.result_key()]).await;

    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await.key;
    store.cancel(&tenant(), lease.job).await.expect("the store answers");
    store.reclaim_from_dead(&[]).await.expect("the store answers");
    check(&lease, JobState::Cancelled, vec![kept, lease.result_key()]).await;
}

/// A deleted job's checkpoint goes too: at once where nobody holds the job, else when nobody can still be writing.
pub async fn a_checkpoint_is_deleted_with_its_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let waiting = running(&*store).await;
    let kept = keep(&*store, &waiting, 4).await.key;
    store.hand_back(&waiting, HandBack::Drained).await.expect("the lease holds");
    store.delete(&tenant(), waiting.job).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, std::slice::from_ref(&kept));
    harness.advance(lease_duration()).await;
    let mut expected = vec![kept, waiting.result_key()];
    expected.sort();
    assert_eq!(garbage(&*store).await, expected);

    let held = running(&*store).await;
    let kept = keep(&*store, &held, 4).await.key;
    store.delete(&tenant(), held.job).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, expected);
    harness.advance(lease_duration()).await;
    expected.extend([kept, held.result_key()]);
    expected.sort();
    assert_eq!(garbage(&*store).await, expected);
}

/// A worker that stops in the middle of an upload leaves nothing that is not collected.
pub async fn a_state_that_was_expected_and_not_kept_is_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await;
    store.expect_checkpoint(&lease, 2).await.expect("the lease holds");
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    assert_eq!(garbage(&*store).await, []);
    harness.advance(lease_duration()).await;
    let mut expected = vec![lease.checkpoint_key(2), lease.result_key()];
    expected.sort();
    assert_eq!(garbage(&*store).await, expected);
    assert_eq!(get(&*store, lease.job).await.checkpoint, Some(kept));
}

/// A straggler cannot put its state in the place of its successor's.
pub async fn a_lost_claim_keeps_no_checkpoint(harness: &impl StoreHarness) {
    let store = harness.store();
    let straggler = running(&*store).await;
    store.expect_checkpoint(&straggler, 1).await.expect("the lease holds");
    harness.advance(lease_duration()).await;
    store.reclaim_expired(100).await.expect("the store answers");
    let winner = claim(&*store, straggler.job).await.lease;
    let kept = keep(&*store, &winner, 1).await;
    assert_ne!(kept.key, straggler.checkpoint_key(1));
    let late = store.keep_checkpoint(&straggler, &checkpoint(&straggler, 1)).await;
    assert_lost("keep a checkpoint", late, &straggler);
    assert_lost("expect a checkpoint", store.expect_checkpoint(&straggler, 2).await, &straggler);
    assert_eq!(get(&*store, winner.job).await.checkpoint, Some(kept));
    assert_eq!(garbage(&*store).await.len(), 2);
}

#[track_caller]
fn assert_foreign(answer: Result<(), LeaseError>, found: &BlobKey, expected: &BlobKey) {
    let refused = answer.expect_err("the object is not the claim's");
    assert!(
        matches!(&refused, LeaseError::ForeignObject { found: it, expected: own, .. } if it == found && own == expected),
        "{refused}"
    );
}

/// A worker cannot make another claim's object its checkpoint, nor that of another step.
pub async fn a_checkpoint_under_a_foreign_key_is_refused(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    store.expect_checkpoint(&lease, 1).await.expect("the lease holds");
    store.expect_checkpoint(&lease, 2).await.expect("the lease holds");
    let own = checkpoint(&lease, 1);
    let others = Lease { token: ClaimToken::random(), ..lease.clone() };
    for key in [others.checkpoint_key(1), lease.checkpoint_key(2), lease.result_key()] {
        let foreign = Checkpoint { key: key.clone(), ..own.clone() };
        assert_foreign(store.keep_checkpoint(&lease, &foreign).await, &key, &own.key);
    }
    assert_eq!(get(&*store, lease.job).await.checkpoint, None);
    store.keep_checkpoint(&lease, &own).await.expect("the lease still holds");
}

/// What the tables did not expect they do not name: its object may have been swept away already.
pub async fn a_checkpoint_that_was_not_expected_is_refused(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let kept = keep(&*store, &lease, 1).await;
    let unexpected = checkpoint(&lease, 2);
    assert_foreign(store.keep_checkpoint(&lease, &unexpected).await, &unexpected.key, &unexpected.key);
    assert_eq!(get(&*store, lease.job).await.checkpoint, Some(kept.clone()));
    // Nor does what has become garbage come back.
    keep(&*store, &lease, 3).await;
    assert_foreign(store.keep_checkpoint(&lease, &kept).await, &kept.key, &kept.key);
}
