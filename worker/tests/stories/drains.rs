//! Workers that end in good order, and what operators see of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clapboard_jobs::{AttemptEnd, JobState, Phase, Status, WorkerRecord, WorkerState};
use clapboard_worker::{DrainMode, Drained, Options};

use crate::blobs::GatedBlob;
use crate::house::{House, until_some};
use crate::scripted::{Gate, Opener, Scripted};

/// Waits until the store knows of exactly one worker, and that as the story wants it.
pub(crate) async fn worker_seen(house: &House, wanted: impl Fn(&WorkerRecord) -> bool) -> WorkerRecord {
    until_some(async || match house.store.workers().await.unwrap().as_slice() {
        [worker] if wanted(worker) => Some(worker.clone()),
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_a_worker_is_doing_until_it_has_drained() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options =
        Options { host: "gpu-7".to_owned(), version: "1.2.3".to_owned(), max_rows: Some(100_000), ..house.options() };
    let id = options.worker;
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let idle = worker_seen(&house, |worker| worker.card.state == WorkerState::Idle).await.card;
    assert_eq!((idle.id, idle.host.as_str(), idle.version.as_str()), (id, "gpu-7", "1.2.3"));
    assert_eq!(idle.max_rows, Some(100_000));
    let job = house.submit().await;
    worker_seen(&house, |worker| worker.card.state == WorkerState::Busy).await;
    gate.open();
    house.until_state(job, JobState::Completed).await;
    worker_seen(&house, |worker| worker.card.state == WorkerState::Idle).await;
    assert_eq!(worker.stop().await.unwrap(), Drained { by_order: false });
    assert_eq!(house.store.workers().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_drain_does_so() {
    let house = House::new().await;
    let options = house.options();
    let id = options.worker;
    let worker = house.start_with(Scripted::endless(&Gate::default()), options);
    let job = house.submit().await;
    house.until(job, |job| job.status() == Status::InProgress).await;
    assert!(house.store.ask_drain(id).await.unwrap());
    assert_eq!(worker.ended().await.unwrap(), Drained { by_order: true });
    assert_eq!(house.ends(job).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.find(job).await.unwrap().attempt, 0);
    assert_eq!(house.store.workers().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_finishes_completes_the_running_job_and_begins_no_other() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options = Options {
        drain: DrainMode::Finish,
        drain_timeout: Duration::from_millis(10),
        prefetch_window: Duration::from_secs(30),
        ..house.options()
    };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let (first, second) = (house.submit().await, house.submit().await);
    house.until_state(second, JobState::Running).await;
    worker.drain();
    let job = house.until_state(second, JobState::Queued).await;
    assert_eq!((job.attempt, house.ends(second).await), (0, vec![Some(AttemptEnd::Drained)]));
    worker_seen(&house, |worker| worker.card.state == WorkerState::Draining).await;
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    gate.open();
    worker.ended().await.unwrap();
    assert_eq!(house.find(first).await.unwrap().state, JobState::Completed);
    assert_eq!(house.find(second).await.unwrap().state, JobState::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_gives_a_finished_video_the_time_to_be_stored() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Upload).await;
    worker.drain();
    worker_seen(&house, |worker| worker.card.state == WorkerState::Draining).await;
    assert_eq!(house.find(id).await.unwrap().state, JobState::Running);
    gate.open();
    worker.ended().await.unwrap();
    assert_eq!(house.find(id).await.unwrap().state, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_a_media_store_that_hangs() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Upload).await;
    worker.stop().await.unwrap();
    assert_eq!(house.find(id).await.unwrap().state, JobState::Queued);
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_stops_the_engine_at_once_though_a_claim_is_not_answered() {
    let mut house = House::new().await;
    let jobs = house.store.clone();
    let faulty = house.break_store();
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let drain_timeout = Duration::from_secs(8);
    let options = Options { drain_timeout, prefetch_window: Duration::from_secs(60), ..house.options() };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    faulty.hang_claims();
    let asked = faulty.claims();
    house.until(id, |_| faulty.claims() > asked).await;
    let since = Instant::now();
    worker.drain();
    house.until_state(id, JobState::Queued).await;
    assert!(since.elapsed() < drain_timeout / 2);
    worker.ended().await.unwrap();
    assert!(since.elapsed() < drain_timeout + drain_timeout / 2);
    assert_eq!(jobs.get(&house.tenant, id).await.unwrap().unwrap().attempt, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_a_lease_long_for_a_store_that_does_not_answer_a_finish() {
    let mut house = House::new().await;
    let faulty = house.break_store();
    faulty.hang_finishes();
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(Scripted::new(|play| Err(play.refuse())), options);
    let id = house.submit().await;
    house.until(id, |_| faulty.finishes() == 1).await;
    let since = Instant::now();
    worker.stop().await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(9));
    assert_eq!(house.find(id).await.unwrap().state, JobState::Running);
}
