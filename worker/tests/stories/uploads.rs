//! Uploads that are slow, and uploads that hang.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clapboard_engine::Phase as EnginePhase;
use clapboard_jobs::{AttemptEnd, JobState, Phase, Status};
use clapboard_worker::{Error, Options, StallLimits};

use crate::blobs::GatedBlob;
use crate::house::{GENEROUS, House};
use crate::scripted::{Gate, Opener, Scripted};

/// After which nothing that has stopped moving is waited for.
const LIMIT: Duration = Duration::from_secs(1);

/// Longer than what has stopped moving would be waited for.
const LONGER: Duration = Duration::from_secs(3);

/// Options whose limit is for uploads and for the engine's longest phase alike.
fn options(house: &House) -> Options {
    let stall_limits = StallLimits { denoise: LIMIT, upload: LIMIT, ..house.options().stall_limits };
    Options { stall_limits, drain_timeout: GENEROUS, ..house.options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_may_take_longer_than_its_limit_as_long_as_it_moves() {
    let mut house = House::new().await;
    house.blob = GatedBlob::slow_for(&house.blob, ".mp4", LONGER);
    let worker = house.start_with(Scripted::honest(), options(&house));
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    assert!(job.report.unwrap().stage_durations_s["upload"] >= LONGER.as_secs_f64());
    assert_eq!(job.attempt, 1);
    worker.stop().await.unwrap();
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Completed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_stops_moving_loses_the_job_and_ends_the_worker() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate);
    house.blob = blob;
    let worker = house.start_with(Scripted::honest(), options(&house));
    let id = house.submit().await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { job, phase: Phase::Upload, limit: LIMIT } if job == id), "{error}");
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Queued, 1));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Retried)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_state_of_a_drain_may_take_longer_than_any_limit_as_long_as_it_moves() {
    let mut house = House::new().await;
    house.blob = GatedBlob::slow_for(&house.blob, ".safetensors", LONGER);
    let worker = house.start_with(
        Scripted::new(|play| {
            let stopped = play.denoise_for_ever();
            play.keep(2, b"latents");
            Err(stopped)
        }),
        options(&house),
    );
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    let since = Instant::now();
    worker.stop().await.unwrap();
    assert!(since.elapsed() >= LONGER);
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt, job.checkpoint.unwrap().step), (JobState::Queued, 0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_moves_does_not_hide_an_engine_that_hangs() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::slow(&house.blob, ".safetensors");
    let _open = Opener(gate);
    house.blob = blob;
    let hanging = Gate::default();
    let _go_on = Opener(hanging.clone());
    let worker = house.start_with(
        Scripted::new(move |play| {
            play.phase(EnginePhase::Denoise);
            play.keep(1, b"latents");
            hanging.wait();
            Ok(play.report())
        }),
        options(&house),
    );
    let id = house.submit().await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { job, phase: Phase::Denoise, .. } if job == id), "{error}");
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Retried)]);
}
