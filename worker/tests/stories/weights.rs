//! Weights that an engine has to load for a job, and that are not there or have changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clapboard_engine::{Done, GenerateError, Generation, LoadError};
use clapboard_h3::{ModelProfile, Partition};
use clapboard_jobs::{AttemptEnd, FailureCode, JobState, WorkerState};
use clapboard_worker::{Error, Generator, Options};

use crate::drains::worker_seen;
use crate::house::{House, until_true};
use crate::inputs::submit_reference;
use crate::scripted::{Gate, Scripted};

/// An engine that does all that it is asked, but for jobs of `partition`, whose weights are not there before the gate is open.
struct Lacking {
    engine: Arc<Scripted>,
    partition: Partition,
    there: Gate,
    looks: AtomicU32,
}

fn missing() -> LoadError {
    LoadError::Norm { tensor: "as.the.story.says.weight_v".to_owned(), row: 0 }
}

impl Lacking {
    fn new(partition: Partition, profile: Vec<Partition>) -> (Arc<Self>, Gate) {
        let there = Gate::default();
        let gate = there.clone();
        let engine = Scripted::of_partitions(profile, move |play| {
            if play.generation.spec.partition == partition && !gate.is_open() {
                return Err(GenerateError::Load { partition, source: Box::new(missing()) });
            }
            play.denoise()?;
            play.media()?;
            Ok(play.report())
        });
        (Arc::new(Self { engine, partition, there: there.clone(), looks: AtomicU32::new(0) }), there)
    }
}

impl Generator for Lacking {
    fn profile(&self) -> &ModelProfile {
        self.engine.profile()
    }

    fn fingerprint(&self, partition: Partition) -> Option<&str> {
        self.engine.fingerprint(partition)
    }

    fn look_for(&self, partition: Partition) -> Result<(), LoadError> {
        assert_eq!(partition, self.partition);
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.there.is_open() { Ok(()) } else { Err(missing()) }
    }

    fn generate(&self, generation: Generation, done: Done) {
        self.engine.generate(generation, done);
    }
}

fn impatient(house: &House) -> Options {
    let (unwell_pause, reload_pause) = (Duration::from_millis(10), Duration::from_millis(100));
    Options { unwell_pause, reload_pause, ..house.options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_cannot_be_loaded_costs_one_claim_and_the_jobs_of_others_nothing() {
    let house = House::new().await;
    let (generator, there) = Lacking::new(Partition::Ref2va, Partition::ALL.to_vec());
    let worker = house.start_with(Arc::clone(&generator) as _, impatient(&house));
    worker_seen(&house, |worker| worker.card.partitions == Partition::ALL).await;
    let references = submit_reference(&house).await;
    house.until(references, |job| job.state == JobState::Queued && job.fence.0 == 1).await;
    let attempt = house.attempts(references).await[0].clone();
    assert_eq!(attempt.ended.unwrap().1, AttemptEnd::Retried);
    let error = attempt.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (FailureCode::InternalError, "could not generate the video"));
    worker_seen(&house, |worker| worker.card.partitions == [Partition::Fl2va]).await;
    // Whenever it looks, they are not there, and no job is claimed to see that.
    for looks in 1..=3 {
        let text = house.submit().await;
        assert_eq!(house.until_state(text, JobState::Completed).await.fence.0, 1);
        until_true(async || generator.looks.load(Ordering::SeqCst) >= looks).await;
    }
    let waiting = house.find(references).await.unwrap();
    assert_eq!((waiting.attempt, waiting.fence.0), (0, 1));
    there.open();
    worker_seen(&house, |worker| worker.card.partitions == Partition::ALL).await;
    let job = house.until_state(references, JobState::Completed).await;
    assert_eq!((job.attempt, job.fence.0), (1, 2));
    worker.stop().await.unwrap();
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_any_weights_is_unwell_until_they_are_there_and_drains_meanwhile() {
    let house = House::new().await;
    let (generator, there) = Lacking::new(Partition::Fl2va, vec![Partition::Fl2va]);
    let worker = house.start_with(Arc::clone(&generator) as _, impatient(&house));
    let id = house.submit().await;
    let unwell = worker_seen(&house, |worker| worker.card.state == WorkerState::Unwell).await;
    assert_eq!(unwell.card.partitions, [Partition::Fl2va]);
    until_true(async || generator.looks.load(Ordering::SeqCst) >= 2).await;
    let waiting = house.find(id).await.unwrap();
    assert_eq!((waiting.state, waiting.attempt, waiting.fence.0), (JobState::Queued, 0, 1));
    worker.stop().await.unwrap();

    let worker = house.start_with(generator, impatient(&house));
    house.until(id, |job| job.state == JobState::Queued && job.fence.0 == 2).await;
    there.open();
    let job = house.until_state(id, JobState::Completed).await;
    assert_eq!((job.attempt, job.fence.0), (1, 3));
    worker_seen(&house, |worker| worker.card.state == WorkerState::Idle).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_that_have_changed_end_the_worker_and_cost_no_attempt() {
    let house = House::new().await;
    let worker = house.start(Scripted::new(|_| {
        let source = Box::new(LoadError::Changed { partition: Partition::Fl2va });
        Err(GenerateError::Load { partition: Partition::Fl2va, source })
    }));
    let id = house.submit().await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, Error::Changed { partition: Partition::Fl2va }), "{error}");
    let expected =
        "the weights of partition fl2va have changed since this process loaded them first: it has to start anew";
    assert_eq!(error.to_string(), expected);
    let job = house.find(id).await.unwrap();
    assert_eq!((job.state, job.attempt, job.fence.0), (JobState::Queued, 0, 1));
    assert_eq!(house.scratch(), Vec::<PathBuf>::new());
}
