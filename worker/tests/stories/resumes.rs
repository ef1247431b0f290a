//! Jobs that go on where an attempt before has stopped.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clapboard_engine::{GenerateError, ResumeError};
use clapboard_jobs::{AttemptEnd, Checkpoint, JobId, JobState, Status};
use clapboard_worker::{Options, StallLimits};

use crate::blobs::GatedBlob;
use crate::house::{House, named};
use crate::scripted::{Opener, Scripted};

const STATE: &[u8] = b"the latents after some steps";

/// An engine that stops as it is told, and hands over its state after two steps then.
fn keeping() -> Arc<Scripted> {
    Scripted::new(|play| {
        let stopped = play.denoise_for_ever();
        play.keep(2, STATE);
        Err(stopped)
    })
}

/// Lets a worker drain in the middle of a job, and returns the job with what it has left.
async fn drained(house: &House) -> (JobId, Checkpoint) {
    let worker = house.start(keeping());
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Queued, 0));
    (id, job.checkpoint.unwrap())
}

/// What the engine was given to go on from, run by run.
type Given = Arc<Mutex<Vec<Option<Vec<u8>>>>>;

/// An honest engine of a fingerprint that writes down what it was given.
fn writing_down(fingerprint: &'static str) -> (Arc<Scripted>, Given) {
    let given = Given::default();
    let engine = Scripted::of_fingerprint(fingerprint, {
        let given = Arc::clone(&given);
        move |play| {
            given.lock().unwrap().push(play.generation.resume.as_deref().map(<[u8]>::to_vec));
            play.denoise()?;
            play.media()?;
            Ok(play.report())
        }
    });
    (engine, given)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_stores_the_state_and_the_next_attempt_is_given_it() {
    let house = House::new().await;
    let (id, checkpoint) = drained(&house).await;
    assert_eq!((checkpoint.step, checkpoint.size_bytes), (2, STATE.len() as u64));
    assert_eq!(checkpoint.fingerprint.0, "scripted");
    assert_eq!(house.object(checkpoint.key.as_str()), STATE);
    let (engine, given) = writing_down("scripted");
    let worker = house.start(engine);
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(*given.lock().unwrap(), [Some(STATE.to_vec())]);
    assert_eq!((job.attempt, job.checkpoint), (1, None));
    assert!(house.store.garbage(10).await.unwrap().contains(&checkpoint.key));
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_another_engine_is_passed_over() {
    let house = House::new().await;
    let (id, _) = drained(&house).await;
    let (engine, given) = writing_down("another");
    let worker = house.start(engine);
    house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(*given.lock().unwrap(), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_lost_state_is_passed_over() {
    for lost in [false, true] {
        let house = House::new().await;
        let (id, checkpoint) = drained(&house).await;
        let object = house.path("media/objects").join(checkpoint.key.as_str());
        fs::remove_file(&object).unwrap();
        if !lost {
            fs::write(&object, vec![0; STATE.len()]).unwrap();
        }
        let (engine, given) = writing_down("scripted");
        let worker = house.start(engine);
        house.until_state(id, JobState::Completed).await;
        worker.stop().await.unwrap();
        assert_eq!(*given.lock().unwrap(), [None]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_out_of_reach_is_passed_over_and_replaced_only_by_a_later_one() {
    let mut house = House::new().await;
    let (id, checkpoint) = drained(&house).await;
    house.blob = GatedBlob::unreadable(&house.blob, ".safetensors");
    for (step, kept) in [(1, 2), (3, 3)] {
        let worker = house.start(Scripted::new(move |play| {
            assert_eq!(play.generation.resume, None);
            let stopped = play.denoise_for_ever();
            play.keep(step, b"other latents");
            Err(stopped)
        }));
        house.until(id, |job| job.status() == Status::InProgress).await;
        worker.stop().await.unwrap();
        let now = house.find(id).await.unwrap().checkpoint.unwrap();
        assert_eq!((now.step, now == checkpoint), (kept, step == 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_the_engine_refuses_costs_no_attempt() {
    let house = House::new().await;
    let (id, _) = drained(&house).await;
    let worker = house.start(Scripted::new(|play| {
        if play.generation.resume.is_some() {
            return Err(GenerateError::Resume(ResumeError::ForeignSpec));
        }
        play.denoise()?;
        play.media()?;
        Ok(play.report())
    }));
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!((job.attempt, job.fence.0), (1, 2));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Drained), Some(AttemptEnd::Completed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_stored_while_the_engine_goes_on_and_outlives_a_lost_lease() {
    let house = House::new().await;
    let options = Options { checkpoint_interval: Some(Duration::from_millis(1)), ..house.options() };
    let (engine, given) = writing_down("scripted");
    let generator = Scripted::new(|play| {
        while !play.generation.checkpoints.wants(1, 9) {
            thread::sleep(Duration::from_millis(1));
        }
        play.keep(1, STATE);
        Err(play.denoise_for_ever())
    });
    let worker = house.start_with(generator, options);
    let id = house.submit().await;
    let job = house.until(id, |job| job.checkpoint.is_some() && job.begun_at.is_some()).await;
    assert_eq!((job.state, job.checkpoint.unwrap().step), (JobState::Running, 1));
    worker.crash().await;
    house.reclaim(id).await;
    house.clock.advance(Duration::from_secs(3600));
    let worker = house.start(engine);
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(job.attempt, 2);
    assert_eq!(*given.lock().unwrap(), [Some(STATE.to_vec())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_cannot_be_stored_does_no_harm() {
    let mut house = House::new().await;
    house.blob = GatedBlob::closed(&house.blob, ".safetensors");
    let worker = house.start(Scripted::new(|play| {
        play.keep(1, STATE);
        play.denoise()?;
        play.keep(2, STATE);
        play.media()?;
        Ok(play.report())
    }));
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(house.objects().await, named(&job));
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_the_engine_nor_a_drain_waits_for_a_state_that_hangs() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".safetensors");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let options = Options { drain_timeout: Duration::from_millis(100), ..house.options() };
    let worker = house.start_with(keeping(), options);
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt, job.checkpoint), (JobState::Queued, 0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_takes_too_long_to_read_is_passed_over() {
    let mut house = House::new().await;
    let (id, _) = drained(&house).await;
    house.blob = GatedBlob::silent(&house.blob, ".safetensors");
    let (engine, given) = writing_down("scripted");
    let stall_limits = StallLimits { prepare: Duration::from_secs(1), ..house.options().stall_limits };
    let since = Instant::now();
    let worker = house.start_with(engine, Options { stall_limits, ..house.options() });
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    // Less than a single part may take.
    assert!(since.elapsed() < Duration::from_secs(25));
    assert_eq!((job.attempt, given.lock().unwrap().clone()), (1, vec![None]));
}
