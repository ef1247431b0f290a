//! The objects in the media store are those that some row names.

use std::time::Duration;

use super::*;
use crate::backoff;
use crate::id::{ClaimToken, Fence};
use crate::outcome::HandBack;
use crate::state::JobState;

async fn unnamed(store: &dyn Store, keys: &[BlobKey]) -> Vec<BlobKey> {
    store.unnamed(keys).await.expect("the store answers")
}

/// From the claim on the key is known, and it stays so with the result.
pub async fn a_result_is_named_and_kept(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let key = lease.result_key();
    assert_eq!(unnamed(&*store, std::slice::from_ref(&key)).await, []);
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_eq!(unnamed(&*store, std::slice::from_ref(&key)).await, []);
    assert_eq!(garbage(&*store).await, []);
    // Nobody can make the store forget what is named.
    store.forget_garbage(std::slice::from_ref(&key)).await.expect("the store answers");
    assert_eq!(unnamed(&*store, &[key]).await, []);
}

/// However an attempt ends without a result, what it may have uploaded is collected.
pub async fn what_a_failed_attempt_may_have_written_is_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut expected = Vec::new();
    let broken = running(&*store).await;
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    expected.push(broken.result_key());
    for hand_back in [HandBack::Drained, HandBack::Retry { after: None, error: failed("broken") }] {
        let lease = running(&*store).await;
        store.hand_back(&lease, hand_back).await.expect("the lease holds");
        expected.push(lease.result_key());
    }
    let dead = running(&*store).await;
    store.reclaim_from_dead(&[]).await.expect("the store answers");
    expected.push(dead.result_key());

    expected.sort();
    harness.advance(lease_duration()).await;
    assert_eq!(garbage(&*store).await, expected);
    assert_eq!(store.garbage(2).await.expect("the store answers").len(), 2);
    assert_eq!(unnamed(&*store, &expected).await, []);

    store.forget_garbage(&expected[..3]).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, expected[3..]);
    assert_eq!(unnamed(&*store, &expected).await, expected[..3]);
}

/// Nothing is collected under the hands of a worker that has not yet heard that it lost.
pub async fn what_a_lost_worker_may_still_write_is_collected_later(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    harness.advance(Duration::from_secs(10)).await;
    store.delete(&tenant(), lease.job).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, []);
    harness.advance(lease_duration()).await;
    assert_eq!(garbage(&*store).await, [lease.result_key()]);
}

/// A put that its worker gave up may yet arrive. Were its key forgotten before, the object would be nobody's; what is stored
/// whole has nothing to wait for.
pub async fn what_a_worker_may_still_be_putting_is_collected_after_its_lease(harness: &impl StoreHarness) {
    let store = harness.store();
    let retry = HandBack::Retry { after: None, error: failed("broken") };
    let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("no room") };
    for end in [
        End::Finish(completed),
        End::Finish(|_| Outcome::Failed(failed("broken"))),
        End::Finish(|_| Outcome::Cancelled),
        End::CancelledFinish(completed),
        End::HandBack(HandBack::Drained),
        End::HandBack(unwell),
        End::HandBack(retry),
        End::Dead,
    ] {
        let lease = running(&*store).await;
        let replaced = keep(&*store, &lease, 1).await.key;
        let kept = keep(&*store, &lease, 2).await.key;
        store.expect_checkpoint(&lease, 3).await.expect("the lease holds");
        harness.advance(lease_duration() / 2).await;
        // The lease of the last beat is the one that counts.
        store.beat(&lease, &at(Phase::Denoise, 3, 4, 75)).await.expect("the lease holds");
        let state = end.of(&*store, &lease).await;

        let mut stored = vec![replaced];
        if state.is_final() {
            stored.push(kept);
        }
        stored.sort();
        assert_eq!(garbage(&*store).await, stored, "at once after {end:?}");
        harness.advance(lease_duration() - Duration::from_secs(10)).await;
        assert_eq!(garbage(&*store).await, stored, "within the lease after {end:?}");
        let now = store.now().await.expect("the store answers");
        assert!(store.next_due(now).await.expect("the store answers").is_some(), "to be collected after {end:?}");

        harness.advance(Duration::from_secs(10)).await;
        let mut all = stored;
        all.push(lease.checkpoint_key(3));
        if state != JobState::Completed {
            all.push(lease.result_key());
        }
        all.sort();
        assert_eq!(garbage(&*store).await, all, "with the lease after {end:?}");
        store.forget_garbage(&all).await.expect("the store answers");
        store.delete(&tenant(), lease.job).await.expect("the store answers");
        store.forget_garbage(&garbage(&*store).await).await.expect("the store answers");
    }
}

