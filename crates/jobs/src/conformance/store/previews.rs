//! Pictures of a result.

use std::time::Duration;

use super::*;
use crate::preview::{Preview, PreviewKind};
use crate::state::JobState;

fn picture(lease: &Lease, kind: PreviewKind) -> Preview {
    let key = lease.preview_key(kind);
    Preview { kind, object: ResultObject { key, size_bytes: 321, sha256: "7b".repeat(32) } }
}

fn pictured(lease: &Lease, previews: Vec<Preview>) -> Outcome {
    match completed(lease) {
        Outcome::Completed { object, report, .. } => Outcome::Completed { object, previews, report },
        other => other,
    }
}

fn keys(lease: &Lease) -> Vec<BlobKey> {
    let mut keys: Vec<BlobKey> = PreviewKind::ALL.iter().map(|&kind| lease.preview_key(kind)).collect();
    keys.sort();
    keys
}

async fn expect(store: &dyn Store, lease: &Lease) {
    store.expect_previews(lease).await.expect("the lease holds");
}

/// A job that was completed with both pictures.
async fn done(store: &dyn Store) -> (Lease, Vec<Preview>) {
    let lease = running(store).await;
    expect(store, &lease).await;
    let previews: Vec<Preview> = PreviewKind::ALL.iter().map(|&kind| picture(&lease, kind)).collect();
    store.finish(&lease, pictured(&lease, previews.clone())).await.expect("the lease holds");
    (lease, previews)
}

async fn unnamed(store: &dyn Store, keys: &[BlobKey]) -> Vec<BlobKey> {
    store.unnamed(keys).await.expect("the store answers")
}

/// Their keys are known before the first byte is stored; the row names them with the result.
pub async fn pictures_become_the_jobs_with_its_result(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    assert_eq!(unnamed(&*store, &keys(&lease)).await, keys(&lease));
    for _ in 0..2 {
        expect(&*store, &lease).await;
        assert_eq!(unnamed(&*store, &keys(&lease)).await, []);
    }
    let previews = vec![picture(&lease, PreviewKind::Spritesheet), picture(&lease, PreviewKind::Thumbnail)];
    store.finish(&lease, pictured(&lease, previews.clone())).await.expect("the lease holds");
    assert_eq!(get(&*store, lease.job).await.previews, previews);
    assert_eq!(unnamed(&*store, &keys(&lease)).await, []);
    assert_eq!(garbage(&*store).await, []);
    store.forget_garbage(&keys(&lease)).await.expect("the store answers");
    assert_eq!(unnamed(&*store, &keys(&lease)).await, []);
}

/// A picture that was not made is not named; what may have come of it is garbage once nobody can be storing it.
pub async fn a_picture_that_was_not_made_is_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    expect(&*store, &lease).await;
    let made = picture(&lease, PreviewKind::Thumbnail);
    store.finish(&lease, pictured(&lease, vec![made.clone()])).await.expect("the lease holds");
    assert_eq!(get(&*store, lease.job).await.previews, [made]);
    assert_eq!(garbage(&*store).await, []);
    harness.advance(lease_duration()).await;
    assert_eq!(garbage(&*store).await, [lease.preview_key(PreviewKind::Spritesheet)]);
}

/// Pictures of a claim that came to nothing go as its result does.
pub async fn pictures_of_a_failed_claim_are_garbage(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    expect(&*store, &lease).await;
    store.cancel(&tenant(), lease.job).await.expect("the store answers");
    let state = store.finish(&lease, pictured(&lease, vec![picture(&lease, PreviewKind::Thumbnail)])).await;
    assert_eq!(state.expect("the lease holds"), JobState::Cancelled);
    assert_eq!(get(&*store, lease.job).await.previews, []);
    harness.advance(lease_duration()).await;
    let mut expected = keys(&lease);
    expected.push(lease.result_key());
    expected.sort();
    assert_eq!(garbage(&*store).await, expected);
}

/// A picture is kept as long as the video.
pub async fn pictures_go_with_the_result(harness: &impl StoreHarness) {
    let life = Duration::from_secs(1_000);
    let store = harness.store_with(Policy { result_life: Some(life), ..Policy::default() }).await;
    let (expired, _) = done(&*store).await;
    harness.advance(life).await;
    assert_eq!(store.expire_results(100).await.expect("the store answers"), [expired.job]);
    let job = get(&*store, expired.job).await;
    assert_eq!((job.result, job.previews), (None, vec![]));
    let all = |lease: &Lease| {
        let mut all = keys(lease);
        all.push(lease.result_key());
        all.sort();
        all
    };
    assert_eq!(garbage(&*store).await, all(&expired));
    store.forget_garbage(&all(&expired)).await.expect("the store answers");
    let (deleted, _) = done(&*store).await;
    store.delete(&tenant(), deleted.job).await.expect("the store answers");
    assert_eq!(garbage(&*store).await, all(&deleted));
}

/// Nobody's object becomes a job's picture but one that its own claim has said it would store, and each once.
pub async fn a_foreign_picture_is_refused(harness: &impl StoreHarness) {
    let store = harness.store();
    let (other, lease) = (running(&*store).await, running(&*store).await);
    let refuse =
        async |previews: Vec<Preview>, found: BlobKey| match store.finish(&lease, pictured(&lease, previews)).await {
            Err(LeaseError::ForeignObject { job, found: told, .. }) => assert_eq!((job, told), (lease.job, found)),
            answer => panic!("the picture is foreign, but the store answered {answer:?}"),
        };
    let own = picture(&lease, PreviewKind::Thumbnail);
    // Not expected yet.
    refuse(vec![own.clone()], own.object.key.clone()).await;
    expect(&*store, &lease).await;
    expect(&*store, &other).await;
    let foreign = picture(&other, PreviewKind::Thumbnail);
    refuse(vec![own.clone(), foreign.clone()], foreign.object.key).await;
    let mistaken = Preview { kind: PreviewKind::Spritesheet, ..own.clone() };
    refuse(vec![mistaken], own.object.key.clone()).await;
    refuse(vec![own.clone(), own.clone()], own.object.key.clone()).await;
    assert_eq!(get(&*store, lease.job).await.state, JobState::Running);
    store.finish(&lease, pictured(&lease, vec![own.clone()])).await.expect("the lease holds");
    assert_eq!(get(&*store, lease.job).await.previews, [own]);
    assert_lost("expect pictures", store.expect_previews(&lease).await, &lease);
}
