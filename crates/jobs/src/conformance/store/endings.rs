//! How attempts end without ending the job, and when the job ends with them.

use std::time::Duration;

use super::*;
use crate::backoff;
use crate::id::Fence;
use crate::outcome::HandBack;
use crate::state::JobState;
use crate::store::Reclaimed;
use crate::tally::MAX_SPARED;

/// Three workers die over one job: it fails, and the history says so.
pub async fn a_job_whose_workers_are_lost_fails_with_its_history_kept(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let last = Policy::default().max_attempts;
    for attempt in 1..=last {
        let Claimed { lease, job } = claim(&*store, id).await;
        assert_eq!(job.attempt, attempt);
        store.begin(&lease).await.expect("the lease holds");
        harness.advance(lease_duration()).await;
        let reclaimed = store.reclaim_expired(100).await.expect("the store answers");
        let expected = if attempt == last {
            Reclaimed { requeued: vec![], ended: vec![id] }
        } else {
            Reclaimed { requeued: vec![id], ended: vec![] }
        };
        assert_eq!(reclaimed, expected, "after attempt {attempt}");
    }
    let job = get(&*store, id).await;
    assert_eq!(job.state, JobState::Failed);
    assert_eq!(job.error.map(|error| error.code), Some(FailureCode::WorkerLost));
    let attempts = history(&*store, id).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<u32>>(), [1, 2, 3]);
    assert_eq!(ends(&*store, id).await, [Some(AttemptEnd::LeaseLost); 3]);
    assert_eq!(store.claim(id, &worker()).await.expect("the store answers"), None);
}

/// A deploy every hour does not use up a job's attempts, and no claim repeats a fence.
pub async fn a_drain_refunds_the_attempt_but_not_the_fence(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let rank = get(&*store, id).await.rank;
    for round in 1..=5 {
        let Claimed { lease, job } = claim(&*store, id).await;
        assert_eq!((job.attempt, lease.fence), (1, Fence(round)));
        store.begin(&lease).await.expect("the lease holds");
        let state = store.hand_back(&lease, HandBack::Drained).await.expect("the lease holds");
        assert_eq!(state, JobState::Queued);
        let job = get(&*store, id).await;
        assert_eq!((job.attempt, job.fence, job.rank), (0, Fence(round), rank));
        assert_eq!((job.begun_at, job.progress), (None, Progress::START));
        assert_fenced(&*store, &lease).await;
    }
    assert_eq!(ends(&*store, id).await, [Some(AttemptEnd::Drained); 5]);
}

/// A job that was claimed ahead dies of the one that ran: that uses up none of its attempts.
pub async fn a_worker_lost_before_it_began_refunds_the_attempt(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    for round in 1..=i64::from(Policy::default().max_attempts) + 1 {
        let Claimed { lease, job } = claim(&*store, id).await;
        assert_eq!((job.attempt, lease.fence), (1, Fence(round)));
        // It lives for a while, and the lease is renewed, but the job does not begin.
        store.beat(&lease, &Progress::START).await.expect("the lease holds");
        let reclaimed = if round % 2 == 0 {
            store.reclaim_from_dead(&[]).await.expect("the store answers")
        } else {
            harness.advance(lease_duration()).await;
            store.reclaim_expired(100).await.expect("the store answers")
        };
        assert_eq!(reclaimed, Reclaimed { requeued: vec![id], ended: vec![] });
        assert_eq!(get(&*store, id).await.attempt, 0);
        assert_fenced(&*store, &lease).await;
    }
    assert_eq!(ends(&*store, id).await, [Some(AttemptEnd::LeaseLost); 4]);
    let lease = claim(&*store, id).await.lease;
    store.begin(&lease).await.expect("the lease holds");
    harness.advance(lease_duration()).await;
    store.reclaim_expired(100).await.expect("the store answers");
    assert_eq!(get(&*store, id).await.attempt, 1);
}

