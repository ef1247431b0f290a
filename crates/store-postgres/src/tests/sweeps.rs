use std::collections::BTreeSet;

use clapboard_jobs::store::Reclaimed;
use clapboard_jobs::{JobState, Progress};
use tokio::task::JoinSet;

use super::*;

/// How many jobs the sweeps share.
const JOBS: usize = 60;
/// How many sweeps run at once.
const SCHEDULERS: usize = 3;

/// Lets several schedulers, each with its own store, sweep with a small limit until nothing is left, and returns what each
/// call found.
async fn sweep<F>(harness: &Harness, policy: Policy, verb: impl Fn(Arc<dyn Store>) -> F) -> Vec<Vec<JobId>>
where
    F: Future<Output = Vec<JobId>> + Send + 'static,
{
    let mut sweeps = JoinSet::new();
    for _ in 0..SCHEDULERS {
        let store = harness.store_with(policy.clone()).await;
        let once = |store: &Arc<dyn Store>| verb(Arc::clone(store));
        // Each round is a future of its own, because the verb cannot move into the task.
        let rounds: Vec<F> = (0..JOBS).map(|_| once(&store)).collect();
        sweeps.spawn(async move {
            let mut found = Vec::new();
            for round in rounds {
                found.push(round.await);
            }
            found
        });
    }
    sweeps.join_all().await.concat()
}

#[track_caller]
fn assert_shared(found: Vec<Vec<JobId>>, expected: &BTreeSet<JobId>) {
    let all: Vec<JobId> = found.into_iter().flatten().collect();
    assert_eq!(all.len(), expected.len());
    assert_eq!(all.into_iter().collect::<BTreeSet<JobId>>(), *expected);
}

async fn running(harness: &Harness) -> Vec<Lease> {
    let mut leases = Vec::new();
    for _ in 0..JOBS {
        let job = harness.store.create(new_job()).await.unwrap();
        leases.push(harness.store.claim(job.id, &worker()).await.unwrap().unwrap().lease);
    }
    leases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_sweep_at_once_take_each_lost_job_back_once() {
    let harness = harness().await;
    let leases = running(&harness).await;
    harness.advance(Policy::default().lease).await;
    let (kept, lost) = leases.split_at(5);
    for lease in kept {
        harness.store.beat(lease, &Progress::START).await.unwrap();
    }
    let found = sweep(&harness, Policy::default(), |store| async move {
        let Reclaimed { requeued, ended } = store.reclaim_expired(4).await.unwrap();
        assert_eq!(ended, []);
        requeued
    })
    .await;
    assert_shared(found, &lost.iter().map(|lease| lease.job).collect());
    for lease in kept {
        harness.store.beat(lease, &Progress::START).await.unwrap();
    }
    for lease in lost {
        assert_eq!(harness.store.attempts(&lease.tenant, lease.job).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_sweep_at_once_fail_each_overdue_job_once() {
    let harness = harness().await;
    let mut made = BTreeSet::new();
    for _ in 0..JOBS {
        let new = NewJob { start_within: Some(Duration::from_secs(10)), ..new_job() };
        made.insert(harness.store.create(new).await.unwrap().id);
    }
    harness.advance(Duration::from_secs(10)).await;
    let found = sweep(&harness, Policy::default(), |store| async move { store.fail_overdue(4).await.unwrap() }).await;
    assert_shared(found, &made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_sweep_at_once_give_up_and_purge_each_job_once() {
    let harness = harness().await;
    let life = Duration::from_secs(100);
    let policy = Policy { result_life: Some(life), record_life: Some(2 * life), ..Policy::default() };
    let store = harness.store_with(policy.clone()).await;
    let leases = running(&harness).await;
    for lease in &leases {
        assert_eq!(store.finish(lease, completed(lease)).await.unwrap(), JobState::Completed);
    }
    let made: BTreeSet<JobId> = leases.iter().map(|lease| lease.job).collect();
    harness.advance(life).await;
    let found = sweep(&harness, policy.clone(), |store| async move { store.expire_results(4).await.unwrap() }).await;
    assert_shared(found, &made);
    harness.advance(life).await;
    let found = sweep(&harness, policy, |store| async move { store.purge_records(4).await.unwrap() }).await;
    assert_shared(found, &made);
    let usage = store.usage().await.unwrap();
    assert_eq!((usage.len(), usage[0].completed), (1, JOBS as u64));
    assert_eq!(store.garbage(1_000).await.unwrap().len(), JOBS);
}

/// A worker that reports while a sweep takes its job back: one of the two wins, and the other has changed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_and_a_worker_that_meet_leave_one_end() {
    let harness = harness().await;
    let leases = running(&harness).await;
    harness.advance(Policy::default().lease).await;
    let store = harness.store();
    let mut reports = JoinSet::new();
    for lease in leases.clone() {
        let store = Arc::clone(&store);
        reports.spawn(async move { (lease.job, store.finish(&lease, completed(&lease)).await.is_ok()) });
    }
    let found =
        sweep(&harness, Policy::default(), |store| async move { store.reclaim_expired(2).await.unwrap().requeued })
            .await;
    let taken: BTreeSet<JobId> = found.into_iter().flatten().collect();
    for (id, finished) in reports.join_all().await {
        let job = store.get(&Tenant::default(), id).await.unwrap().unwrap();
        let expected = if finished { JobState::Completed } else { JobState::Queued };
        assert_eq!((job.state, taken.contains(&id)), (expected, !finished));
    }
}
