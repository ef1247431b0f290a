//! What the sweeps do to a real store, dispatcher and media store.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clapboard_blob::DiskBlob;
use clapboard_dispatch::MemoryDispatch;
use clapboard_h3::Partition;
use clapboard_jobs::fixtures::{MovedClock, small_spec};
use clapboard_jobs::{
    Blob, BlobKey, Claimant, Claimed, Dispatch, Job, JobError, JobState, Lease, NewJob, Outcome, Policy, Queue,
    ResultObject, RunReport, Store, Tenant, WorkerId,
};
use clapboard_scheduler::{
    Garbage, Options, Orphans, Parts, Reaper, Refill, Scheduler, Sweep, Swept, take_back_from_dead,
};
use clapboard_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const QUEUE: Queue = Queue::of(Partition::Fl2va);
const NOTHING: Swept = Swept { done: 0, more: false };

struct House {
    folder: TempDir,
    clock: Arc<MovedClock>,
    store: Arc<dyn Store>,
    dispatch: Arc<dyn Dispatch>,
    blob: Arc<dyn Blob>,
    policy: Policy,
    tenant: Tenant,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (clock, policy) = (Arc::new(MovedClock::default()), Policy::default());
        let file = folder.path().join("jobs.sqlite");
        let store = SqliteStore::open(&file, policy.clone(), Arc::clone(&clock) as _).await.unwrap();
        let blob = DiskBlob::open(&folder.path().join("media")).await.unwrap();
        Self {
            clock,
            store: Arc::new(store),
            dispatch: Arc::new(MemoryDispatch::new()),
            blob: Arc::new(blob),
            policy,
            tenant: Tenant::default(),
            folder,
        }
    }

    async fn submit(&self) -> Job {
        self.store.create(NewJob::new(self.tenant.clone(), "h3", &small_spec())).await.unwrap()
    }

    async fn claim(&self) -> Claimed {
        let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        self.store.claim_next(&claimant).await.unwrap().unwrap()
    }

    /// Puts some bytes where the claim's result belongs.
    async fn put(&self, lease: &Lease) -> ResultObject {
        let file = self.folder.path().join("video.mp4");
        fs::write(&file, "not quite a video").unwrap();
        let key = lease.result_key();
        let put = self.blob.put_file(&key, &file).await.unwrap();
        ResultObject { key, size_bytes: put.size_bytes, sha256: put.sha256 }
    }

    async fn objects(&self) -> Vec<BlobKey> {
        let objects = self.blob.list("", None, 100).await.unwrap();
        objects.into_iter().map(|object| object.key).collect()
    }

    fn refill(&self, options: &Options) -> Refill {
        Refill::new(Arc::clone(&self.store), Arc::clone(&self.dispatch), options)
    }

    fn garbage(&self, options: &Options) -> Garbage {
        Garbage::new(Arc::clone(&self.store), Arc::clone(&self.blob), options)
    }

    fn orphans(&self, options: &Options) -> Orphans {
        Orphans::new(Arc::clone(&self.store), Arc::clone(&self.blob), options)
    }
}

