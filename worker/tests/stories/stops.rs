//! Jobs that somebody stops: cancelled, deleted, drained.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use clapboard_jobs::{AttemptEnd, FailureCode, JobState, Status};
use clapboard_media::Ffmpeg;
use clapboard_worker::Options;

use crate::house::{House, until_some};
use crate::scripted::{Gate, Opener, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_that_is_cancelled_stops_and_leaves_nothing() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| {
        play.sound()?;
        Err(play.denoise_for_ever())
    }));
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    house.store.cancel(&house.tenant, id).await.unwrap().unwrap();
    let job = house.until_state(id, JobState::Cancelled).await;
    assert_eq!(job.error.unwrap().code, FailureCode::Cancelled);
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Cancelled)]);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.objects().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_that_is_deleted_stops_and_the_next_one_runs() {
    let house = House::new().await;
    let stopped = Gate::default();
    let _open = Opener(stopped.clone());
    let worker = house.start(Scripted::endless(&stopped));
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    let state = house.store.delete(&house.tenant, id).await.unwrap();
    assert_eq!(state, Some(JobState::Running));
    tokio::task::spawn_blocking(move || stopped.wait()).await.unwrap();
    assert_eq!(house.find(id).await, None);
    let next = house.submit().await;
    house.until(next, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.objects().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_hands_the_job_back_uncounted_and_the_next_worker_completes_it() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| Err(play.denoise_for_ever())));
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt, job.status()), (JobState::Queued, 0, Status::Queued));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.dispatch.len(job.queue()).await.unwrap(), 1, "idle workers are told of it");

    let worker = house.start(Scripted::honest());
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!(job.attempt, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_an_engine_that_does_not_stop() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let generator = Scripted::new(move |play| {
        play.denoise()?;
        gate.wait();
        Ok(play.report())
    });
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(generator, options);
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    assert_eq!(house.find(id).await.unwrap().state, JobState::Queued);
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Drained)]);
}

/// An ffmpeg that takes every frame and never ends the file; it writes its process id to `pid`.
fn endless_ffmpeg(house: &House) -> Ffmpeg {
    let wrapper = house.path("ffmpeg");
    let (pid, fresh) = (house.path("pid"), house.path("pid.new"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *pipe:0*) cat > /dev/null; echo $$ > {}; mv {} {}; exec sleep 1000;; esac\n\
         exec ffmpeg \"$@\"\n",
        fresh.display(),
        fresh.display(),
        pid.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    Ffmpeg::at(&wrapper, "ffprobe").unwrap()
}

/// Waits until the endless ffmpeg has all frames, and returns its place in the system's list of processes.
async fn encoding(house: &House) -> PathBuf {
    let pid = until_some(async || fs::read_to_string(house.path("pid")).ok()).await;
    PathBuf::from(format!("/proc/{}", pid.trim()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_an_encoder_that_does_not_end() {
    let mut house = House::new().await;
    house.ffmpeg = endless_ffmpeg(&house);
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    let process = encoding(&house).await;
    worker.stop().await.unwrap();
    assert_eq!(house.find(id).await.unwrap().state, JobState::Queued);
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Drained)]);
    assert!(!process.exists());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_while_it_is_encoded_leaves_no_encoder() {
    let mut house = House::new().await;
    house.ffmpeg = endless_ffmpeg(&house);
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let process = encoding(&house).await;
    house.store.cancel(&house.tenant, id).await.unwrap().unwrap();
    house.until_state(id, JobState::Cancelled).await;
    assert!(!process.exists());
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_drains_at_once() {
    let house = House::new().await;
    let options = Options { poll_interval: Duration::from_secs(3600), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    worker.stop().await.unwrap();
}
