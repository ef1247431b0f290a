//! Claims that end under their worker.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clapboard_jobs::fixtures::{FaultyBlob, FaultyStore};
use clapboard_jobs::{AttemptEnd, Claimed, JobId, JobState, Micros, Phase, Policy, Status};
use clapboard_worker::Options;

use crate::blobs::GatedBlob;
use crate::house::{House, Running, named, until_true};
use crate::scripted::{Gate, Opener, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_job_was_given_away_stops_and_nothing_of_it_is_seen() {
    let house = House::new().await;
    let stopped = Gate::default();
    let _open = Opener(stopped.clone());
    let worker = house.start(Scripted::endless(&stopped));
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    let stolen = house.steal(id).await;
    tokio::task::spawn_blocking(move || stopped.wait()).await.unwrap();
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.worker, job.fence), (JobState::Running, Some(stolen.lease.worker), stolen.lease.fence));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::LeaseLost), None]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.objects().await, Vec::<String>::new());
}

/// Lets a worker generate a job's video and takes the job away before it has finished it; it finishes when the gate is open.
async fn zombie(house: &House, options: Options) -> (Running, JobId, Claimed, Gate) {
    let (decoded, finish) = (Gate::default(), Gate::default());
    let _open = Opener(decoded.clone());
    let generator = Scripted::new({
        let (decoded, finish) = (decoded.clone(), finish.clone());
        move |play| {
            play.denoise()?;
            play.media()?;
            decoded.open();
            finish.wait();
            Ok(play.report())
        }
    });
    // It beats too seldom to hear of its loss before it has finished.
    let options = Options { beat_interval: Duration::from_secs(25), ..options };
    let worker = house.start_with(generator, options);
    let id = house.submit().await;
    tokio::task::spawn_blocking(move || decoded.wait()).await.unwrap();
    house.until(id, |job| job.status() == Status::InProgress).await;
    let stolen = house.steal(id).await;
    (worker, id, stolen, finish)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_that_finishes_its_job_changes_nothing_and_takes_its_object_away() {
    let house = House::new().await;
    let (worker, id, stolen, finish) = zombie(&house, house.options()).await;
    finish.open();
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.worker, job.result), (JobState::Running, Some(stolen.lease.worker), None));
    assert_eq!(house.objects().await, Vec::<String>::new());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_worker_nor_its_drain_waits_for_long_until_a_discarded_result_is_removed() {
    let mut house = House::new().await;
    house.blob = GatedBlob::irremovable(&house.blob, ".mp4");
    let options = Options { drain_timeout: Duration::from_secs(1), ..house.options() };
    let (worker, _, _, finish) = zombie(&house, options).await;
    finish.open();
    until_true(async || !house.objects().await.is_empty()).await;
    worker.stop().await.unwrap();
    // It is left to the sweep over objects of nobody.
    assert_eq!(house.objects().await.len(), 1);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beat_that_hangs_costs_no_other_lease_of_its_worker() {
    let lease = Duration::from_secs(4);
    let mut house = House::with(Policy { lease, ..Policy::default() }).await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let faulty = Arc::new(FaultyStore::over(Arc::clone(&house.heartbeat_store)));
    house.heartbeat_store = Arc::clone(&faulty) as _;
    let finishes_first = AtomicBool::new(true);
    let generator = Scripted::new(move |play| {
        if !finishes_first.swap(false, Ordering::SeqCst) {
            return Err(play.denoise_for_ever());
        }
        play.denoise()?;
        play.media()?;
        Ok(play.report())
    });
    let options = Options { fence_margin: Duration::from_secs(1), ..house.options() };
    let worker = house.start_with(generator, options);
    let first = house.submit().await;
    house.until(first, |job| job.progress.phase == Phase::Upload).await;
    let second = house.submit().await;
    let begun = house.until(second, |job| job.status() == Status::InProgress).await;
    faulty.hang_beats_of(first);
    let later = Micros(begun.lease_expires_at.unwrap().0 + 2 * i64::try_from(lease.as_micros()).unwrap());
    house.until(second, |job| job.lease_expires_at > Some(later)).await;
    assert!(house.find(first).await.unwrap().lease_expires_at < Some(later));
    gate.open();
    worker.stop().await.unwrap();
    assert_eq!(house.ends(second).await, [Some(AttemptEnd::Drained)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_beat_stops_its_engine_before_the_lease_ends() {
    let mut house = House::with(Policy { lease: Duration::from_secs(6), ..Policy::default() }).await;
    let faulty = house.break_store();
    let stopped = Gate::default();
    let _open = Opener(stopped.clone());
    let options = Options { fence_margin: Duration::from_secs(4), ..house.options() };
    let worker = house.start_with(
        Scripted::new({
            let stopped = stopped.clone();
            move |play| {
                let error = play.denoise_for_ever();
                stopped.open();
                Err(error)
            }
        }),
        options,
    );
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    faulty.refuse_beats();
    tokio::task::spawn_blocking(move || stopped.wait()).await.unwrap();
    worker.stop().await.unwrap();
    // The worker wrote nothing: the job is the reaper's, once the lease has ended.
    let job = house.find(id).await.unwrap();
    assert_eq!(job.state, JobState::Running);
    assert_eq!(house.ends(id).await, [None]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_never_answers_a_finish_holds_the_worker_no_longer_than_its_lease() {
    let mut house = House::with(Policy { lease: Duration::from_secs(3), ..Policy::default() }).await;
    let faulty = house.break_store();
    faulty.hang_finishes();
    faulty.refuse_beats();
    let options = Options { fence_margin: Duration::from_secs(1), ..house.options() };
    let worker = house.start_with(Scripted::new(|play| Err(play.refuse())), options);
    let first = house.submit().await;
    house.until(first, |_| faulty.finishes() == 1).await;
    worker.stop().await.unwrap();
    // Nobody knows whether it was written: the job is the reaper's.
    assert_eq!((house.find(first).await.unwrap().state, faulty.finishes()), (JobState::Running, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_never_answers_a_claim_does_not_hold_up_a_drain() {
    let mut house = House::new().await;
    let faulty = house.break_store();
    faulty.hang_claims();
    // Only the hint can lead to the claim.
    let poll_interval = Duration::from_secs(3600);
    let options = Options { drain_timeout: Duration::from_millis(20), poll_interval, ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    house.until_hints_are_taken().await;
    worker.stop().await.unwrap();
    assert_eq!(house.find(id).await.unwrap().state, JobState::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_answer_was_not_heard_is_found_to_have_succeeded() {
    let mut house = House::new().await;
    let faulty = house.break_store();
    faulty.lose_next_finish();
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(house.objects().await, named(&job));
    assert_eq!(faulty.finishes(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn beats_do_not_go_over_the_connection_of_all_else() {
    let mut house = House::new().await;
    let faulty = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    faulty.refuse_beats();
    house.store = Arc::clone(&faulty) as _;
    let worker = house.start(Scripted::endless(&Gate::default()));
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Denoise).await;
    house.store.cancel(&house.tenant, id).await.unwrap().unwrap();
    house.until_state(id, JobState::Cancelled).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_video_is_held_until_the_lease_ends_even_when_no_beat_gets_through() {
    let mut house = House::with(Policy { lease: Duration::from_secs(20), ..Policy::default() }).await;
    let faulty = house.break_store();
    // Five tries and the waits between them take more than three seconds.
    house.blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 5));
    // The fence of a running engine would fall after two.
    let options = Options { fence_margin: Duration::from_secs(18), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Upload).await;
    faulty.refuse_beats();
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!(house.objects().await, named(&job));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shorter_than_the_lease_costs_nothing() {
    let mut house = House::new().await;
    let jobs = Arc::clone(&house.store);
    let faulty = house.break_store();
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options = Options { preview_timeout: Duration::from_secs(1), ..house.options() };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    faulty.go_away();
    gate.open();
    // The video is finished and stored while nobody can be told.
    until_true(async || !house.objects().await.is_empty()).await;
    until_true(async || faulty.finishes() >= 2).await;
    assert_eq!(jobs.get(&house.tenant, id).await.unwrap().unwrap().state, JobState::Running);
    faulty.come_back();
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, house.ends(id).await), (1, vec![Some(AttemptEnd::Completed)]));
    worker.stop().await.unwrap();
}
