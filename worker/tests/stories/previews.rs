//! Pictures of finished videos.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clapboard_jobs::{JobState, Phase, Policy, PreviewKind, Status};
use clapboard_media::Ffmpeg;
use clapboard_worker::{Options, StallLimits};
use sha2::{Digest, Sha256};

use crate::blobs::GatedBlob;
use crate::house::{GENEROUS, House, named, until_true};
use crate::logs::Book;
use crate::scripted::{Gate, Opener, Scripted};

/// Puts an ffmpeg into the house that does this where it is to make pictures.
fn make_pictures_by(house: &mut House, body: &str) {
    let path = house.path("ffmpeg");
    let script = format!("#!/bin/sh\ncase \"$*\" in\n*select=*) {body};;\n*) exec ffmpeg \"$@\";;\nesac\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    house.ffmpeg = Ffmpeg::at(&path, "ffprobe").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_video_has_its_pictures_and_its_row_says_what_they_are() {
    let house = House::new().await;
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    let kinds: Vec<PreviewKind> = job.previews.iter().map(|preview| preview.kind).collect();
    assert_eq!(kinds, [PreviewKind::Thumbnail, PreviewKind::Spritesheet]);
    for preview in &job.previews {
        let stored = house.object(preview.object.key.as_str());
        let hash: String = Sha256::digest(&stored).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((stored.len() as u64, hash), (preview.object.size_bytes, preview.object.sha256.clone()));
        match preview.kind {
            PreviewKind::Thumbnail => assert_eq!((&stored[..4], &stored[8..12]), (&b"RIFF"[..], &b"WEBP"[..])),
            PreviewKind::Spritesheet => assert_eq!(stored[..3], [0xFF, 0xD8, 0xFF]),
        }
    }
    assert_eq!(house.objects().await, named(&job));
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_whose_pictures_cannot_be_made_completes_without_them() {
    let mut house = House::new().await;
    make_pictures_by(&mut house, "echo no such filter >&2; exit 1");
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!((job.attempt, job.previews.len()), (1, 0));
    assert_eq!(house.objects().await, named(&job));
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_of_which_one_picture_cannot_be_stored_has_the_other() {
    for (refused, had) in [(".jpg", PreviewKind::Thumbnail), (".webp", PreviewKind::Spritesheet)] {
        let mut house = House::new().await;
        house.blob = GatedBlob::closed(&house.blob, refused);
        let options = Options { preview_timeout: Duration::from_secs(3), ..house.options() };
        let worker = house.start_with(Scripted::honest(), options);
        let id = house.submit().await;
        let job = house.until_state(id, JobState::Completed).await;
        worker.stop().await.unwrap();
        assert_eq!(job.previews.iter().map(|preview| preview.kind).collect::<Vec<_>>(), [had]);
        assert_eq!(house.objects().await, named(&job));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_of_which_one_picture_cannot_be_made_has_the_other() {
    for (failing, had) in [("*rawvideo*", PreviewKind::Thumbnail), ("*libwebp*", PreviewKind::Spritesheet)] {
        let mut house = House::new().await;
        let body = format!("case \"$*\" in {failing}) exit 1;; *) exec ffmpeg \"$@\";; esac");
        make_pictures_by(&mut house, &body);
        let worker = house.start(Scripted::honest());
        let id = house.submit().await;
        let job = house.until_state(id, JobState::Completed).await;
        worker.stop().await.unwrap();
        assert_eq!(job.previews.iter().map(|preview| preview.kind).collect::<Vec<_>>(), [had]);
        assert_eq!(house.objects().await, named(&job));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_are_away_for_a_moment_cost_a_video_no_picture() {
    let mut house = House::new().await;
    let store = house.break_store();
    store.refuse_previews(2);
    let (blob, gate) = GatedBlob::away_until(&house.blob, ".webp");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let worker = house.start_with(Scripted::honest(), Options { preview_timeout: GENEROUS, ..house.options() });
    let id = house.submit().await;
    // The sheet does not wait for the thumbnail.
    until_true(async || house.objects().await.len() == 2).await;
    assert_eq!(store.previews_left_to_refuse(), 0);
    gate.open();
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    let kinds: Vec<PreviewKind> = job.previews.iter().map(|preview| preview.kind).collect();
    assert_eq!(kinds, [PreviewKind::Thumbnail, PreviewKind::Spritesheet]);
    assert_eq!(house.objects().await, named(&job));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_does_not_wait_for_its_pictures_until_its_lease_is_lost() {
    let book = Book::open();
    let mut house = House::with(Policy { lease: Duration::from_secs(12), ..Policy::default() }).await;
    let faulty = house.break_store();
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options = Options { preview_timeout: GENEROUS, fence_margin: Duration::from_secs(4), ..house.options() };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    faulty.go_away();
    gate.open();
    until_true(async || faulty.finishes() > 0).await;
    faulty.come_back();
    let job = house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!((job.attempt, job.previews.len()), (1, 0));
    let told = "the video lacks pictures: the job store does not answer, and the lease runs out";
    assert!(book.of(id).iter().any(|line| line.contains(told)), "{:#?}", book.of(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_that_hang_hold_the_video_for_as_long_as_they_may_and_count_as_no_stall() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".webp");
    let _open = Opener(gate);
    house.blob = blob;
    let stall_limits = StallLimits { upload: Duration::from_secs(1), ..house.options().stall_limits };
    let options = Options { stall_limits, preview_timeout: Duration::from_secs(2), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    let job = house.until_state(id, JobState::Completed).await;
    let kinds: Vec<PreviewKind> = job.previews.iter().map(|preview| preview.kind).collect();
    assert_eq!((job.attempt, kinds), (1, vec![PreviewKind::Spritesheet]));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_pictures_are_stored_leaves_nothing() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".jpg");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let worker = house.start(Scripted::honest());
    let id = house.submit().await;
    until_true(async || house.objects().await.len() == 2).await;
    house.store.cancel(&house.tenant, id).await.unwrap().unwrap();
    house.until_renewed(id, 2).await;
    gate.open();
    house.until_state(id, JobState::Cancelled).await;
    worker.stop().await.unwrap();
    assert_eq!(house.objects().await, Vec::<String>::new());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_away_while_its_pictures_are_stored_keeps_nothing_of_them() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".jpg");
    let _open = Opener(gate.clone());
    house.blob = blob;
    // The engine is free, and must not be quicker than the thief.
    let options = Options { poll_interval: GENEROUS, ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    until_true(async || house.objects().await.len() == 2).await;
    let stolen = house.steal(id).await;
    gate.open();
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.worker), (JobState::Running, Some(stolen.lease.worker)));
    assert_eq!(house.objects().await, Vec::<String>::new());
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_has_lasted_long_enough_ends_the_making_of_pictures_and_the_video_completes() {
    let book = Book::open();
    let mut house = House::new().await;
    let pid = house.path("pid");
    let body = format!("echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000", pid.display());
    make_pictures_by(&mut house, &body);
    let options = Options { drain_timeout: Duration::from_millis(50), ..house.options() };
    let worker = house.start_with(Scripted::honest(), options);
    let id = house.submit().await;
    house.until(id, |job| job.progress.phase == Phase::Upload).await;
    until_true(async || pid.exists() && !house.objects().await.is_empty()).await;
    worker.stop().await.unwrap();
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.previews.len()), (JobState::Completed, 0));
    let told = "the video lacks pictures: the drain has lasted as long as it may";
    assert!(book.of(id).iter().any(|line| line.contains(" WARN ") && line.contains(told)), "{:#?}", book.of(id));
    let process = Path::new("/proc").join(fs::read_to_string(pid).unwrap().trim());
    until_true(async || !process.exists()).await;
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}
