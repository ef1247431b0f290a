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
use clapboard_jobs::{AttemptEnd, BlobKey, FailureCode, JobId, JobState, Status, WorkerState};
use clapboard_media::Ffmpeg;
use clapboard_worker::Options;

use crate::blobs::GatedBlob;
use crate::drains::worker_seen;
use crate::house::{House, INPUTS, until_some};
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

/// A job that refers to a picture.
pub(crate) async fn submit_reference(house: &House) -> JobId {
    let references = spec(Task::Ref2va, &[(InputRole::Image, reference_shape(96, 80))]);
    house.create_from(references, &[&picture(house)]).await
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

/// Where the first input of a job lies.
async fn input_key(house: &House, id: JobId) -> BlobKey {
    let spec = house.find(id).await.unwrap().spec.decode().unwrap();
    spec.inputs[0].object.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_has_other_bytes_than_were_accepted_is_a_failure_of_the_media_store() {
    let house = House::new().await;
    let file = picture(&house);
    let id = submit_keyframe(&house, &file).await;
    let key = input_key(&house, id).await;
    house.blob.delete(&key).await.unwrap();
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    house.blob.put_file(&key, &file, &|| ()).await.unwrap();
    let worker = house.start(Scripted::new(|play| Err(play.refuse())));
    house.until(id, |job| job.state == JobState::Queued && job.attempt == 1).await;
    let error = house.attempts(id).await[0].error.clone().unwrap();
    let expected = (FailureCode::StorageFailed, "an input of the job has changed in the media store");
    assert_eq!((error.code, error.message.as_str()), expected);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
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
    house.blob.delete(&input_key(&house, gone).await).await.unwrap();
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
    let (blob, gate, tries) = GatedBlob::unreadable_until(&house.blob, INPUTS);
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
async fn a_media_store_that_cannot_be_read_for_long_hands_the_job_back_uncounted() {
    let mut house = House::new().await;
    let (blob, gate, _) = GatedBlob::unreadable_until(&house.blob, INPUTS);
    house.blob = blob;
    let (input_fetch_deadline, unwell_pause) = (Duration::from_millis(500), Duration::from_millis(20));
    let options = Options { input_fetch_deadline, unwell_pause, ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = submit_keyframe(&house, &picture(&house)).await;
    house.until(id, |job| job.fence.0 >= 2).await;
    let first = house.attempts(id).await[0].clone();
    assert_eq!(first.ended.unwrap().1, AttemptEnd::Retried);
    let error = first.error.unwrap();
    let expected = (FailureCode::InputFetchFailed, "could not fetch an input of the job");
    assert_eq!((error.code, error.message.as_str()), expected);
    gate.open();
    assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_cancel_nor_a_drain_waits_for_a_media_store_that_is_silent() {
    let mut house = House::new().await;
    house.blob = GatedBlob::silent(&house.blob, INPUTS);
    let worker = house.start(Scripted::honest());
    let file = picture(&house);
    let cancelled = submit_keyframe(&house, &file).await;
    house.until_state(cancelled, JobState::Running).await;
    // Nobody leaves a job to it meanwhile.
    worker_seen(&house, |worker| worker.card.state == WorkerState::Busy).await;
    house.store.cancel(&house.tenant, cancelled).await.unwrap().unwrap();
    house.until_state(cancelled, JobState::Cancelled).await;
    worker_seen(&house, |worker| worker.card.state == WorkerState::Idle).await;
    let drained = submit_keyframe(&house, &file).await;
    house.until_state(drained, JobState::Running).await;
    worker.stop().await.unwrap();
    assert_eq!(house.ends(drained).await, [Some(AttemptEnd::Drained)]);
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inputs_of_a_job_that_is_claimed_ahead_are_fetched_while_the_engine_has_another() {
    let mut house = House::new().await;
    let (blob, readable, reads) = GatedBlob::unreadable_until(&house.blob, INPUTS);
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
    let pid = until_some(async || fs::read_to_string(house.path("pid")).ok()).await;
    fs::remove_file(house.path("pid")).unwrap();
    PathBuf::from(format!("/proc/{}", pid.trim()))
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
