//! Whose turn it is.

use super::*;
use crate::rank::Priority;
use crate::tenant::{TenantLimits, Weight};

async fn weigh(store: &dyn Store, name: &str, weight: f64, max_running: Option<u32>) {
    let weight = Weight::new(weight).expect("the weight is within the bounds");
    let limits = TenantLimits { weight, max_running, max_queued: None };
    store.set_tenant(&named(name), &limits).await.expect("the store answers");
}

async fn hinted(store: &dyn Store, limit: u32) -> Vec<JobId> {
    store.ready(limit).await.expect("the store answers").into_iter().map(|hint| hint.job).collect()
}

/// A tenant of twice the weight gets twice the work done.
pub async fn a_weight_is_a_share(harness: &impl StoreHarness) {
    let store = harness.store();
    weigh(&*store, "heavy", 2.0, None).await;
    let mut heavy = Vec::new();
    for _ in 0..4 {
        heavy.push(make_for(&*store, &named("heavy")).await.id);
        make_for(&*store, &named("light")).await;
    }
    let mut share = 0;
    for _ in 0..6 {
        let id = next(&*store, &worker()).await.expect("a job waits");
        share += usize::from(heavy.contains(&id));
    }
    assert_eq!(share, 4);
}

/// A low job lets pass what is worth less than its penalty, and no more.
pub async fn a_low_job_waits_for_others_but_not_for_ever(harness: &impl StoreHarness) {
    let store = harness.store();
    let low = make(&*store, |new| new.priority = Priority::Low).await;
    assert_eq!(low.priority, Priority::Low);
    let normal = make_for(&*store, &named("other")).await;
    assert_eq!(low.rank, normal.rank + Priority::LOW_PENALTY_TFLOP);
    let huge = make(&*store, |new| {
        (new.tenant, new.cost_tflop) = (named("other"), 2.0 * Priority::LOW_PENALTY_TFLOP);
    })
    .await;
    for expected in [normal.id, low.id, huge.id] {
        assert_eq!(next(&*store, &worker()).await, Some(expected));
    }
}

/// The penalty is the job's alone: it moves neither its tenant's place nor, once the job is claimed, the queue's time.
pub async fn a_low_job_does_not_push_back_later_ones(harness: &impl StoreHarness) {
    let store = harness.store();
    let low = make(&*store, |new| new.priority = Priority::Low).await;
    let later = create(&*store).await;
    assert_eq!((low.rank, later.rank), (100.0 + Priority::LOW_PENALTY_TFLOP, 200.0));
    assert_eq!(next(&*store, &worker()).await, Some(later.id));

    let second_low = make(&*store, |new| new.priority = Priority::Low).await;
    assert_eq!(next(&*store, &worker()).await, Some(low.id));
    for expected in [make_for(&*store, &named("other")).await.id, create(&*store).await.id, second_low.id] {
        assert_eq!(next(&*store, &worker()).await, Some(expected));
    }
}

/// A window of hints is shared by all who may run, however long the backlog of one.
pub async fn hints_hold_the_head_of_every_tenant_that_may_run(harness: &impl StoreHarness) {
    let store = harness.store();
    weigh(&*store, "capped", 1_000.0, Some(1)).await;
    let mut heads = Vec::new();
    for round in 0..30 {
        let job = make_for(&*store, &named("capped")).await;
        if round == 0 {
            heads.push(job.id);
        }
    }
    for name in ["alpha", "beta", "gamma"] {
        heads.push(make_for(&*store, &named(name)).await.id);
        make_for(&*store, &named(name)).await;
    }
    assert_eq!(hinted(&*store, 4).await, heads);
    assert_eq!(hinted(&*store, 2).await, heads[..2]);
    assert_eq!(hinted(&*store, 100).await.len(), 7);
}

/// Whoever follows the hints runs the same jobs in the same order as who asks the store.
pub async fn hints_come_in_the_order_of_the_claims(harness: &impl StoreHarness) {
    let store = harness.store();
    weigh(&*store, "heavy", 3.0, Some(3)).await;
    weigh(&*store, "stopped", 100.0, Some(0)).await;
    for round in 0..6_i32 {
        for name in ["heavy", "light", "stopped"] {
            make(&*store, |new| {
                (new.tenant, new.cost_tflop) = (named(name), 10.0 + f64::from(round * 7 % 5));
            })
            .await;
        }
    }
    let hints = hinted(&*store, 100).await;
    assert_eq!(hints.len(), 9);
    assert_eq!(hinted(&*store, 5).await, hints[..5]);
    for hint in hints {
        assert_eq!(next(&*store, &worker()).await, Some(hint));
    }
    assert_eq!(next(&*store, &worker()).await, None);
}
