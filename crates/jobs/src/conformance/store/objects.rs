//! The objects in the media store are those that some row names.

use std::time::Duration;

use super::*;
use crate::blob::BlobKey;
use crate::id::{ClaimToken, Fence};
use crate::outcome::HandBack;

async fn garbage(store: &dyn Store) -> Vec<BlobKey> {
    store.garbage(100).await.expect("the store answers")
}

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

    let mut found = garbage(&*store).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
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
