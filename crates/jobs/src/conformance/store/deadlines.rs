//! Jobs that have to begin by a time.

use std::time::Duration;

use super::*;
use crate::outcome::HandBack;
use crate::state::{JobState, Status};
use crate::tenant::TenantLimits;

/// How long the jobs here may wait.
const WITHIN: Duration = Duration::from_secs(100);

async fn urgent(store: &dyn Store) -> Job {
    make(store, |new| new.start_within = Some(WITHIN)).await
}

async fn fail_overdue(store: &dyn Store) -> Vec<JobId> {
    store.fail_overdue(100).await.expect("the store answers")
}

/// The deadline ends the job, says why, and touches no other.
pub async fn a_job_that_did_not_begin_in_time_fails(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    assert_eq!(job.start_by, Some(job.created_at.plus(WITHIN)));
    let patient = create(&*store).await;
    assert_eq!(patient.start_by, None);
    harness.advance(WITHIN - Duration::from_secs(10)).await;
    assert_eq!(fail_overdue(&*store).await, []);
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(fail_overdue(&*store).await, [job.id]);
    assert_eq!(fail_overdue(&*store).await, []);

    let failed = get(&*store, job.id).await;
    assert_eq!((failed.state, failed.status()), (JobState::Failed, Status::Failed));
    assert_eq!(failed.error.map(|error| error.code), Some(FailureCode::StartDeadlineExceeded));
    assert!(failed.finished_at.is_some());
    assert_eq!(history(&*store, job.id).await, []);
    assert_eq!(store.claim(job.id, &worker()).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &worker()).await, Some(patient.id));
    assert_eq!(next(&*store, &worker()).await, None);
}

/// A worker that has claimed ahead and not begun has not kept the promise: it loses the job, whose history says why.
pub async fn a_claim_alone_does_not_meet_the_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    harness.advance(WITHIN - Duration::from_secs(30)).await;
    let claimed = claim(&*store, job.id).await;
    assert!(claimed.job.start_by.is_some());
    assert_eq!(fail_overdue(&*store).await, []);
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(fail_overdue(&*store).await, [job.id]);
    assert_eq!(fail_overdue(&*store).await, []);
    let ended = get(&*store, job.id).await;
    assert_eq!((ended.state, ended.begun_at), (JobState::Failed, None));
    let history = history(&*store, job.id).await;
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].ended.map(|(_, end)| end), Some(AttemptEnd::Failed));
    assert_eq!(history[0].error, ended.error);
    assert_eq!(ended.error.map(|error| error.code), Some(FailureCode::StartDeadlineExceeded));
    assert_fenced(&*store, &claimed.lease).await;
    harness.advance(lease_duration()).await;
    assert_eq!(garbage(&*store).await, [claimed.lease.result_key()]);
}

/// Between the deadline and the sweep nobody begins the job any more, and what its worker says of it is kept.
pub async fn a_job_does_not_begin_after_its_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let (late, returned) = (urgent(&*store).await, urgent(&*store).await);
    harness.advance(WITHIN - Duration::from_secs(10)).await;
    let (late_lease, returned_lease) = (claim(&*store, late.id).await.lease, claim(&*store, returned.id).await.lease);
    let in_time = claim(&*store, urgent(&*store).await.id).await.lease;
    harness.advance(Duration::from_secs(10)).await;
    assert_lost("begin", store.begin(&late_lease).await, &late_lease);
    assert_lost("finish as completed", store.finish(&late_lease, completed(&late_lease)).await, &late_lease);
    assert_eq!(get(&*store, late.id).await.begun_at, None);
    store.begin(&in_time).await.expect("it is in time");
    let state = store.hand_back(&returned_lease, HandBack::Returned).await.expect("the lease holds");
    assert_eq!(state, JobState::Queued);
    let mut failed = fail_overdue(&*store).await;
    failed.sort();
    let mut expected = [late.id, returned.id];
    expected.sort();
    assert_eq!(failed, expected);
    assert_eq!(ends(&*store, returned.id).await, [Some(AttemptEnd::Returned)]);
    harness.advance(WITHIN).await;
    store.begin(&in_time).await.expect("a begin may be repeated whenever");
}

/// Between the deadline and the sweep the job is neither claimed nor hinted at, and holds up none of those behind it: of its own
/// tenant and of others, in its queue and in others. The sweep finds it as before.
pub async fn an_overdue_job_is_given_out_to_nobody(harness: &impl StoreHarness) {
    // So few that a claim finds the others in front, and so many that it has to look for them behind.
    for (name, count) in [("few", 2), ("many", 40)] {
        given_out_to_nobody(harness, &named(name), count).await;
    }
}