/// An end of a claim before its lease's.
#[derive(Debug)]
enum End {
    Finish(fn(&Lease) -> Outcome),
    /// Of a job whose cancel was asked for.
    CancelledFinish(fn(&Lease) -> Outcome),
    HandBack(HandBack),
    /// The worker is known to live no more.
    Dead,
}

impl End {
    /// Ends the claim, and returns what became of its job.
    async fn of(&self, store: &dyn Store, lease: &Lease) -> JobState {
        match self {
            Self::Finish(outcome) => store.finish(lease, outcome(lease)).await.expect("the lease holds"),
            Self::CancelledFinish(outcome) => {
                store.cancel(&tenant(), lease.job).await.expect("the store answers");
                store.finish(lease, outcome(lease)).await.expect("the lease holds")
            }
            Self::HandBack(hand_back) => store.hand_back(lease, hand_back.clone()).await.expect("the lease holds"),
            Self::Dead => {
                store.reclaim_from_dead(&[]).await.expect("the store answers");
                get(store, lease.job).await.state
            }
        }
    }
}

/// What cannot be deleted waits longer each time, and does not stand before what can.
pub async fn garbage_that_cannot_be_deleted_is_put_off(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let lease = running(&*store).await;
        store.finish(&lease, completed(&lease)).await.expect("the lease holds");
        store.delete(&tenant(), lease.job).await.expect("the store answers");
        keys.push(lease.result_key());
        harness.advance(Duration::from_secs(1)).await;
    }
    let first = async || store.garbage(1).await.expect("the store answers");
    let (stuck, younger) = (keys.remove(0), keys.remove(0));
    assert_eq!(first().await, std::slice::from_ref(&stuck));
    for failures in 1..=3 {
        store.postpone_garbage(std::slice::from_ref(&stuck)).await.expect("the store answers");
        assert_eq!(first().await, std::slice::from_ref(&younger), "after {failures} failures");
        assert_eq!(unnamed(&*store, std::slice::from_ref(&stuck)).await, []);
        let now = store.now().await.expect("the store answers");
        let due = store.next_due(now).await.expect("the store answers").expect("it is tried once more");
        assert!(due <= now.plus(backoff::garbage_delay(failures)), "{due} after {now}");
        harness.advance(backoff::garbage_delay(failures) - Duration::from_secs(10)).await;
        assert_eq!(garbage(&*store).await, std::slice::from_ref(&younger), "after {failures} failures");
        harness.advance(Duration::from_secs(10)).await;
        assert_eq!(garbage(&*store).await.len(), 2);
    }
    store.forget_garbage(&[stuck, younger]).await.expect("the store answers");
    // What is not garbage stays what it is.
    let named = running(&*store).await.result_key();
    store.postpone_garbage(std::slice::from_ref(&named)).await.expect("the store answers");
    harness.advance(backoff::garbage_delay(1)).await;
    assert_eq!(garbage(&*store).await, []);
}

/// Two schedulers that fail to delete the same object count one failure.
pub async fn garbage_that_two_sweeps_put_off_at_once_waits_once(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    store.delete(&tenant(), lease.job).await.expect("the store answers");
    let stuck = [lease.result_key()];
    for failures in 1..=2 {
        assert_eq!(garbage(&*store).await, stuck);
        let (one, other) = tokio::join!(store.postpone_garbage(&stuck), store.postpone_garbage(&stuck));
        one.and(other).expect("the store answers");
        store.postpone_garbage(&stuck).await.expect("the store answers");
        harness.advance(backoff::garbage_delay(failures) - Duration::from_secs(10)).await;
        assert_eq!(garbage(&*store).await, [], "after {failures} failures");
        harness.advance(Duration::from_secs(10)).await;
    }
    assert_eq!(garbage(&*store).await, stuck);
}

/// The video of a deleted job goes too.
pub async fn a_deleted_result_is_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    store.delete(&tenant(), lease.job).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, [lease.result_key()]);
}

/// What a worker put after its garbage had been collected is found by looking at the objects.
pub async fn an_object_of_nobody_is_found(harness: &impl StoreHarness) {
    let store = harness.store();
    let named = running(&*store).await.result_key();
    let stray = BlobKey::result(&tenant(), JobId::new(), Fence(1), ClaimToken::random());
    assert_eq!(unnamed(&*store, &[named, stray.clone()]).await, [stray]);
    assert_eq!(unnamed(&*store, &[]).await, []);
}
