//! The real engine, on a tiny checkpoint.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_engine::checkpoint::{Layout, tiny};
use clapboard_engine::{Done, EngineConfig, EngineHandle, Generation};
use clapboard_h3::prepare::ReferenceLimits;
use clapboard_h3::{GenerationSpec, Medium, ModelProfile, Partition, VideoRequest};
use clapboard_jobs::{AttemptEnd, Job, JobState, Phase, Status};
use clapboard_media::decode::{Claim, Kind};
use clapboard_media::{probe, reference};
use clapboard_worker::{Generator, Options};

use crate::house::{House, named};
use crate::inputs::made;

fn engine(folder: &Path) -> EngineHandle {
    tiny::write_tiny(3, Layout::Diffusers, folder).unwrap();
    EngineHandle::start(EngineConfig::new(folder, Partition::Fl2va)).unwrap()
}

fn spec(engine: &EngineHandle, steps: i64) -> GenerationSpec {
    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        size: Some("96x64".to_owned()),
        num_inference_steps: Some(steps),
        ..VideoRequest::default()
    };
    request.resolve(engine.profile(), 7).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_becomes_an_mp4_and_a_cancelled_job_stops_within_a_block() {
    let house = House::new().await;
    let engine = engine(&house.path("checkpoint"));
    let worker = house.start(Arc::new(engine.clone()));

    let long = house.create(&spec(&engine, 200)).await.id;
    house.until(long, |job| job.status() == Status::InProgress && job.progress.phase == Phase::Denoise).await;
    house.store.cancel(&house.tenant, long).await.unwrap().unwrap();
    house.until_state(long, JobState::Cancelled).await;
    assert_eq!(house.ends(long).await, [Some(AttemptEnd::Cancelled)]);

    let short = spec(&engine, 3);
    let id = house.create(&short).await.id;
    let job = house.until(id, |job| job.state.is_final()).await;
    assert_eq!((job.state, &job.error), (JobState::Completed, &None));
    let named = named(&job);
    let result = job.result.unwrap();
    let info = probe(&house.ffmpeg, &house.path("media/objects").join(result.key.as_str())).unwrap();
    let video = info.video.unwrap();
    let frames = u64::from(short.num_frames.get());
    assert_eq!((video.codec.as_str(), video.width, video.height), ("h264", 96, 64));
    assert_eq!((video.fps.unwrap().to_string().as_str(), video.frames), ("24/1", Some(frames)));
    let audio = info.audio.unwrap();
    assert_eq!((audio.codec.as_str(), audio.sample_rate, audio.channels), ("aac", 32_000, 2));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
    assert_eq!(house.objects().await, named);
}

/// The real engine, and a note of where each finished generation had begun.
struct Noted {
    engine: EngineHandle,
    resumed_at: Arc<Mutex<Vec<Option<usize>>>>,
}

impl Generator for Noted {
    fn profile(&self) -> &ModelProfile {
        self.engine.profile()
    }

    fn fingerprint(&self, partition: Partition) -> Option<&str> {
        self.engine.fingerprint(partition)
    }

    fn generate(&self, generation: Generation, done: Done) {
        let resumed_at = Arc::clone(&self.resumed_at);
        let noting = move |result: Result<_, _>| {
            if let Ok(report) = &result {
                let report: &clapboard_engine::GenerationReport = report;
                resumed_at.lock().unwrap().push(report.resumed_at);
            }
            done(result);
        };
        self.engine.generate(generation, Box::new(noting));
    }
}

