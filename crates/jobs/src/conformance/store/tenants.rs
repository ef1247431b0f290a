//! What a tenant may have.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::*;
use crate::outcome::HandBack;
use crate::state::JobState;
use crate::store::{ListQuery, StoreError};
use crate::tenant::{TenantLimits, Weight};

async fn limit(store: &dyn Store, tenant: &Tenant, limits: TenantLimits) {
    store.set_tenant(tenant, &limits).await.expect("the store answers");
}

fn at_once(max_running: u32) -> TenantLimits {
    TenantLimits { max_running: Some(max_running), ..TenantLimits::default() }
}

fn waiting(max_queued: u32) -> TenantLimits {
    TenantLimits { max_queued: Some(max_queued), ..TenantLimits::default() }
}

async fn hinted(store: &dyn Store) -> Vec<JobId> {
    store.ready(100).await.expect("the store answers").into_iter().map(|hint| hint.job).collect()
}

async fn try_claim(store: &dyn Store, id: JobId) -> Option<Claimed> {
    store.claim(id, &worker()).await.expect("the store answers")
}

/// The cap holds for both claims and for the hints; an attempt that ends makes room.
pub async fn a_tenant_runs_no_more_jobs_than_its_cap(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &tenant(), at_once(2)).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(create(&*store).await.id);
    }
    assert_eq!(hinted(&*store).await, ids[..2]);
    let first = claim(&*store, ids[0]).await.lease;
    assert_eq!(hinted(&*store).await, ids[1..2]);
    assert_eq!(next(&*store, &worker()).await, Some(ids[1]));
    assert_eq!(hinted(&*store).await, []);
    assert_eq!(try_claim(&*store, ids[2]).await, None);
    assert_eq!(next(&*store, &worker()).await, None);
    assert_eq!(get(&*store, ids[2]).await.state, JobState::Queued);

    store.finish(&first, completed(&first)).await.expect("the lease holds");
    assert_eq!(hinted(&*store).await, ids[2..3]);
    let third = claim(&*store, ids[2]).await.lease;
    assert_eq!(next(&*store, &worker()).await, None);
    store.hand_back(&third, HandBack::Drained).await.expect("the lease holds");
    assert_eq!(next(&*store, &worker()).await, Some(ids[2]));
    assert_eq!(next(&*store, &worker()).await, None);
    store.delete(&tenant(), ids[1]).await.expect("the store answers");
    assert_eq!(next(&*store, &worker()).await, Some(ids[3]));
}

/// Eight workers run twenty jobs of a tenant that may have three running.
pub async fn many_claimants_keep_the_cap(harness: &impl StoreHarness) {
    const JOBS: u32 = 20;
    const CAP: u32 = 3;
    let store = harness.store();
    limit(&*store, &tenant(), at_once(CAP)).await;
    for _ in 0..JOBS {
        create(&*store).await;
    }
    let mut finished = 0;
    while finished < JOBS {
        // Nobody gives anything back while all of them claim, so that a claim too many cannot hide.
        let mut claims = JoinSet::new();
        for _ in 0..8 {
            let store = Arc::clone(&store);
            claims.spawn(async move { store.claim_next(&worker()).await.expect("the store answers") });
        }
        let mut held: Vec<Claimed> = claims.join_all().await.into_iter().flatten().collect();
        // Who lost a race may have gone away with nothing.
        while let Some(claimed) = store.claim_next(&worker()).await.expect("the store answers") {
            held.push(claimed);
        }
        let expected = usize::try_from(CAP.min(JOBS - finished)).expect("a few");
        assert_eq!(held.len(), expected);
        for claimed in held {
            store.finish(&claimed.lease, completed(&claimed.lease)).await.expect("the lease holds");
            finished += 1;
        }
    }
}

/// Every worker has another hint, so that no two meet at one row: still only as many win as may run.
pub async fn many_claimants_of_one_hint_each_keep_the_cap(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &tenant(), at_once(2)).await;
    let mut claims = JoinSet::new();
    for _ in 0..12 {
        let (store, job) = (Arc::clone(&store), create(&*store).await);
        claims.spawn(async move { try_claim(&*store, job.id).await.is_some() });
    }
    let won = claims.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 2);
}

/// A backlog that may not run is no wall before the jobs behind it.
pub async fn a_capped_tenant_does_not_stop_others(harness: &impl StoreHarness) {
    let store = harness.store();
    let (capped, other) = (named("capped"), named("other"));
    limit(&*store, &capped, at_once(1)).await;
    let head = make_for(&*store, &capped).await;
    for _ in 0..30 {
        make(&*store, |new| (new.tenant, new.cost_tflop) = (capped.clone(), 0.001)).await;
    }
    let behind = make(&*store, |new| (new.tenant, new.cost_tflop) = (other.clone(), 1e6)).await;
    assert_eq!(
        store.ready(2).await.expect("the store answers").iter().map(|hint| hint.job).collect::<Vec<_>>(),
        [head.id, behind.id]
    );
    assert_eq!(next(&*store, &worker()).await, Some(head.id));
    assert_eq!(hinted(&*store).await, [behind.id]);
    assert_eq!(next(&*store, &worker()).await, Some(behind.id));
    assert_eq!(next(&*store, &worker()).await, None);
}

/// A cap of none is a cap.
pub async fn a_tenant_that_may_run_nothing_is_passed_over(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &named("stopped"), at_once(0)).await;
    let stopped = make_for(&*store, &named("stopped")).await;
    let free = make_for(&*store, &named("free")).await;
    assert_eq!(try_claim(&*store, stopped.id).await, None);
    assert_eq!(hinted(&*store).await, [free.id]);
    assert_eq!(next(&*store, &worker()).await, Some(free.id));
    assert_eq!(next(&*store, &worker()).await, None);
}