#[tokio::test]
async fn lost_hints_come_back_and_are_not_doubled() {
    let house = House::new().await;
    let (first, second) = (house.submit().await, house.submit().await);
    let refill = house.refill(&Options::default());
    assert_eq!(refill.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    refill.sweep_once().await.unwrap();
    assert_eq!(house.dispatch.len(QUEUE).await.unwrap(), 2);
    for expected in [first.id, second.id] {
        let hint = house.dispatch.pop(&[QUEUE], Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(hint.job, expected);
    }
    assert_eq!(house.claim().await.job.id, first.id);
    assert_eq!(refill.sweep_once().await.unwrap().done, 1);
}

#[tokio::test]
async fn the_window_holds_the_heads_of_a_long_queue() {
    let house = House::new().await;
    for _ in 0..5 {
        house.submit().await;
    }
    let options = Options { refill_window: 3, ..Options::default() };
    assert_eq!(house.refill(&options).sweep_once().await.unwrap(), Swept { done: 3, more: false });
}

#[tokio::test]
async fn the_reaper_takes_back_what_a_dead_worker_held_and_ends_it_in_the_end() {
    let house = House::new().await;
    let job = house.submit().await;
    let reaper = Reaper::new(Arc::clone(&house.store), &Options::default());
    for attempt in 1..=house.policy.max_attempts {
        assert_eq!(house.claim().await.job.attempt, attempt);
        assert_eq!(reaper.sweep_once().await.unwrap(), NOTHING);
        house.clock.advance(house.policy.lease);
        assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    }
    let job = house.store.get(&house.tenant, job.id).await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Failed);
}

#[tokio::test]
async fn a_full_batch_says_that_there_may_be_more() {
    let house = House::new().await;
    for _ in 0..3 {
        house.submit().await;
        house.claim().await;
    }
    house.clock.advance(house.policy.lease);
    let reaper = Reaper::new(Arc::clone(&house.store), &Options { batch: 2, ..Options::default() });
    assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 2, more: true });
    assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 1, more: false });
}

#[tokio::test]
async fn the_objects_of_deleted_jobs_and_failed_attempts_are_deleted_and_results_are_kept() {
    let house = House::new().await;
    let garbage = house.garbage(&Options::default());
    house.submit().await;
    let kept = house.claim().await.lease;
    let object = house.put(&kept).await;
    let done = Outcome::Completed { object: object.clone(), report: RunReport::default() };
    house.store.finish(&kept, done).await.unwrap();
    house.submit().await;
    let cancelled = house.claim().await.lease;
    house.put(&cancelled).await;
    house.store.finish(&cancelled, Outcome::Failed(JobError::cancelled())).await.unwrap();
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, [object.key]);

    house.store.delete(&house.tenant, kept.job).await.unwrap();
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(house.objects().await, []);
    assert_eq!(garbage.sweep_once().await.unwrap(), NOTHING);
}

#[tokio::test]
async fn what_a_zombie_put_after_everything_was_over_is_found_once_it_is_old() {
    let house = House::new().await;
    let options = Options { batch: 1, ..Options::default() };
    let orphans = house.orphans(&options);
    house.submit().await;
    let kept = house.claim().await.lease;
    let object = house.put(&kept).await;
    let done = Outcome::Completed { object: object.clone(), report: RunReport::default() };
    house.store.finish(&kept, done).await.unwrap();
    for _ in 0..2 {
        house.submit().await;
        let zombie = house.claim().await.lease;
        house.store.delete(&house.tenant, zombie.job).await.unwrap();
        house.clock.advance(house.policy.lease);
        assert_eq!(house.garbage(&options).sweep_once().await.unwrap().done, 1);
        house.put(&zombie).await;
    }
    assert_eq!(orphans.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(options.orphan_age);
    assert_eq!(orphans.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    assert_eq!(house.objects().await, [object.key]);
}

#[tokio::test]
async fn a_service_that_starts_takes_back_what_ran_when_it_died() {
    let house = House::new().await;
    let job = house.submit().await;
    let living = house.claim().await.lease.worker;
    assert!(take_back_from_dead(&*house.store, &[living]).await.unwrap().is_empty());
    let reclaimed = take_back_from_dead(&*house.store, &[]).await.unwrap();
    assert_eq!(reclaimed.requeued, [job.id]);
}

#[tokio::test]
async fn the_running_scheduler_fills_the_queue_and_ends_when_told() {
    let house = House::new().await;
    let job = house.submit().await;
    let parts =
        Parts { store: Arc::clone(&house.store), dispatch: Arc::clone(&house.dispatch), blob: Arc::clone(&house.blob) };
    let shutdown = CancellationToken::new();
    let scheduler = Scheduler::new(&parts, Options::default()).unwrap();
    let running = tokio::spawn(scheduler.run(shutdown.clone()));
    let hint = house.dispatch.pop(&[QUEUE], Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(hint.job, job.id);
    shutdown.cancel();
    running.await.unwrap();
}