/// Inputs that kill every worker which prepares them, or fill every disk, end their job in the end; an operator can have it
/// tried again.
pub async fn a_job_is_spared_only_so_often(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let claims = MAX_SPARED + Policy::default().max_attempts;
    for life in 1..=2 {
        for round in 1..=claims {
            let Claimed { lease, job } = claim(&*store, id).await;
            assert_eq!(job.attempt, round.saturating_sub(MAX_SPARED).max(1), "in round {round}");
            let state = if round % 2 == 0 {
                let unwell = HandBack::Unwell { after: Duration::ZERO, error: failed("no room") };
                store.hand_back(&lease, unwell).await.expect("the lease holds")
            } else {
                harness.advance(lease_duration()).await;
                store.reclaim_expired(100).await.expect("the store answers");
                get(&*store, id).await.state
            };
            let expected = if round == claims { JobState::Failed } else { JobState::Queued };
            assert_eq!(state, expected, "after round {round}");
        }
        assert_eq!(history(&*store, id).await.len(), life * claims as usize);
        let error = get(&*store, id).await.error.expect("it failed");
        assert_eq!(error.code, FailureCode::WorkerLost);
        store.retry(&tenant(), id).await.expect("the store answers");
    }
}

/// A full disk of one worker uses up no job's attempts; the job waits a while in between.
pub async fn an_unwell_worker_refunds_the_attempt_and_the_job_waits(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    let after = Duration::from_secs(5);
    let error = JobError::new(FailureCode::InternalError, "no room on the disk");
    let rounds = Policy::default().max_attempts + 2;
    for round in 1..=rounds {
        let Claimed { lease, job } = claim(&*store, id).await;
        assert_eq!((job.attempt, lease.fence), (1, Fence(i64::from(round))));
        store.begin(&lease).await.expect("the lease holds");
        let unwell = HandBack::Unwell { after, error: error.clone() };
        assert_eq!(store.hand_back(&lease, unwell).await.expect("the lease holds"), JobState::Queued);
        let job = get(&*store, id).await;
        assert_eq!((job.attempt, &job.error, job.begun_at), (0, &None, None));
        assert_fenced(&*store, &lease).await;
        harness.advance(after - Duration::from_secs(1)).await;
        assert_eq!(store.claim(id, &worker()).await.expect("the store answers"), None);
        harness.advance(Duration::from_secs(1)).await;
    }
    let attempts = history(&*store, id).await;
    assert_eq!(attempts.len(), rounds as usize);
    for attempt in attempts {
        let end = attempt.ended.map(|(_, end)| end);
        assert_eq!((attempt.number, end, attempt.error), (1, Some(AttemptEnd::Retried), Some(error.clone())));
    }
}

/// After a failure that may pass, the job is due when its backoff ends and not before.
pub async fn a_retry_waits_for_its_backoff(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = running(&*store).await;
    let error = failed("the card was busy");
    let retry = HandBack::Retry { after: None, error: error.clone() };
    assert_eq!(store.hand_back(&lease, retry).await.expect("the lease holds"), JobState::Queued);
    let job = get(&*store, lease.job).await;
    assert_eq!((job.attempt, &job.error), (1, &None));
    let now = store.now().await.expect("the store answers");
    assert!(job.run_at.since(now) <= backoff::BASE && job.run_at > now);
    assert_eq!(store.claim(job.id, &worker()).await.expect("the store answers"), None);
    assert_eq!(store.claim_next(&worker()).await.expect("the store answers"), None);

    harness.advance(backoff::BASE).await;
    assert_eq!(claim(&*store, job.id).await.job.attempt, 2);
    let attempts = history(&*store, job.id).await;
    assert_eq!(attempts[0].error, Some(error));
    assert_eq!(ends(&*store, job.id).await, [Some(AttemptEnd::Retried), None]);
}

