//! Who is told of the end of a job.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::*;
use crate::outbox::{Delivery, Endpoint, EndpointId, Notice, Receiver};
use crate::outcome::HandBack;

async fn listen(store: &dyn Store, tenant: &Tenant) -> EndpointId {
    let id = EndpointId::new();
    let endpoint = Endpoint { id, ..Endpoint::new(tenant.clone(), "https://example.org/hooks") };
    store.add_endpoint(&endpoint).await.expect("the store answers");
    id
}

async fn told(store: &dyn Store, id: JobId) -> Vec<Delivery> {
    store.deliveries_of(&tenant(), id).await.expect("the store answers")
}

/// Expects exactly one delivery for each endpoint about the job's end.
async fn assert_told(store: &dyn Store, id: JobId, notice: Notice, endpoints: &[EndpointId]) {
    let deliveries = told(store, id).await;
    let job = get(store, id).await;
    assert_eq!(deliveries.len(), endpoints.len(), "{deliveries:?}");
    let heard: HashSet<Receiver> = deliveries.iter().map(|delivery| delivery.receiver.clone()).collect();
    assert_eq!(heard, endpoints.iter().copied().map(Receiver::Endpoint).collect());
    let ids: BTreeSet<_> = deliveries.iter().map(|delivery| delivery.id).collect();
    assert_eq!(ids.len(), deliveries.len());
    for delivery in deliveries {
        assert_eq!((delivery.job, delivery.notice), (id, notice));
        assert_eq!(Some(delivery.created_at), job.finished_at);
    }
}

/// Whoever ends the job, each endpoint of its tenant hears of it once, and nobody else's does.
pub async fn every_end_is_told_once_to_every_endpoint(harness: &impl StoreHarness) {
    let store = harness.store();
    let endpoints = [listen(&*store, &tenant()).await, listen(&*store, &tenant()).await];
    listen(&*store, &named("other")).await;

    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_fenced(&*store, &lease).await;
    assert_told(&*store, lease.job, Notice::Completed, &endpoints).await;

    let lease = running(&*store).await;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    assert_told(&*store, lease.job, Notice::Failed, &endpoints).await;

    let lease = running(&*store).await;
    store.cancel(&tenant(), lease.job).await.expect("the store answers");
    assert_eq!(told(&*store, lease.job).await, []);
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_told(&*store, lease.job, Notice::Failed, &endpoints).await;

    let waiting = create(&*store).await.id;
    for _ in 0..2 {
        store.cancel(&tenant(), waiting).await.expect("the store answers");
    }
    assert_told(&*store, waiting, Notice::Failed, &endpoints).await;

    let last = create(&*store).await.id;
    for _ in 0..Policy::default().max_attempts {
        let lease = claim(&*store, last).await.lease;
        let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
        store.hand_back(&lease, retry).await.expect("the lease holds");
    }
    assert_told(&*store, last, Notice::Failed, &endpoints).await;

    let lost = create(&*store).await.id;
    for _ in 0..Policy::default().max_attempts {
        store.begin(&claim(&*store, lost).await.lease).await.expect("the lease holds");
        harness.advance(lease_duration()).await;
        store.reclaim_expired(100).await.expect("the store answers");
    }
    assert_told(&*store, lost, Notice::Failed, &endpoints).await;

    let marked = running(&*store).await.job;
    store.cancel(&tenant(), marked).await.expect("the store answers");
    store.reclaim_from_dead(&[]).await.expect("the store answers");
    assert_told(&*store, marked, Notice::Failed, &endpoints).await;

    let overdue = make(&*store, |new| new.start_within = Some(Duration::from_secs(30))).await.id;
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(store.fail_overdue(100).await.expect("the store answers"), [overdue]);
    assert_told(&*store, overdue, Notice::Failed, &endpoints).await;

    let deliveries = store.deliveries_of(&named("other"), overdue).await.expect("the store answers");
    assert_eq!(deliveries, []);
}

/// Attempts that end without the job, and jobs that are deleted before their end, are nobody's business.
pub async fn what_is_no_end_is_not_told(harness: &impl StoreHarness) {
    let store = harness.store();
    listen(&*store, &tenant()).await;
    let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
    for hand_back in [HandBack::Drained, retry] {
        let lease = running(&*store).await;
        store.hand_back(&lease, hand_back).await.expect("the lease holds");
        assert_eq!(told(&*store, lease.job).await, []);
    }
    let lost = running(&*store).await.job;
    store.reclaim_from_dead(&[]).await.expect("the store answers");
    assert_eq!(told(&*store, lost).await, []);
    store.delete(&tenant(), lost).await.expect("the store answers");
    assert_eq!(told(&*store, lost).await, []);
}

/// An endpoint is told nothing of what was over before it was there; to add it again does not double it.
pub async fn an_endpoint_hears_only_of_later_ends(harness: &impl StoreHarness) {
    let store = harness.store();
    let before = create(&*store).await.id;
    store.cancel(&tenant(), before).await.expect("the store answers");
    let after = create(&*store).await.id;
    let id = listen(&*store, &tenant()).await;
    let moved = Endpoint { id, ..Endpoint::new(tenant(), "https://example.org/moved") };
    store.add_endpoint(&moved).await.expect("the store answers");
    store.cancel(&tenant(), after).await.expect("the store answers");
    assert_eq!(told(&*store, before).await, []);
    assert_told(&*store, after, Notice::Failed, &[id]).await;
}

/// A job that was retried ends a second time, and that is told too.
pub async fn a_job_that_ends_again_is_told_again(harness: &impl StoreHarness) {
    let store = harness.store();
    listen(&*store, &tenant()).await;
    let lease = running(&*store).await;
    store.finish(&lease, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    store.retry(&tenant(), lease.job).await.expect("the store answers");
    assert_eq!(told(&*store, lease.job).await.len(), 1);
    harness.advance(Duration::from_secs(1)).await;
    let again = claim(&*store, lease.job).await.lease;
    listen(&*store, &tenant()).await;
    store.finish(&again, completed(&again)).await.expect("the lease holds");
    let notices: Vec<Notice> = told(&*store, lease.job).await.into_iter().map(|delivery| delivery.notice).collect();
    assert_eq!(notices, [Notice::Failed, Notice::Completed, Notice::Completed]);
}

/// What is to be told stays to be told when the job is deleted before everybody has heard.
pub async fn deliveries_outlive_their_job(harness: &impl StoreHarness) {
    let store = harness.store();
    listen(&*store, &tenant()).await;
    let lease = running(&*store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    let before = told(&*store, lease.job).await;
    assert_eq!(before.len(), 1);
    store.delete(&tenant(), lease.job).await.expect("the store answers");
    assert_eq!(told(&*store, lease.job).await, before);
}