/// A tenant's queue is bounded when a job is made; what was taken once is never refused.
pub async fn a_full_queue_takes_no_more_jobs(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &tenant(), waiting(2)).await;
    let first = create(&*store).await;
    let second = make(&*store, |new| new.partition = Partition::Ref2va).await;
    let refuse = async || match store.create(new_job()).await {
        Err(StoreError::QueueFull { tenant: whose, limit }) => assert_eq!((whose, limit), (tenant(), 2)),
        other => panic!("the queue is full, but the store answered {other:?}"),
    };
    refuse().await;
    let page = store.list(&tenant(), &ListQuery::default()).await.expect("the store answers");
    assert_eq!(page.jobs.len(), 2);
    // A create that is sent again learns that it has succeeded.
    let again = store.create(NewJob { id: first.id, ..new_job() }).await;
    assert!(matches!(again, Err(StoreError::Duplicate { id }) if id == first.id), "{again:?}");
    make_for(&*store, &named("other")).await;

    let lease = claim(&*store, first.id).await.lease;
    create(&*store).await;
    refuse().await;
    let state = store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    assert_eq!(state, JobState::Queued);
    store.cancel(&tenant(), second.id).await.expect("the store answers");
    refuse().await;
    store.cancel(&tenant(), first.id).await.expect("the store answers");
    create(&*store).await;

    limit(&*store, &named("closed"), waiting(0)).await;
    let closed = store.create(NewJob { tenant: named("closed"), ..new_job() }).await;
    assert!(matches!(closed, Err(StoreError::QueueFull { limit: 0, .. })), "{closed:?}");
}

/// A client is told that its queue is full before it has sent what a job needs.
pub async fn room_in_a_queue_is_told_as_a_create_would(harness: &impl StoreHarness) {
    let store = harness.store();
    let agree = async |tenant: &Tenant, full: Option<u32>| {
        let told = match store.check_room(tenant).await {
            Ok(()) => None,
            Err(StoreError::QueueFull { tenant: whose, limit }) if whose == *tenant => Some(limit),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(told, full);
        match store.create(NewJob { tenant: tenant.clone(), ..new_job() }).await {
            Ok(job) => assert_eq!((told, job.tenant), (None, tenant.clone())),
            Err(StoreError::QueueFull { limit, .. }) => assert_eq!(told, Some(limit)),
            Err(other) => panic!("{other}"),
        }
    };
    for _ in 0..3 {
        agree(&named("free"), None).await;
    }
    limit(&*store, &named("weighed"), at_once(1)).await;
    agree(&named("weighed"), None).await;
    limit(&*store, &named("closed"), waiting(0)).await;
    agree(&named("closed"), Some(0)).await;

    limit(&*store, &tenant(), waiting(2)).await;
    // Asking takes no place.
    for _ in 0..3 {
        store.check_room(&tenant()).await.expect("there is room");
    }
    let first = create(&*store).await;
    agree(&tenant(), None).await;
    agree(&tenant(), Some(2)).await;
    // What is claimed does not wait, whether or not it has begun.
    claim(&*store, first.id).await;
    agree(&tenant(), None).await;
    agree(&tenant(), Some(2)).await;
    limit(&*store, &tenant(), waiting(3)).await;
    agree(&tenant(), None).await;
    limit(&*store, &tenant(), TenantLimits::default()).await;
    agree(&tenant(), None).await;
}

/// Twelve clients at once fill a queue of five to the last place and not beyond.
pub async fn many_creators_keep_the_limit_of_a_queue(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &tenant(), waiting(5)).await;
    let mut creates = JoinSet::new();
    for _ in 0..12 {
        let store = Arc::clone(&store);
        creates.spawn(async move {
            match store.create(new_job()).await {
                Ok(_) => true,
                Err(StoreError::QueueFull { limit: 5, .. }) => false,
                Err(other) => panic!("{other}"),
            }
        });
    }
    assert_eq!(creates.join_all().await.into_iter().filter(|made| *made).count(), 5);
}

/// Limits that are set again count from then on, for jobs that wait already too.
pub async fn what_a_tenant_may_have_is_changed_at_once(harness: &impl StoreHarness) {
    let store = harness.store();
    limit(&*store, &tenant(), TenantLimits { max_running: Some(0), ..waiting(1) }).await;
    let job = create(&*store).await;
    assert_eq!(next(&*store, &worker()).await, None);
    limit(&*store, &tenant(), TenantLimits::default()).await;
    create(&*store).await;
    assert_eq!(next(&*store, &worker()).await, Some(job.id));
    limit(&*store, &tenant(), at_once(1)).await;
    assert_eq!(next(&*store, &worker()).await, None);
}

/// What was said about tenants is read back, and of nobody else.
pub async fn what_tenants_may_have_is_listed(harness: &impl StoreHarness) {
    let store = harness.store();
    let listed = async || store.tenants().await.expect("the store answers");
    assert_eq!(listed().await, []);
    let weighed = TenantLimits { weight: Weight::new(2.5).expect("in bounds"), ..at_once(3) };
    limit(&*store, &named("zeta"), waiting(7)).await;
    limit(&*store, &named("alpha"), at_once(1)).await;
    limit(&*store, &named("alpha"), weighed).await;
    make_for(&*store, &named("unsaid")).await;
    assert_eq!(listed().await, [(named("alpha"), weighed), (named("zeta"), waiting(7))]);
}