/// A worker that knows how long to wait is believed, within the cap.
pub async fn a_retry_waits_as_long_as_its_worker_asks(harness: &impl StoreHarness) {
    let store = harness.store();
    for (asked, waits) in [(Duration::from_secs(90), Duration::from_secs(90)), (Duration::MAX, backoff::CAP)] {
        let lease = running(&*store).await;
        let retry = HandBack::Retry { after: Some(asked), error: failed("not now") };
        store.hand_back(&lease, retry).await.expect("the lease holds");
        harness.advance(waits - Duration::from_secs(1)).await;
        assert_eq!(store.claim(lease.job, &worker()).await.expect("the store answers"), None);
        harness.advance(Duration::from_secs(1)).await;
        claim(&*store, lease.job).await;
    }
}

/// A job that fails in its last attempt ends with that attempt's error.
pub async fn the_last_retry_fails_with_its_error(harness: &impl StoreHarness) {
    let store = harness.store();
    let id = create(&*store).await.id;
    for attempt in 1..=Policy::default().max_attempts {
        let lease = claim(&*store, id).await.lease;
        let error = failed(&format!("attempt {attempt}"));
        let retry = HandBack::Retry { after: Some(Duration::ZERO), error };
        store.hand_back(&lease, retry).await.expect("the lease holds");
    }
    let job = get(&*store, id).await;
    assert_eq!((job.state, job.error), (JobState::Failed, Some(failed("attempt 3"))));
    let retried = Some(AttemptEnd::Retried);
    assert_eq!(ends(&*store, id).await, [retried, retried, Some(AttemptEnd::Failed)]);
    let messages: Vec<String> = history(&*store, id)
        .await
        .into_iter()
        .map(|attempt| attempt.error.expect("each attempt failed").message)
        .collect();
    assert_eq!(messages, ["attempt 1", "attempt 2", "attempt 3"]);
}

/// A standalone service that starts again gets at once what its dead process held, and leaves the living alone.
pub async fn a_restart_takes_back_the_jobs_of_dead_workers_only(harness: &impl StoreHarness) {
    let store = harness.store();
    let (dead, alive) = (running(&*store).await, running(&*store).await);
    let waiting = create(&*store).await;
    let reclaimed = store.reclaim_from_dead(&[alive.worker]).await.expect("the store answers");
    assert_eq!(reclaimed, Reclaimed { requeued: vec![dead.job], ended: vec![] });
    assert_fenced(&*store, &dead).await;
    store.begin(&alive).await.expect("the lease holds");
    assert_eq!(get(&*store, waiting.id).await, waiting);
    let again = claim(&*store, dead.job).await;
    assert_eq!(again.job.attempt, 2);
    store.begin(&again.lease).await.expect("the lease holds");
    // Killed in its last attempt, the job is not tried a fourth time.
    store.reclaim_from_dead(&[alive.worker]).await.expect("the store answers");
    store.begin(&claim(&*store, dead.job).await.lease).await.expect("the lease holds");
    let reclaimed = store.reclaim_from_dead(&[alive.worker]).await.expect("the store answers");
    assert_eq!(reclaimed, Reclaimed { requeued: vec![], ended: vec![dead.job] });
}

/// A sweep that sleeps until the next moment misses neither a lease that ends nor a job that falls due.
pub async fn the_next_moment_is_the_first_that_matters(harness: &impl StoreHarness) {
    let store = harness.store();
    let now = store.now().await.expect("the store answers");
    assert_eq!(store.next_due(now).await.expect("the store answers"), None);
    let lease = running(&*store).await;
    let expires_at = get(&*store, lease.job).await.lease_expires_at;
    assert_eq!(store.next_due(now).await.expect("the store answers"), expires_at);

    let backing_off = running(&*store).await;
    let retry = HandBack::Retry { after: Some(Duration::from_secs(10)), error: failed("not now") };
    store.hand_back(&backing_off, retry).await.expect("the lease holds");
    let run_at = get(&*store, backing_off.job).await.run_at;
    let now = store.now().await.expect("the store answers");
    assert_eq!(store.next_due(now).await.expect("the store answers"), Some(run_at));
    assert_eq!(store.next_due(run_at).await.expect("the store answers"), expires_at);
}
