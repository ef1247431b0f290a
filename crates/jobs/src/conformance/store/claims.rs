//! Who gets which job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::*;
use crate::dispatch::Hint;
use crate::outcome::HandBack;
use crate::store::FARTHEST_PLACE;

/// Two workers with the same hint: one claims, the other finds nothing.
pub async fn one_of_two_claimants_gets_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..10 {
        let job = create(&*store).await;
        let (first, second) = (worker(), worker());
        let (a, b) = tokio::join!(store.claim(job.id, &first), store.claim(job.id, &second));
        let won: Vec<Claimed> = [a, b].into_iter().filter_map(|claim| claim.expect("the store answers")).collect();
        assert_eq!(won.len(), 1);
        assert_eq!(get(&*store, job.id).await.worker, Some(won[0].lease.worker));
        assert_eq!(history(&*store, job.id).await.len(), 1);
    }
}

/// Eight workers empty a queue of forty jobs together.
pub async fn many_claimants_share_many_jobs_without_doubling_one(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = BTreeSet::new();
    for _ in 0..40 {
        made.insert(create(&*store).await.id);
    }
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        workers.spawn(async move {
            let claimant = worker();
            let mut claimed = Vec::new();
            while let Some(id) = next(&*store, &claimant).await {
                claimed.push(id);
            }
            claimed
        });
    }
    let claimed: Vec<JobId> = workers.join_all().await.concat();
    assert_eq!(claimed.len(), made.len());
    assert_eq!(claimed.into_iter().collect::<BTreeSet<JobId>>(), made);
}

/// A worker that has loaded other weights gets nothing, hint or no hint.
pub async fn a_job_is_not_claimed_by_the_wrong_weights(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = make(&*store, |new| new.partition = Partition::Ref2va).await;
    let wrong = worker();
    assert_eq!(store.claim(job.id, &wrong).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &wrong).await, None);
    assert_eq!(next(&*store, &Claimant { partitions: vec![], ..worker() }).await, None);
    assert_eq!(get(&*store, job.id).await, job);
    let right = Claimant::new(WorkerId::new(), vec![Partition::Ref2va]);
    assert_eq!(next(&*store, &right).await, Some(job.id));
}

/// A worker leaves the jobs of a newer program to newer workers, and goes on with the others.
pub async fn a_job_of_an_unknown_spec_version_is_not_claimed(harness: &impl StoreHarness) {
    let store = harness.store();
    let newer = make(&*store, |new| new.spec.version = GenerationSpec::VERSION_WITH_INPUTS + 1).await;
    let known = create(&*store).await;
    let old_worker = worker();
    assert_eq!(store.claim(newer.id, &old_worker).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &old_worker).await, Some(known.id));
    assert_eq!(next(&*store, &old_worker).await, None);
    let spec_versions = vec![GenerationSpec::VERSION, GenerationSpec::VERSION_WITH_INPUTS + 1];
    assert_eq!(next(&*store, &Claimant { spec_versions, ..worker() }).await, Some(newer.id));
}

/// A worker is not given what it cannot hold.
pub async fn a_job_too_large_for_a_worker_is_left_to_others(harness: &impl StoreHarness) {
    let store = harness.store();
    let large = make(&*store, |new| new.rows = 5_001).await;
    let small = make(&*store, |new| new.rows = 5_000).await;
    // Both belong to one class: the rows themselves count.
    let limited = Claimant { max_rows: Some(5_000), ..worker() };
    assert_eq!(store.claim(large.id, &limited).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &limited).await, Some(small.id));
    assert_eq!(next(&*store, &limited).await, None);
    assert_eq!(next(&*store, &worker()).await, Some(large.id));
}

/// Whatever they cost, the jobs of one tenant run in the order in which they were made.
pub async fn the_jobs_of_one_tenant_are_claimed_in_order(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for cost in [900.0, 1.0, 0.0, 50.0, 0.0] {
        made.push(make(&*store, |new| new.cost_tflop = cost).await.id);
    }
    let claimant = worker();
    for expected in made {
        assert_eq!(next(&*store, &claimant).await, Some(expected));
    }
}

/// The first job of a tenant comes before all but the head of another's backlog.
pub async fn a_late_tenant_does_not_wait_behind_a_backlog(harness: &impl StoreHarness) {
    let store = harness.store();
    for _ in 0..10 {
        create(&*store).await;
    }
    let claimant = worker();
    assert!(next(&*store, &claimant).await.is_some());
    let late = make(&*store, |new| new.tenant = "late".parse().expect("the name is legal")).await;
    let following = [next(&*store, &claimant).await, next(&*store, &claimant).await];
    assert!(following.contains(&Some(late.id)), "{following:?}");
}

