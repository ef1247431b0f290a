//! The real engine, on a tiny checkpoint.

use std::path::Path;
use std::sync::Arc;

use clapboard_engine::checkpoint::{Layout, tiny};
use clapboard_engine::{EngineConfig, EngineHandle};
use clapboard_h3::{GenerationSpec, Partition, VideoRequest};
use clapboard_jobs::{AttemptEnd, JobState, Phase, Status};
use clapboard_media::probe;

use crate::house::House;

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
    assert_eq!((job.state, job.error), (JobState::Completed, None));
    let result = job.result.unwrap();
    let info = probe(&house.ffmpeg, &house.path("media/objects").join(result.key.as_str())).unwrap();
    let video = info.video.unwrap();
    let frames = u64::from(short.num_frames.get());
    assert_eq!((video.codec.as_str(), video.width, video.height), ("h264", 96, 64));
    assert_eq!((video.fps.unwrap().to_string().as_str(), video.frames), ("24/1", Some(frames)));
    let audio = info.audio.unwrap();
    assert_eq!((audio.codec.as_str(), audio.sample_rate, audio.channels), ("aac", 32_000, 2));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<std::path::PathBuf>::new());
    assert_eq!(house.objects().await, [result.key.to_string()]);
}
