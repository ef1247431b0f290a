//! Jobs whose engine, encoder or media store fails.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clapboard_engine::{GenerateError, MediaChunk, Phase as EnginePhase, SinkError};
use clapboard_jobs::fixtures::{FaultyBlob, FaultyStore};
use clapboard_jobs::{AttemptEnd, FailureCode, JobState, Phase, Status};
use clapboard_media::Ffmpeg;
use clapboard_worker::{Error, Options, StallLimits};

use crate::blobs::GatedBlob;
use crate::house::{House, named};
use crate::scripted::{Gate, Opener, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_error_fails_the_job_and_the_client_learns_no_details() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| {
        play.sound()?;
        Err(GenerateError::Network(Box::new(io::Error::other("blocks.7.attn has shape [3]"))))
    }));
    let id = house.submit().await;
    let error = house.until_state(id, JobState::Failed).await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::GenerationFailed, "could not generate the video"));
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Failed)]);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_that_no_sink_can_take_fail_the_job() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| {
        play.denoise()?;
        play.begin()?;
        play.offer(MediaChunk::Samples(vec![f32::NAN; 2]))?;
        Ok(play.report())
    }));
    let id = house.submit().await;
    let error = house.until_state(id, JobState::Failed).await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::GenerationFailed, "could not encode the video"));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_panics_costs_an_attempt_and_the_last_one_the_job() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| {
        play.phase(EnginePhase::TextEncode);
        panic!("as the script says");
    }));
    let id = house.submit().await;
    for number in 1..house.policy.max_attempts {
        let job = house.until(id, |job| job.state == JobState::Queued && job.attempt == number).await;
        assert_eq!(job.error, None);
        house.clock.advance(Duration::from_secs(3600));
    }
    let error = house.until_state(id, JobState::Failed).await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::InternalError, "the engine failed unexpectedly"));
    let ends = [AttemptEnd::Retried, AttemptEnd::Retried, AttemptEnd::Failed].map(Some);
    assert_eq!(house.ends(id).await, ends);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_engine_loses_the_job_and_ends_the_worker() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let generator = Scripted::new(move |play| {
        play.sound()?;
        play.phase(EnginePhase::Denoise);
        gate.wait();
        Ok(play.report())
    });
    let stall_limits = StallLimits { denoise: Duration::from_millis(100), ..house.options().stall_limits };
    let worker = house.start_with(generator, Options { stall_limits, ..house.options() });
    let id = house.submit().await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { job, phase: Phase::Denoise, .. } if job == id), "{error}");
    assert_eq!(error.to_string(), format!("no progress was made for 100ms in denoise of job {id}"));
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Queued, 1));
    let attempt = &house.attempts(id).await[0];
    assert_eq!(attempt.ended.unwrap().1, AttemptEnd::Retried);
    assert_eq!(attempt.error.as_ref().unwrap().message, "no progress was made for 100ms in denoise");
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

/// An ffmpeg that can be taken away.
fn wrapped_ffmpeg(house: &House) -> PathBuf {
    let wrapper = house.path("ffmpeg");
    put_program(&wrapper, "#!/bin/sh\nexec ffmpeg \"$@\"\n");
    wrapper
}

