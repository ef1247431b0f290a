//! Jobs that follow each other closely: claimed ahead, and stored while the next one runs.

use std::path::PathBuf;
use std::time::Duration;

use clapboard_engine::ProgressEvent;
use clapboard_jobs::fixtures::small_spec;
use clapboard_jobs::{AttemptEnd, JobId, JobState, NewJob, Phase, Status};
use clapboard_worker::Options;

use crate::blobs::GatedBlob;
use crate::house::House;
use crate::scripted::{Gate, Opener, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn the_next_job_begins_while_a_finished_video_is_still_being_stored() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let worker = house.start(Scripted::honest());
    let first = house.submit().await;
    house.until(first, |job| job.progress.phase == Phase::Upload).await;
    let second = house.submit().await;
    house.until(second, |job| job.status() == Status::InProgress).await;
    assert_eq!(house.find(first).await.unwrap().state, JobState::Running);
    gate.open();
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_waits_when_too_many_videos_are_being_stored() {
    let mut house = House::new().await;
    let (blob, gate) = GatedBlob::over(&house.blob, ".mp4");
    let _open = Opener(gate.clone());
    house.blob = blob;
    let worker = house.start(Scripted::honest());
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(house.submit().await);
    }
    for &id in &jobs[..3] {
        house.until(id, |job| job.progress.phase == Phase::Upload).await;
    }
    // The leases of all three are kept for a while, and the fourth job is left to others.
    for &id in &jobs[..3] {
        house.until_renewed(id, 5).await;
    }
    assert_eq!(house.ends(jobs[3]).await, []);
    let opened_at = house.store.now().await.unwrap();
    gate.open();
    for &id in &jobs {
        house.until_state(id, JobState::Completed).await;
    }
    assert!(house.attempts(jobs[3]).await[0].claimed_at >= opened_at);
    worker.stop().await.unwrap();
}

fn ahead(house: &House) -> Options {
    Options { prefetch_window: Duration::from_secs(30), ..house.options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_claimed_ahead_stays_queued_for_its_client_until_the_engine_is_free_in_time() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let worker = house.start_with(Scripted::close_to_the_end(&gate), ahead(&house));
    let (first, second) = (house.submit().await, house.submit().await);
    let claimed = house.until_state(second, JobState::Running).await;
    // A few beats keep its lease and do not begin it.
    let kept = house.until(second, |job| job.lease_expires_at > claimed.lease_expires_at).await;
    assert_eq!((kept.status(), kept.begun_at), (Status::Queued, None));
    assert_eq!(house.store.queue_position(&house.tenant, second).await.unwrap(), Some(0));
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    gate.open();
    for id in [first, second] {
        let job = house.until_state(id, JobState::Completed).await;
        assert!(job.begun_at.is_some());
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_claimed_ahead_and_cancelled_ends_at_once() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let worker = house.start_with(Scripted::close_to_the_end(&gate), ahead(&house));
    let (first, second) = (house.submit().await, house.submit().await);
    house.until_state(second, JobState::Running).await;
    house.store.cancel(&house.tenant, second).await.unwrap().unwrap();
    house.until_state(second, JobState::Cancelled).await;
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    gate.open();
    house.until_state(first, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_claimed_ahead_too_early_is_handed_back_uncounted() {
    let house = House::new().await;
    let (slower, gate) = (Gate::default(), Gate::default());
    let _open = (Opener(slower.clone()), Opener(gate.clone()));
    let generator = Scripted::new({
        let (slower, gate) = (slower.clone(), gate.clone());
        move |play| {
            play.denoise_parts(1..=90, 100)?;
            slower.wait();
            // What was said to take some milliseconds has taken more than the window.
            std::thread::sleep(Duration::from_secs(1));
            play.generation.progress.report(ProgressEvent::Part { done: 91, total: 100 });
            gate.wait();
            play.media()?;
            Ok(play.report())
        }
    });
    let options = Options { prefetch_window: Duration::from_millis(200), ..house.options() };
    let worker = house.start_with(generator, options);
    let (first, second) = (house.submit().await, house.submit().await);
    house.until_state(second, JobState::Running).await;
    slower.open();
    house.until(second, |job| job.fence.0 > 1 || job.state == JobState::Queued).await;
    assert_eq!(house.ends(second).await[0], Some(AttemptEnd::Returned));
    gate.open();
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_claimed_ahead_of_an_engine_that_falls_silent_is_handed_back_and_left_to_others() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let options = Options { prefetch_window: Duration::from_millis(500), ..house.options() };
    let worker = house.start_with(Scripted::close_to_the_end(&gate), options);
    let (first, second) = (house.submit().await, house.submit_quietly().await.id);
    house.until_state(second, JobState::Running).await;
    let left = house.until(second, |job| job.state == JobState::Queued).await;
    house.until_hinted_at(&left).await;
    // The engine is silent for longer than any prediction: nothing is claimed ahead of it any more.
    house.until_renewed(first, 40).await;
    assert_eq!(house.ends(second).await, [Some(AttemptEnd::Returned)]);
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    gate.open();
    for id in [first, second] {
        assert_eq!(house.until_state(id, JobState::Completed).await.attempt, 1);
    }
    worker.stop().await.unwrap();
}

/// A job with so little time that it cannot wait for the engine, claimed ahead of an engine that waits for the gate.
async fn late(house: &House) -> (JobId, JobId) {
    let first = house.submit().await;
    let patience = Duration::from_secs(90);
    let urgent = NewJob { start_within: Some(patience), ..NewJob::new(house.tenant.clone(), "h3", &small_spec()) };
    let second = house.store.create(urgent).await.unwrap();
    house.until_state(second.id, JobState::Running).await;
    house.clock.advance(patience);
    (first, second.id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_claimed_ahead_fails_at_its_deadline_and_leaves_its_place() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let worker = house.start_with(Scripted::close_to_the_end(&gate), ahead(&house));
    let (first, second) = late(&house).await;
    assert_eq!(house.store.fail_overdue(10).await.unwrap(), [second]);
    let failed = house.find(second).await.unwrap();
    assert_eq!((failed.state, failed.begun_at), (JobState::Failed, None));
    assert_eq!(house.ends(second).await, [Some(AttemptEnd::Failed)]);
    // Its worker hears of it while the engine is still taken, and has room for another.
    let third = house.submit().await;
    house.until_state(third, JobState::Running).await;
    assert_eq!(house.find(first).await.unwrap().status(), Status::InProgress);
    gate.open();
    for id in [first, third] {
        house.until_state(id, JobState::Completed).await;
    }
    assert_eq!(house.find(second).await.unwrap().state, JobState::Failed);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_claimed_ahead_does_not_begin_after_its_deadline() {
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let worker = house.start_with(Scripted::close_to_the_end(&gate), ahead(&house));
    let (first, second) = late(&house).await;
    // The engine is free before anybody has looked for such jobs.
    gate.open();
    house.until_state(first, JobState::Completed).await;
    let third = house.submit().await;
    house.until_state(third, JobState::Completed).await;
    let held = house.find(second).await.unwrap();
    assert_eq!((held.state, held.begun_at), (JobState::Running, None));
    assert_eq!(house.store.fail_overdue(10).await.unwrap(), [second]);
    assert_eq!(house.ends(second).await, [Some(AttemptEnd::Failed)]);
    worker.stop().await.unwrap();
}