async fn given_out_to_nobody(harness: &impl StoreHarness, owner: &Tenant, count: usize) {
    let store = harness.store();
    let of_owner = async |rows, within: Option<Duration>| {
        let made = make(&*store, |new| (new.tenant, new.rows, new.start_within) = (owner.clone(), rows, within));
        made.await.id
    };
    let hinted = async || -> Vec<JobId> {
        store.ready(10).await.expect("the store answers").into_iter().map(|hint| hint.job).collect()
    };
    let mut overdue = Vec::new();
    for _ in 0..count {
        overdue.push(of_owner(1_000, Some(WITHIN)).await);
    }
    overdue.push(of_owner(12_000, Some(WITHIN)).await);
    let behind = [of_owner(1_000, Some(4 * WITHIN)).await, of_owner(1_000, None).await];
    harness.advance(WITHIN).await;
    assert_eq!(hinted().await, behind);
    for &id in &overdue {
        assert_eq!(store.claim(id, &worker()).await.expect("the store answers"), None);
        assert_eq!(store.find(id).await.expect("the store answers").expect("it is there").state, JobState::Queued);
    }
    // With a cap, tenants are looked at in another way.
    let limits = TenantLimits { max_running: Some(3), ..TenantLimits::default() };
    store.set_tenant(owner, &limits).await.expect("the store answers");
    assert_eq!(hinted().await, behind);
    let other = make_for(&*store, &named("other")).await.id;
    let mut claimed = Vec::new();
    while let Some(id) = next(&*store, &worker()).await {
        claimed.push(id);
    }
    claimed.retain(|&id| id != other);
    assert_eq!(claimed, behind);
    assert_ne!(store.find(other).await.expect("the store answers").expect("it is there").worker, None);

    let mut failed = fail_overdue(&*store).await;
    failed.sort();
    overdue.sort();
    assert_eq!(failed, overdue);
    for id in overdue {
        let job = store.find(id).await.expect("the store answers").expect("it is there");
        assert_eq!(job.error.map(|error| error.code), Some(FailureCode::StartDeadlineExceeded));
        assert_eq!(store.attempts(owner, id).await.expect("the store answers"), []);
    }
}

/// Whoever has cancelled a job is told that, also where its time to begin has passed meanwhile.
pub async fn a_cancel_wins_over_a_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    harness.advance(WITHIN - Duration::from_secs(10)).await;
    claim(&*store, job.id).await;
    store.cancel(&tenant(), job.id).await.expect("the store answers");
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(fail_overdue(&*store).await, [job.id]);
    assert_eq!(get(&*store, job.id).await.state, JobState::Cancelled);
    assert_eq!(ends(&*store, job.id).await, [Some(AttemptEnd::Cancelled)]);
}

/// Once it has begun the deadline is met for good, also where another attempt has to begin anew.
pub async fn a_job_that_has_begun_once_is_exempt(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = urgent(&*store).await;
    let lease = claim(&*store, job.id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    assert_eq!(get(&*store, job.id).await.start_by, None);
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    let waiting = get(&*store, job.id).await;
    assert_eq!((waiting.state, waiting.start_by), (JobState::Queued, None));

    let unsaid = urgent(&*store).await;
    let lease = claim(&*store, unsaid.id).await.lease;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    assert_eq!(get(&*store, unsaid.id).await.start_by, None);

    harness.advance(WITHIN).await;
    assert_eq!(fail_overdue(&*store).await, []);
    assert_eq!(next(&*store, &worker()).await, Some(job.id));
}

/// The longest overdue first, no more than were asked for, none twice.
pub async fn overdue_jobs_are_failed_up_to_the_limit(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(urgent(&*store).await.id);
        harness.advance(Duration::from_secs(1)).await;
    }
    // Those that are claimed count as well.
    claim(&*store, made[4]).await;
    harness.advance(WITHIN).await;
    for expected in [&made[..2], &made[2..4], &made[4..], &[]] {
        assert_eq!(store.fail_overdue(2).await.expect("the store answers"), expected);
    }
}

/// A sweep that sleeps until the next moment wakes for a deadline, and not for one that was met.
pub async fn the_next_moment_may_be_a_deadline(harness: &impl StoreHarness) {
    let store = harness.store();
    let now = store.now().await.expect("the store answers");
    let job = urgent(&*store).await;
    let due = async |after| store.next_due(after).await.expect("the store answers");
    let start_by = job.start_by.expect("it has a deadline");
    assert_eq!(due(job.run_at.max(now)).await, Some(start_by));
    assert_eq!(due(start_by).await, None);
    let lease = claim(&*store, job.id).await.lease;
    // A claim has a moment of its own, and the deadline stays.
    assert_eq!(due(lease.expires_at).await, Some(start_by));
    store.begin(&lease).await.expect("the lease holds");
    let lease_end = get(&*store, job.id).await.lease_expires_at;
    store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
    // No deadline any more: what is left is the garbage of the claim.
    let now = store.now().await.expect("the store answers");
    assert_eq!(due(now).await, lease_end);
}