/// Puts a program where none or another one is, at one moment: nobody can start half of it.
fn put_program(path: &Path, script: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, script).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(fresh, path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ffmpeg_that_goes_missing_costs_no_attempt_and_no_job_is_claimed_until_it_is_back() {
    let mut house = House::new().await;
    let wrapper = wrapped_ffmpeg(&house);
    house.ffmpeg = Ffmpeg::at(&wrapper, "ffprobe").unwrap();
    fs::remove_file(&wrapper).unwrap();
    let options = Options { unwell_pause: Duration::from_millis(200), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let (first, second) = (house.submit().await, house.submit().await);
    house.until(first, |job| job.state == JobState::Queued && job.fence.0 == 1).await;
    let attempt = &house.attempts(first).await[0];
    let error = attempt.error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::InternalError, "could not encode the video"));
    assert_eq!(attempt.ended.unwrap().1, AttemptEnd::Retried);
    // Several times the worker looks for its ffmpeg and finds something else, and claims neither job.
    let looks = house.path("looks");
    put_program(&wrapper, &format!("#!/bin/sh\necho looked >> {}\nexit 1\n", looks.display()));
    house.until(first, |_| fs::read_to_string(&looks).is_ok_and(|looks| looks.lines().count() >= 3)).await;
    assert_eq!((house.ends(first).await.len(), house.ends(second).await), (1, vec![]));

    wrapped_ffmpeg(&house);
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_stays_full_uses_up_no_attempts_and_does_not_hold_up_a_drain() {
    let house = House::new().await;
    let options = Options { unwell_pause: Duration::from_millis(20), ..house.options() };
    let worker = house.start_with(
        Scripted::new(|play| {
            play.denoise()?;
            let source = io::Error::from(io::ErrorKind::StorageFull);
            let full = clapboard_media::Error::Io { doing: "write samples to", path: "scratch".into(), source };
            Err(GenerateError::Sink(SinkError(Box::new(full))))
        }),
        options,
    );
    let id = house.submit().await;
    let rounds = i64::from(house.policy.max_attempts) + 2;
    let job = house.until(id, |job| job.state == JobState::Queued && job.fence.0 >= rounds).await;
    assert_eq!((job.attempt, job.error), (0, None));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratch_folder_that_was_removed_is_made_again() {
    let house = House::new().await;
    let worker = house.start(Scripted::honest());
    fs::remove_dir_all(house.path("scratch")).unwrap();
    let id = house.submit().await;
    assert_eq!(house.until_state(id, JobState::Completed).await.fence.0, 1);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_is_away_for_a_while_costs_no_attempt() {
    let mut house = House::new().await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), 2));
    house.blob = Arc::clone(&blob) as _;
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!(job.attempt, 1);
    assert_eq!(blob.failures_left(), 0);
    worker.stop().await.unwrap();
    assert_eq!(house.objects().await, named(&job));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_stays_away_loses_the_attempt() {
    let mut house = House::new().await;
    house.blob = Arc::new(FaultyBlob::failing(Arc::clone(&house.blob), u32::MAX));
    let options = Options { upload_deadline: Duration::ZERO, ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    house.until(id, |job| job.state == JobState::Queued && job.attempt == 1).await;
    let error = house.attempts(id).await[0].error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::StorageFailed, "could not store the video"));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_does_not_let_the_worker_in_costs_no_attempt_and_no_job_is_claimed_until_it_does() {
    let mut house = House::new().await;
    let (blob, gate, denied) = GatedBlob::denied(&house.blob);
    house.blob = blob;
    let options = Options { unwell_pause: Duration::from_millis(200), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let first = house.submit().await;
    let job = house.until(first, |job| job.state == JobState::Queued && job.fence.0 == 1).await;
    assert_eq!((job.attempt, job.error), (0, None));
    let error = house.attempts(first).await[0].error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::StorageFailed, "could not store the video"));
    // Several times the worker tries to put something small, and claims neither this job nor another.
    house.until(first, |_| denied.load(Ordering::SeqCst) >= 2).await;
    let second = house.submit().await;
    house.until(first, |_| denied.load(Ordering::SeqCst) >= 4).await;
    assert_eq!((house.ends(first).await.len(), house.ends(second).await), (1, vec![]));

    gate.open();
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.objects().await.len(), 2 * 3, "videos, each with two pictures");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_costs_the_job_that_waits_for_it_nothing() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let generator = Scripted::new(move |play| {
        play.denoise_parts(1..=90, 100)?;
        gate.wait();
        Ok(play.report())
    });
    let stall_limits = StallLimits { denoise: Duration::from_secs(2), ..house.options().stall_limits };
    let options = Options { stall_limits, prefetch_window: Duration::from_secs(30), ..house.options() };
    let worker = house.start_with(generator, options);
    let (first, second) = (house.submit().await, house.submit().await);
    house.until_state(second, JobState::Running).await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { job, phase: Phase::Denoise, .. } if job == first), "{error}");
    let (first, second) = (house.find(first).await.unwrap(), house.find(second).await.unwrap());
    assert_eq!((first.state, first.attempt), (JobState::Queued, 1));
    assert_eq!((second.state, second.attempt, second.begun_at), (JobState::Queued, 0, None));
    assert_eq!(house.ends(first.id).await, [Some(AttemptEnd::Retried)]);
    assert_eq!(house.ends(second.id).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_an_engine_that_hangs_goes_back_over_the_heartbeats_connection() {
    let mut house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let generator = Scripted::new(move |play| {
        play.phase(EnginePhase::Denoise);
        gate.wait();
        Ok(play.report())
    });
    let jobs = Arc::clone(&house.store);
    let faulty = Arc::new(FaultyStore::over(Arc::clone(&jobs)));
    house.store = Arc::clone(&faulty) as _;
    let stall_limits = StallLimits { denoise: Duration::from_secs(1), ..house.options().stall_limits };
    let worker = house.start_with(generator, Options { stall_limits, ..house.options() });
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    faulty.go_away();
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { .. }), "{error}");
    let job = jobs.get(&house.tenant, id).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Queued, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_hangs_is_waited_for_by_a_worker_that_is_unwell() {
    let mut house = House::new().await;
    let wrapper = wrapped_ffmpeg(&house);
    house.ffmpeg = Ffmpeg::at(&wrapper, "ffprobe").unwrap();
    fs::remove_file(&wrapper).unwrap();
    let (blob, gate, tried) = GatedBlob::counted(&house.blob);
    let _open = Opener(gate.clone());
    house.blob = blob;
    let limit = Duration::from_secs(3);
    let stall_limits = StallLimits { prepare: limit, upload: limit, ..house.options().stall_limits };
    let unwell_pause = Duration::from_millis(200);
    let worker = house.start_with(Scripted::honest(), Options { stall_limits, unwell_pause, ..house.options() });
    let id = house.submit().await;
    house.until(id, |job| job.state == JobState::Queued && job.fence.0 == 1).await;
    wrapped_ffmpeg(&house);
    // The first try has hung for as long as a disk may.
    house.until(id, |_| tried.load(Ordering::SeqCst) >= 2).await;
    assert_eq!(house.ends(id).await.len(), 1);
    gate.open();
    assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_examination_that_hangs_ends_the_worker() {
    let mut house = House::new().await;
    let wrapper = wrapped_ffmpeg(&house);
    house.ffmpeg = Ffmpeg::at(&wrapper, "ffprobe").unwrap();
    fs::remove_file(&wrapper).unwrap();
    let stall_limits = StallLimits { prepare: Duration::from_secs(1), ..house.options().stall_limits };
    let unwell_pause = Duration::from_millis(10);
    let worker = house.start_with(Scripted::honest(), Options { stall_limits, unwell_pause, ..house.options() });
    // Whoever writes to it hangs until somebody reads.
    let probe = house.path("scratch/attempt-probe");
    assert!(std::process::Command::new("mkfifo").arg(&probe).status().unwrap().success());
    let id = house.submit().await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Hung { .. }), "{error}");
    assert_eq!(house.find(id).await.unwrap().attempt, 0);
    drop(fs::File::open(probe).unwrap());
}
