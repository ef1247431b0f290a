//! Jobs that become videos.

use std::fs;

use clapboard_engine::Phase as EnginePhase;
use clapboard_jobs::{AttemptEnd, JobState, Phase, Status};
use clapboard_media::probe;
use sha2::{Digest, Sha256};

use crate::house::{House, named};
use crate::scripted::{Gate, Opener, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes_and_its_object_is_what_its_row_says() {
    let house = House::new().await;
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;

    assert_eq!(house.objects().await, named(&job));
    let result = job.result.unwrap();
    let stored = fs::read(house.path("media/objects").join(result.key.as_str())).unwrap();
    assert_eq!(stored.len() as u64, result.size_bytes);
    let hash: String = Sha256::digest(&stored).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, result.sha256);

    let copy = house.path("copy.mp4");
    fs::write(&copy, stored).unwrap();
    let info = probe(&house.ffmpeg, &copy).unwrap();
    let video = info.video.unwrap();
    assert_eq!((video.width, video.height, video.frames), (64, 64, Some(22)));
    assert_eq!(info.audio.unwrap().sample_rate, 32_000);

    let report = job.report.unwrap();
    let stages: Vec<&str> = report.stage_durations_s.keys().map(String::as_str).collect();
    assert_eq!(stages, ["decode_audio", "decode_video", "denoise", "encode", "encode_inputs", "text_encode", "upload"]);
    assert!(report.inference_s > 0.0 && report.peak_memory_bytes > 0);
    assert_eq!(job.progress.percent, 100);
    assert!(job.begun_at.is_some());
    assert_eq!(house.ends(id).await, [Some(AttemptEnd::Completed)]);
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_hint_are_found_in_the_store() {
    let house = House::new().await;
    let (first, second) = (house.submit_quietly().await, house.submit_quietly().await);
    let worker = house.start(Scripted::honest());
    house.until_state(first.id, JobState::Completed).await;
    house.until_state(second.id, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_in_progress_once_the_engine_moves_and_not_before() {
    let house = House::new().await;
    let (loaded, stepped) = (Gate::default(), Gate::default());
    let _open = (Opener(loaded.clone()), Opener(stepped.clone()));
    let worker = house.start(Scripted::new({
        let (loaded, stepped) = (loaded.clone(), stepped.clone());
        move |play| {
            loaded.wait();
            play.phase(EnginePhase::TextEncode);
            play.denoise()?;
            stepped.wait();
            play.media()?;
            Ok(play.report())
        }
    }));
    let id = house.submit().await;
    let claimed = house.until_state(id, JobState::Running).await;
    assert_eq!(claimed.status(), Status::Queued);
    loaded.open();
    let running = house.until(id, |job| job.progress.phase == Phase::Denoise && job.progress.step == 2).await;
    assert_eq!(running.status(), Status::InProgress);
    assert_eq!((running.progress.total_steps, running.progress.percent), (2, 85));
    stepped.open();
    house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
}
