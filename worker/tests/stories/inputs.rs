//! Jobs that start from media.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_h3::prepare::PreparedReference;
use clapboard_h3::{GenerationSpec, Input, InputRole, InputShape, Task};
use clapboard_jobs::fixtures::small_spec;
use clapboard_jobs::{AttemptEnd, FailureCode, JobId, JobState, Phase, Status};
use clapboard_media::Ffmpeg;
use clapboard_worker::{Error, Options, StallLimits};

use crate::blobs::GatedBlob;
use crate::house::{House, INPUT_DIGITS};
use crate::scripted::{Gate, Opener, Scripted};

const PICTURE: InputShape = InputShape { width: 64, height: 64, frames: 1, audio_latents: 0 };

/// Lets ffmpeg make a file from one of its own sources.
pub(crate) fn made(house: &House, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let path = house.path(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-f", "lavfi", "-i", source]).args(options).arg(&path);
    assert!(command.status().unwrap().success());
    path
}

fn picture(house: &House) -> PathBuf {
    made(house, "picture.png", "testsrc=size=96x80", &["-frames:v", "1"])
}

fn video(house: &House) -> PathBuf {
    made(house, "video.mp4", "testsrc=size=96x64:rate=24:duration=1", &["-pix_fmt", "yuv420p"])
}

/// A small job that starts from media of these roles and shapes.
fn spec(task: Task, inputs: &[(InputRole, InputShape)]) -> GenerationSpec {
    let input = |(role, shape): &(InputRole, InputShape)| Input { role: *role, object: String::new(), shape: *shape };
    let inputs: Vec<Input> = inputs.iter().map(input).collect();
    let version = GenerationSpec::version_with(&inputs);
    GenerationSpec { version, task, partition: task.partition(), inputs, ..small_spec() }
}

async fn submit_keyframe(house: &House, file: &Path) -> JobId {
    house.create_from(spec(Task::Fl2va, &[(InputRole::FirstFrame, PICTURE)]), &[file]).await
}

/// A job that refers to a video.
async fn submit_video(house: &House) -> JobId {
    let shape = InputShape { width: 1344, height: 768, frames: 24, audio_latents: 0 };
    house.create_from(spec(Task::Ref2va, &[(InputRole::Video, shape)]), &[&video(house)]).await
}

/// The shapes of the media that the engine was given, run by run.
type Given = Arc<Mutex<Vec<Vec<InputShape>>>>;

/// An honest engine that writes down what it was given.
fn writing_down() -> (Arc<Scripted>, Given) {
    let given = Given::default();
    let noting = Arc::clone(&given);
    let engine = Scripted::new(move |play| {
        let shapes = play.generation.media.iter().map(PreparedReference::shape).collect();
        noting.lock().unwrap().push(shapes);
        play.denoise()?;
        play.media()?;
        Ok(play.report())
    });
    (engine, given)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_is_given_the_media_of_a_job_in_their_order() {
    let house = House::new().await;
    let (engine, given) = writing_down();
    let worker = house.start(engine);
    let (picture, wide) = (picture(&house), made(&house, "wide.png", "testsrc=size=128x64", &["-frames:v", "1"]));
    let keyframes = spec(Task::Fl2va, &[(InputRole::FirstFrame, PICTURE), (InputRole::LastFrame, PICTURE)]);
    let first = house.create_from(keyframes, &[&picture, &wide]).await;
    house.until_state(first, JobState::Completed).await;

    let sound = made(&house, "sound.wav", "sine=frequency=440:duration=1", &[]);
    let [wide_shape, square_shape] = [(128, 64), (96, 80)].map(|(width, height)| reference_shape(width, height));
    let heard = InputShape { width: 0, height: 0, frames: 0, audio_latents: 40 };
    let references = [(InputRole::Image, wide_shape), (InputRole::Image, square_shape), (InputRole::Audio, heard)];
    let second = house.create_from(spec(Task::Ref2va, &references), &[&wide, &picture, &sound]).await;
    let job = house.until(second, |job| job.state.is_final()).await;
    assert_eq!((job.state, job.error), (JobState::Completed, None));
    worker.stop().await.unwrap();
    let given = given.lock().unwrap().clone();
    assert_eq!(given[0], [PICTURE, PICTURE]);
    assert_eq!(given[1][..2], [wide_shape, square_shape]);
    assert!(heard.admits(&given[1][2]), "{}", given[1][2]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

/// What a reference picture of these sides comes to.
fn reference_shape(width: u32, height: u32) -> InputShape {
    let plain = clapboard_h3::prepare::Picture::new(width, height, vec![0; (width * height * 3) as usize]).unwrap();
    let fitted = clapboard_h3::prepare::fit_reference_picture(&plain, &small_spec().geometry).unwrap();
    PreparedReference::Image(fitted).shape()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_input_is_gone_or_broken_fails_and_says_why() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| Err(play.refuse())));
    let text = house.path("text.png");
    fs::write(&text, "no picture").unwrap();
    let broken = submit_keyframe(&house, &text).await;
    let error = house.until_state(broken, JobState::Failed).await.error.unwrap();
    assert_eq!(error.code, FailureCode::InputFetchFailed);
    assert!(error.message.starts_with("input 1 of the job cannot be used: the file is"), "{}", error.message);
    worker.stop().await.unwrap();

    let gone = submit_keyframe(&house, &text).await;
    let key = clapboard_jobs::BlobKey::input(&house.tenant, gone, 0, INPUT_DIGITS);
    house.blob.delete(&key).await.unwrap();
    let worker = house.start(Scripted::new(|play| Err(play.refuse())));
    let error = house.until_state(gone, JobState::Failed).await.error.unwrap();
    let expected = (FailureCode::InputFetchFailed, "an input of the job is not there any more");
    assert_eq!((error.code, error.message.as_str()), expected);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_cannot_be_read_for_a_while_costs_no_attempt() {
    let mut house = House::new().await;
    let (blob, gate, tries) = GatedBlob::unreadable_until(&house.blob, INPUT_DIGITS);
    house.blob = blob;
    let (engine, given) = writing_down();
    let worker = house.start(engine);
    let id = submit_keyframe(&house, &picture(&house)).await;
    house.until(id, |_| tries.load(Ordering::SeqCst) >= 2).await;
    gate.open();
    assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await.unwrap();
    assert_eq!(*given.lock().unwrap(), [[PICTURE]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_store_that_cannot_be_read_for_long_costs_an_attempt() {
    let mut house = House::new().await;
    let (blob, _, _) = GatedBlob::unreadable_until(&house.blob, INPUT_DIGITS);
    house.blob = blob;
    let stall_limits = StallLimits { prepare: Duration::from_millis(500), ..house.options().stall_limits };
    let worker = house.start_with(Scripted::honest(), Options { stall_limits, ..house.options() });
    let id = submit_keyframe(&house, &picture(&house)).await;
    house.until(id, |job| job.state == JobState::Queued && job.attempt == 1).await;
    let error = house.attempts(id).await[0].error.clone().unwrap();
    let expected = (FailureCode::InputFetchFailed, "could not fetch an input of the job");
    assert_eq!((error.code, error.message.as_str()), expected);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_cancel_nor_a_drain_waits_for_a_media_store_that_is_silent() {
    let mut house = House::new().await;
    house.blob = GatedBlob::silent(&house.blob, INPUT_DIGITS);
    let worker = house.start(Scripted::honest());
    let file = picture(&house);
    let cancelled = submit_keyframe(&house, &file).await;
    house.until_state(cancelled, JobState::Running).await;
    house.store.cancel(&house.tenant, cancelled).await.unwrap().unwrap();
    house.until_state(cancelled, JobState::Cancelled).await;
    let drained = submit_keyframe(&house, &file).await;
    house.until_state(drained, JobState::Running).await;
    worker.stop().await.unwrap();
    assert_eq!(house.ends(drained).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inputs_of_a_job_that_is_claimed_ahead_are_fetched_while_the_engine_has_another() {
    let mut house = House::new().await;
    let (blob, readable, reads) = GatedBlob::unreadable_until(&house.blob, INPUT_DIGITS);
    readable.open();
    house.blob = blob;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options = Options { prefetch_window: Duration::from_secs(30), ..house.options() };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let first = house.submit().await;
    house.until(first, |job| job.status() == Status::InProgress).await;
    let second = submit_keyframe(&house, &picture(&house)).await;
    house.until(second, |_| reads.load(Ordering::SeqCst) == 1).await;
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    assert_eq!(house.find(second).await.unwrap().status(), Status::Queued);
    gate.open();
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
    assert_eq!(reads.load(Ordering::SeqCst), 1);
}

/// An ffmpeg that hangs over every input; it writes its process id to `pid`.
fn hanging_ffmpeg(house: &House) -> Ffmpeg {
    use std::os::unix::fs::PermissionsExt;
    let (wrapper, pid, fresh) = (house.path("ffmpeg"), house.path("pid"), house.path("pid.new"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *input-0*) echo $$ > {0}; mv {0} {1}; exec sleep 1000;; esac\nexec ffmpeg \"$@\"\n",
        fresh.display(),
        pid.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    Ffmpeg::at(&wrapper, "ffprobe").unwrap()
}

/// Waits until the hanging ffmpeg has been started, and returns its place in the system's list of processes.
async fn decoding(house: &House) -> PathBuf {
    loop {
        if let Ok(pid) = fs::read_to_string(house.path("pid")) {
            fs::remove_file(house.path("pid")).unwrap();
            return PathBuf::from(format!("/proc/{}", pid.trim()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_or_drained_while_its_inputs_are_decoded_leaves_no_decoder() {
    let mut house = House::new().await;
    house.ffmpeg = hanging_ffmpeg(&house);
    let worker = house.start(Scripted::honest());
    let cancelled = submit_video(&house).await;
    let process = decoding(&house).await;
    house.store.cancel(&house.tenant, cancelled).await.unwrap().unwrap();
    house.until_state(cancelled, JobState::Cancelled).await;
    assert!(!process.exists());

    fs::remove_file(house.path("video.mp4")).unwrap();
    let drained = submit_video(&house).await;
    let process = decoding(&house).await;
    worker.stop().await.unwrap();
    assert_eq!(house.ends(drained).await, [Some(AttemptEnd::Drained)]);
    assert!(!process.exists());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_in_which_nothing_moves_loses_the_job_and_ends_the_worker() {
    let mut house = House::new().await;
    house.ffmpeg = hanging_ffmpeg(&house);
    let stall_limits = StallLimits { prepare: Duration::from_secs(2), ..house.options().stall_limits };
    let worker = house.start_with(Scripted::honest(), Options { stall_limits, ..house.options() });
    let id = submit_video(&house).await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Wedged { job, phase: Phase::Prepare, .. } if job == id), "{error}");
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Retried)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}
