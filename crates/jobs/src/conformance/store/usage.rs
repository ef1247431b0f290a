//! What tenants have used.

use std::time::Duration;

use super::*;
use crate::outcome::HandBack;
use crate::usage::Usage;

/// How far the seconds of a store whose clock runs by itself may be off.
const SLACK_S: f64 = 5.0;

async fn used(store: &dyn Store, tenant: &Tenant) -> Usage {
    let all = store.usage().await.expect("the store answers");
    assert!(all.windows(2).all(|pair| pair[0].tenant < pair[1].tenant), "{all:?}");
    let none = Usage { tenant: tenant.clone(), completed: 0, tflop: 0.0, worker_seconds: 0.0 };
    all.into_iter().find(|usage| usage.tenant == *tenant).unwrap_or(none)
}

#[track_caller]
fn assert_used(usage: &Usage, completed: u64, tflop: f64, seconds: f64) {
    assert_eq!((usage.completed, usage.tflop), (completed, tflop));
    assert!((seconds..seconds + SLACK_S).contains(&usage.worker_seconds), "{usage:?} instead of {seconds} s");
}

/// Jobs, their work and their seconds, each tenant for itself.
pub async fn completed_jobs_are_summed_by_tenant(harness: &impl StoreHarness) {
    let store = harness.store();
    for (name, cost) in [("alpha", 100.0), ("beta", 30.0), ("alpha", 50.5)] {
        let job = make(&*store, |new| (new.tenant, new.cost_tflop) = (named(name), cost)).await;
        let lease = claim(&*store, job.id).await.lease;
        // What passes between the claim and the begin is not counted.
        harness.advance(Duration::from_secs(20)).await;
        store.begin(&lease).await.expect("the lease holds");
        harness.advance(Duration::from_secs(10)).await;
        store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    }
    assert_used(&used(&*store, &named("alpha")).await, 2, 150.5, 20.0);
    assert_used(&used(&*store, &named("beta")).await, 1, 30.0, 10.0);
    assert_used(&used(&*store, &named("nobody")).await, 0, 0.0, 0.0);
}

/// Whoever lost the worker has had it; what was never begun cost nothing.
pub async fn attempts_that_came_to_nothing_are_counted_in_seconds(harness: &impl StoreHarness) {
    let store = harness.store();
    let retry = HandBack::Retry { after: Some(Duration::ZERO), error: failed("broken") };
    let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("no room") };
    for hand_back in [HandBack::Drained, unwell, retry] {
        let lease = running(&*store).await;
        harness.advance(Duration::from_secs(10)).await;
        store.hand_back(&lease, hand_back).await.expect("the lease holds");
    }
    assert_used(&used(&*store, &tenant()).await, 0, 0.0, 30.0);
    for outcome in [Outcome::Failed(failed("broken")), Outcome::Cancelled] {
        let lease = running(&*store).await;
        harness.advance(Duration::from_secs(10)).await;
        store.finish(&lease, outcome).await.expect("the lease holds");
    }
    assert_used(&used(&*store, &tenant()).await, 0, 0.0, 50.0);
    running(&*store).await;
    claim(&*store, create(&*store).await.id).await;
    harness.advance(lease_duration()).await;
    store.reclaim_expired(100).await.expect("the store answers");
    assert_used(&used(&*store, &tenant()).await, 0, 0.0, 50.0 + lease_duration().as_secs_f64());
}

/// What was used stays used, whatever becomes of the record.
pub async fn deleted_jobs_stay_counted(harness: &impl StoreHarness) {
    let store = harness.store();
    let done = running(&*store).await;
    harness.advance(Duration::from_secs(10)).await;
    store.finish(&done, completed(&done)).await.expect("the lease holds");
    store.delete(&tenant(), done.job).await.expect("the store answers");
    assert_used(&used(&*store, &tenant()).await, 1, 100.0, 10.0);
    // An attempt whose job is deleted under it ends there.
    let held = running(&*store).await;
    harness.advance(Duration::from_secs(15)).await;
    store.delete(&tenant(), held.job).await.expect("the store answers");
    assert_used(&used(&*store, &tenant()).await, 1, 100.0, 25.0);

    let life = Duration::from_secs(600);
    let short = harness.store_with(Policy { record_life: Some(life), ..Policy::default() }).await;
    let kept = running(&*store).await;
    harness.advance(Duration::from_secs(10)).await;
    store.finish(&kept, completed(&kept)).await.expect("the lease holds");
    harness.advance(life).await;
    assert_eq!(short.purge_records(100).await.expect("the store answers"), [kept.job]);
    assert_used(&used(&*store, &tenant()).await, 2, 200.0, 35.0);
}
