//! Partitions that hand out nothing for a while.

use super::*;

async fn pause(store: &dyn Store, partition: Partition, paused: bool) {
    store.set_paused(partition, paused).await.expect("the store answers");
}

/// Neither a hint nor the order leads to a job of a paused partition; all of them are there afterwards.
pub async fn a_paused_partition_hands_out_nothing(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = create(&*store).await;
    assert_eq!(store.paused().await.expect("the store answers"), []);
    for _ in 0..2 {
        pause(&*store, Partition::Fl2va, true).await;
        assert_eq!(store.paused().await.expect("the store answers"), [Partition::Fl2va]);
    }
    let later = create(&*store).await;
    assert_eq!(store.claim(job.id, &worker()).await.expect("the store answers"), None);
    assert_eq!(next(&*store, &worker()).await, None);
    assert_eq!(store.ready(9).await.expect("the store answers"), []);
    assert_eq!(get(&*store, job.id).await, job);
    for _ in 0..2 {
        pause(&*store, Partition::Fl2va, false).await;
        assert_eq!(store.paused().await.expect("the store answers"), []);
    }
    assert_eq!(store.ready(9).await.expect("the store answers").len(), 2);
    assert_eq!([next(&*store, &worker()).await, next(&*store, &worker()).await], [Some(job.id), Some(later.id)]);
}

/// What runs is finished, and a worker of both partitions goes on with the other.
pub async fn a_pause_leaves_running_jobs_and_other_partitions_alone(harness: &impl StoreHarness) {
    let store = harness.store();
    let held = running(&*store).await;
    create(&*store).await;
    let other = make(&*store, |new| new.partition = Partition::Ref2va).await;
    pause(&*store, Partition::Fl2va, true).await;
    store.beat(&held, &at(Phase::Denoise, 1, 2, 50)).await.expect("the lease holds");
    store.finish(&held, completed(&held)).await.expect("the lease holds");
    let both = Claimant::new(WorkerId::new(), vec![Partition::Fl2va, Partition::Ref2va]);
    assert_eq!(next(&*store, &both).await, Some(other.id));
    assert_eq!(next(&*store, &both).await, None);
    pause(&*store, Partition::Ref2va, true).await;
    assert_eq!(store.paused().await.expect("the store answers"), Partition::ALL);
}
