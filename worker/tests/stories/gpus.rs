//! A GPU that is lost, full, or fails at something.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clapboard_engine::GenerateError;
use clapboard_jobs::{AttemptEnd, FailureCode, JobState};
use clapboard_worker::{Error, Options};

use crate::house::House;
use crate::scripted::{Gate, Opener, Play, Scripted};

fn said(what: &str) -> Box<dyn std::error::Error + Send + Sync> {
    Box::new(io::Error::other(what.to_owned()))
}

/// Makes an engine whose first generations fail by `error`, one for each of `times`, and that is honest afterwards.
fn failing(times: usize, error: fn() -> GenerateError) -> Arc<Scripted> {
    let played = AtomicUsize::new(0);
    Scripted::new(move |play: &mut Play| {
        if played.fetch_add(1, Ordering::SeqCst) < times {
            return Err(error());
        }
        play.denoise()?;
        play.media()?;
        Ok(play.report())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_gpu_ends_the_worker_and_costs_neither_its_job_nor_the_next_ones_an_attempt() {
    let house = House::new().await;
    // A context that has faulted answers everything alike.
    let worker = house.start(failing(usize::MAX, || GenerateError::DeviceLost(said("CUDA_ERROR_ILLEGAL_ADDRESS"))));
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(house.submit().await);
    }
    let error = worker.ended().await.unwrap_err();
    let Error::DeviceLost { job: told } = error else { panic!("{error}") };
    assert!(jobs.contains(&told));
    assert!(error.to_string().starts_with("the GPU was lost in a generation of job "), "{error}");
    let attempt = house.attempts(told).await[0].clone();
    assert_eq!(attempt.ended.unwrap().1, AttemptEnd::Retried);
    let of_attempt = attempt.error.unwrap();
    assert_eq!(of_attempt.code, FailureCode::InternalError);
    assert_eq!(of_attempt.message, "could not generate the video");
    for id in &jobs {
        let job = house.find(*id).await.unwrap();
        assert_eq!((job.state, job.attempt), (JobState::Queued, 0), "{id}");
        assert!(job.fence.0 <= 1, "a lost GPU was given job {id} again");
    }
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());

    let worker = house.start(Scripted::honest());
    for id in jobs {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_full_gpu_has_no_room_for_waits_uncounted_and_the_worker_claims_nothing_meanwhile() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let full = gate.clone();
    let engine = Scripted::new(move |play| {
        if !full.is_open() {
            return Err(GenerateError::OutOfMemory(said("9 more bytes")));
        }
        play.denoise()?;
        play.media()?;
        Ok(play.report())
    });
    let unwell_pause = Duration::from_millis(10);
    let worker = house.start_with(engine, Options { unwell_pause, ..house.options() });
    let id = house.submit().await;
    let waiting = house.until(id, |job| job.state == JobState::Queued && job.fence.0 >= 1).await;
    assert_eq!(waiting.attempt, 0);
    gate.open();
    assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_library_of_the_gpu_fails_at_is_tried_again_as_an_attempt() {
    let house = House::new().await;
    let worker = house.start(failing(1, || GenerateError::Device(said("CUDNN_STATUS_INTERNAL_ERROR"))));
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!(job.attempt, 2);
    worker.stop().await.unwrap();
}
