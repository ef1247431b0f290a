//! Finished videos whose worker has died.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use clapboard_jobs::{AttemptEnd, JobId, JobState, Phase, Policy};
use clapboard_worker::{Options, Worker};

use crate::blobs::GatedBlob;
use crate::house::{GENEROUS, House, named, until_true};
use crate::scripted::{Opener, Scripted};

/// Lets a worker die while it stores a finished video, and returns the job and the folder that is left.
async fn crashed(house: &mut House) -> (JobId, PathBuf) {
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate);
    let whole = std::mem::replace(&mut house.blob, blob);
    let fence_margin = house.policy.lease / 4;
    let worker = house.start_with(Scripted::honest(), Options { fence_margin, ..house.options() });
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Upload).await;
    worker.crash().await;
    house.blob = whole;
    let left = house.scratch();
    assert_eq!(left.len(), 1, "{left:?}");
    (id, left[0].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_worker_stores_the_video_that_its_forerunner_has_finished() {
    let mut house = House::new().await;
    let (id, folder) = crashed(&mut house).await;
    let mode = fs::metadata(folder.join("lease.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let finished = fs::read(folder.join("video.mp4")).unwrap();
    // What a service does when it starts.
    let forerunners = Worker::forerunners(&house.path("scratch"));
    assert_eq!(forerunners, [house.find(id).await.unwrap().worker.unwrap()]);
    assert!(house.store.reclaim_from_dead(&forerunners).await.unwrap().is_empty());

    let worker = house.start(Scripted::new(|play| Err(play.refuse())));
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!((job.attempt, job.fence.0), (1, 1));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Completed)]);
    assert_eq!((job.previews.len(), house.objects().await), (2, named(&job)));
    assert!(house.object(job.result.unwrap().key.as_str()) == finished);
    let report = job.report.unwrap();
    let stages: Vec<&str> = report.stage_durations_s.keys().map(String::as_str).collect();
    assert_eq!(stages, ["decode_audio", "decode_video", "denoise", "encode", "encode_inputs", "text_encode", "upload"]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_whose_job_was_given_away_is_removed() {
    let mut house = House::new().await;
    let (id, folder) = crashed(&mut house).await;
    let stolen = house.steal(id).await;
    let worker = house.start(Scripted::honest());
    until_true(async || !folder.exists()).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.worker), (JobState::Running, Some(stolen.lease.worker)));
    assert_eq!(house.objects().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_whose_job_was_cancelled_meanwhile_is_not_stored() {
    let mut house = House::new().await;
    let (id, _) = crashed(&mut house).await;
    house.store.cancel(&house.tenant, id).await.unwrap().unwrap();
    let worker = house.start(Scripted::honest());
    house.until_state(id, JobState::Cancelled).await;
    worker.stop().await.unwrap();
    assert_eq!(house.objects().await, Vec::<String>::new());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_hands_back_the_job_of_a_video_that_cannot_be_stored_and_idle_workers_are_told() {
    let mut house = House::new().await;
    let (id, _) = crashed(&mut house).await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate);
    house.blob = blob;
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    // The beats of the new worker keep the lease that its forerunner has left.
    house.until_renewed(id, 2).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Queued, 0));
    house.until_hinted_at(&job).await;
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_video_is_not_taken_for_a_result() {
    let mut house = House::new().await;
    let (id, folder) = crashed(&mut house).await;
    let video = folder.join("video.mp4");
    let mut bytes = fs::read(&video).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&video, bytes).unwrap();
    let worker = house.start(Scripted::honest());
    until_true(async || !folder.exists()).await;
    assert_eq!(house.ends(id).await, [None]);
    assert_eq!(house.objects().await, Vec::<String>::new());
    // The next attempt makes it anew.
    house.reclaim(id).await;
    house.clock.advance(Duration::from_secs(3600));
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!(job.attempt, 2);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_about_whose_job_nobody_answers_is_removed_once_its_lease_is_over() {
    let mut house = House::with(Policy { lease: Duration::from_secs(2), ..Policy::default() }).await;
    let (_, folder) = crashed(&mut house).await;
    let faulty = house.break_store();
    faulty.refuse_beats();
    let options = Options { fence_margin: Duration::from_secs(1), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let removed = async {
        while folder.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(GENEROUS / 4, removed).await.unwrap();
    worker.stop().await.unwrap();
}