/// The bytes of a completed job's video.
fn video(house: &House, job: &Job) -> Vec<u8> {
    house.object(job.result.as_ref().unwrap().key.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_goes_on_after_a_drain_or_a_lost_lease_becomes_the_same_video_bit_for_bit() {
    let house = House::new().await;
    let engine = engine(&house.path("checkpoint"));
    let resumed_at = Arc::new(Mutex::new(Vec::new()));
    let noted = || Arc::new(Noted { engine: engine.clone(), resumed_at: Arc::clone(&resumed_at) });
    let often = || Options { checkpoint_interval: Some(Duration::from_millis(1)), ..house.options() };
    let spec = spec(&engine, 60);

    let worker = house.start(noted());
    let whole = house.create(&spec).await.id;
    let whole = house.until(whole, |job| job.state.is_final()).await;
    let whole = video(&house, &whole);

    let drained = house.create(&spec).await.id;
    house.until(drained, |job| job.progress.phase == Phase::Denoise && job.progress.step >= 3).await;
    worker.stop().await.unwrap();
    let stopped = house.find(drained).await.unwrap();
    let step = stopped.checkpoint.as_ref().unwrap().step;
    assert!(stopped.state == JobState::Queued && step >= 3, "{stopped:?}");

    let worker = house.start_with(noted(), often());
    let resumed = house.until(drained, |job| job.state.is_final()).await;
    assert!(video(&house, &resumed) == whole);

    let lost = house.create(&spec).await.id;
    house.until(lost, |job| job.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.step >= 3)).await;
    worker.crash().await;
    house.reclaim(lost).await;
    house.clock.advance(Duration::from_secs(3600));
    let worker = house.start(noted());
    let resumed = house.until(lost, |job| job.state.is_final()).await;
    assert!(video(&house, &resumed) == whole);
    assert_eq!(resumed.attempt, 2);
    worker.stop().await.unwrap();

    let resumed_at = resumed_at.lock().unwrap().clone();
    assert_eq!(resumed_at[..2], [None, Some(step as usize)]);
    assert!(resumed_at[2].unwrap() >= 3, "{resumed_at:?}");
}

/// The specification of a short job that starts from files.
fn spec_from(house: &House, profile: &ModelProfile, files: &[(&PathBuf, Kind)]) -> GenerationSpec {
    let limits = ReferenceLimits::of(&profile.geometry);
    let (tools, never) = (house.tools(), AtomicBool::new(false));
    let claim = Claim { content_type: None, file_name: None };
    let medium = |(file, kind): &(&PathBuf, Kind)| Medium {
        field: "input_reference".to_owned(),
        object: String::new(),
        size_bytes: file.metadata().unwrap().len(),
        facts: reference::inspect(&tools, &house.path(""), file, &claim, *kind, &limits, &never).unwrap(),
    };
    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        num_inference_steps: Some(3),
        media: files.iter().map(medium).collect(),
        ..VideoRequest::default()
    };
    request.resolve(profile, 7).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keyframes_and_references_are_run_in_turn_by_a_worker_that_has_both_partitions() {
    let house = House::new().await;
    let folder = house.path("checkpoint");
    tiny::write_tiny(3, Layout::Original, &folder).unwrap();
    let partitions = Partition::ALL.to_vec();
    let config = EngineConfig { partitions, ..EngineConfig::new(folder, Partition::Fl2va) };
    let engine = tokio::task::spawn_blocking(|| EngineHandle::start(config)).await.unwrap().unwrap();
    let picture = made(&house, "picture.jpg", "testsrc=size=128x96", &["-frames:v", "1"]);
    let sound = made(&house, "sound.wav", "sine=frequency=440:duration=1", &[]);
    let keyframe = spec_from(&house, engine.profile(), &[(&picture, Kind::Image)]);
    let references = spec_from(&house, engine.profile(), &[(&picture, Kind::Image), (&sound, Kind::Audio)]);
    assert_eq!([keyframe.partition, references.partition], [Partition::Fl2va, Partition::Ref2va]);

    let worker = house.start(Arc::new(engine));
    let mut videos = Vec::new();
    for (spec, files) in [
        (&keyframe, &[&*picture][..]),
        (&references, &[&*picture, &*sound]),
        (&keyframe, &[&*picture]),
        (&references, &[&*picture, &*sound]),
    ] {
        let id = house.create_from(spec.clone(), files).await;
        let job = house.until(id, |job| job.state.is_final()).await;
        assert_eq!((job.state, job.error.clone(), job.attempt), (JobState::Completed, None, 1));
        videos.push(video(&house, &job));
    }
    assert!(videos[0] == videos[2] && videos[1] == videos[3] && videos[0] != videos[1]);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}