/// A worker of both queues takes the job whose turn it is, whichever queue it is in.
pub async fn a_worker_with_two_sets_of_weights_takes_the_lower_rank(harness: &impl StoreHarness) {
    let store = harness.store();
    let later = make(&*store, |new| new.cost_tflop = 200.0).await;
    let sooner = make(&*store, |new| (new.partition, new.cost_tflop) = (Partition::Ref2va, 100.0)).await;
    assert!(sooner.rank < later.rank);
    let both = Claimant::new(WorkerId::new(), vec![Partition::Fl2va, Partition::Ref2va]);
    assert_eq!(next(&*store, &both).await, Some(sooner.id));
    assert_eq!(next(&*store, &both).await, Some(later.id));
}

/// The sweep hints at what can be claimed now, per queue, in the order of the claim.
pub async fn hints_are_due_jobs_in_order(harness: &impl StoreHarness) {
    let store = harness.store();
    let (first, second, third) = (create(&*store).await, create(&*store).await, create(&*store).await);
    let other = make(&*store, |new| new.partition = Partition::Ref2va).await;
    let hint = |job: &Job| Hint { queue: job.queue(), rank: job.rank, job: job.id };

    let in_queue = |hints: Vec<Hint>, partition| -> Vec<Hint> {
        hints.into_iter().filter(|hint| hint.queue.partition() == partition).collect()
    };
    let hints = store.ready(2).await.expect("the store answers");
    assert_eq!(in_queue(hints.clone(), Partition::Fl2va), [hint(&first), hint(&second)]);
    assert_eq!(in_queue(hints, Partition::Ref2va), [hint(&other)]);

    let lease = claim(&*store, first.id).await.lease;
    let after = Some(Duration::from_secs(30));
    let retry = HandBack::Retry { after, error: failed("try again") };
    store.hand_back(&lease, retry).await.expect("the lease holds");
    claim(&*store, second.id).await;
    store.cancel(&tenant(), other.id).await.expect("the store answers");
    assert_eq!(store.ready(9).await.expect("the store answers"), [hint(&third)]);
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(store.ready(9).await.expect("the store answers"), [hint(&first), hint(&third)]);
}

/// Jobs that back off stand in nobody's way, and take their turn again once they are due: for claims and for hints.
pub async fn a_job_takes_its_turn_again_after_its_backoff(harness: &impl StoreHarness) {
    const AWAY: usize = 30;
    let store = harness.store();
    let mut away = Vec::new();
    for _ in 0..AWAY {
        away.push(create(&*store).await.id);
    }
    let late = [create(&*store).await.id, create(&*store).await.id];
    for &id in &away {
        let lease = claim(&*store, id).await.lease;
        let retry = HandBack::Retry { after: Some(Duration::from_secs(60)), error: failed("try again") };
        store.hand_back(&lease, retry).await.expect("the lease holds");
    }
    let hinted = async || -> Vec<JobId> {
        store.ready(99).await.expect("the store answers").into_iter().map(|hint| hint.job).collect()
    };
    assert_eq!(hinted().await, late);
    assert_eq!(next(&*store, &worker()).await, Some(late[0]));
    harness.advance(Duration::from_secs(60)).await;
    // The first look may be that of a claim or that of the sweep.
    assert_eq!(next(&*store, &worker()).await, Some(away[0]));
    assert_eq!(hinted().await, [&away[1..], &late[1..]].concat());
    for expected in away.into_iter().skip(1).chain([late[1]]) {
        assert_eq!(next(&*store, &worker()).await, Some(expected));
    }
    assert_eq!(next(&*store, &worker()).await, None);
}

/// The next job is the first, a claimed one stands before all, and ended ones have no place.
pub async fn the_place_in_the_queue_counts_those_before(harness: &impl StoreHarness) {
    let store = harness.store();
    let jobs = [create(&*store).await, create(&*store).await, create(&*store).await];
    make(&*store, |new| new.partition = Partition::Ref2va).await;
    let place = async |job: &Job| store.queue_position(&tenant(), job.id).await.expect("the store answers");
    assert_eq!([place(&jobs[0]).await, place(&jobs[1]).await, place(&jobs[2]).await], [Some(1), Some(2), Some(3)]);
    let lease = claim(&*store, jobs[0].id).await.lease;
    assert_eq!([place(&jobs[0]).await, place(&jobs[1]).await, place(&jobs[2]).await], [Some(0), Some(1), Some(2)]);
    store.begin(&lease).await.expect("the lease holds");
    store.cancel(&tenant(), jobs[1].id).await.expect("the store answers");
    assert_eq!([place(&jobs[0]).await, place(&jobs[1]).await, place(&jobs[2]).await], [None, None, Some(1)]);
    assert_eq!(store.queue_position(&tenant(), JobId::new()).await.expect("the store answers"), None);
}

/// A place is counted so far and no further, so that a look at a job costs the same before any backlog.
pub async fn a_place_beyond_the_farthest_is_not_told(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut last = create(&*store).await.id;
    for _ in 1..FARTHEST_PLACE {
        last = create(&*store).await.id;
    }
    let beyond = create(&*store).await.id;
    let place = async |id| store.queue_position(&tenant(), id).await.expect("the store answers");
    assert_eq!((place(last).await, place(beyond).await), (Some(FARTHEST_PLACE), None));
}
