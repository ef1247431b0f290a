//! Going on from a checkpoint in another engine: the bits of an uninterrupted run, or a typed refusal.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_engine::checkpoint::Layout;
use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{
    CheckpointSink, Command, ComputeDtype, Continuation, Control, DenoiseCheckpoint, Engine, EngineConfig,
    EngineHandle, FrameSink, GenerateError, Generation, GenerationReport, MediaChunk, MediaFormat, NoTap, Phase,
    Progress, ProgressEvent, ResumeError, SinkError, Stop,
};
use clapboard_h3::{GenerationSpec, ModelProfile, Partition, VideoRequest};

fn tiny() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let checkpoint = folder.path().join("tiny");
    write_tiny(3, Layout::Original, &checkpoint).expect("a tiny checkpoint can be written");
    (folder, checkpoint)
}

/// Keeps no modulations, so that a second run asks the control as often as the first.
fn config(checkpoint: &Path) -> EngineConfig {
    EngineConfig { adaln_cache_bytes: 0, ..EngineConfig::new(checkpoint, Partition::Fl2va) }
}

fn bf16(checkpoint: &Path) -> EngineConfig {
    EngineConfig { dtype: ComputeDtype::Bf16, decode: DecodePrecision::Bf16, ..config(checkpoint) }
}

fn load(config: &EngineConfig) -> Engine {
    Engine::load(config).expect("the tiny checkpoint loads")
}

/// Four sigma points: three steps of three blocks.
fn spec(profile: &ModelProfile, seed: i64) -> GenerationSpec {
    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(seed),
        ..VideoRequest::default()
    };
    request.resolve(profile, 0).expect("the request fits the tiny checkpoint")
}

/// What a generation said and made.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<ProgressEvent>>,
    media: Mutex<Media>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Media {
    /// The bits of the samples.
    samples: Vec<u32>,
    frames: Vec<u8>,
}

impl Log {
    fn media(&self) -> Media {
        self.media.lock().unwrap().clone()
    }

    fn steps_done(&self) -> usize {
        let steps = |event: &ProgressEvent| match event {
            ProgressEvent::Step { done, .. } => Some(*done),
            _ => None,
        };
        self.events.lock().unwrap().iter().filter_map(steps).max().unwrap_or(0)
    }

    /// The events of a phase, its beginning not among them.
    fn events_of(&self, wanted: Phase) -> Vec<ProgressEvent> {
        let mut current = None;
        let events = self.events.lock().unwrap();
        let of_phase = events.iter().filter(|event| {
            if let ProgressEvent::Phase(phase) = event {
                current = Some(*phase);
                return false;
            }
            current == Some(wanted)
        });
        of_phase.copied().collect()
    }
}

impl Progress for Log {
    fn report(&self, event: ProgressEvent) {
        self.events.lock().unwrap().push(event);
    }
}

struct MediaKeeper(Arc<Log>);

impl FrameSink for MediaKeeper {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        let mut media = self.0.media.lock().unwrap();
        match chunk {
            MediaChunk::Samples(samples) => media.samples.extend(samples.iter().map(|sample| sample.to_bits())),
            MediaChunk::Frames(frames) => media.frames.extend(frames),
        }
        Ok(None)
    }
}

/// Lets a number of questions pass, then asks for a stop; counts them all.
struct StopAfter {
    passes: usize,
    asked: AtomicUsize,
}

impl StopAfter {
    fn questions(passes: usize) -> Self {
        Self { passes, asked: AtomicUsize::new(0) }
    }

    fn never() -> Self {
        Self::questions(usize::MAX)
    }
}

impl Control for StopAfter {
    fn command(&self) -> Command {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if asked < self.passes { Command::Run } else { Command::CheckpointAndStop }
    }
}

/// Keeps what it is given, and wants every state or none.
struct Shelf {
    wants_all: bool,
    asked: Vec<(usize, usize)>,
    kept: Vec<DenoiseCheckpoint>,
}

impl Shelf {
    fn new(wants_all: bool) -> Self {
        Self { wants_all, asked: Vec::new(), kept: Vec::new() }
    }
}

impl CheckpointSink for Shelf {
    fn wants(&mut self, step: usize, total: usize) -> bool {
        self.asked.push((step, total));
        self.wants_all
    }

    fn keep(&mut self, checkpoint: DenoiseCheckpoint) {
        self.kept.push(checkpoint);
    }
}

struct Attempt {
    result: Result<GenerationReport, GenerateError>,
    log: Arc<Log>,
    asked: Vec<(usize, usize)>,
    kept: Vec<DenoiseCheckpoint>,
}

fn attempt(
    engine: &mut Engine,
    spec: &GenerationSpec,
    resume: Option<&[u8]>,
    control: &StopAfter,
    wants_all: bool,
) -> Attempt {
    let log = Arc::new(Log::default());
    let mut shelf = Shelf::new(wants_all);
    let continuation = Continuation { resume, checkpoints: &mut shelf };
    let result = engine.generate(spec, control, &*log, &mut MediaKeeper(log.clone()), continuation, &mut NoTap);
    let Shelf { asked, kept, .. } = shelf;
    Attempt { result, log, asked, kept }
}

/// Runs to the end; returns the media, the number of questions to the control, and the checkpoint of every step.
fn uninterrupted(config: &EngineConfig, spec: &GenerationSpec) -> (Media, usize, Vec<DenoiseCheckpoint>) {
    let control = StopAfter::never();
    let whole = attempt(&mut load(config), spec, None, &control, true);
    assert_eq!(whole.result.unwrap().resumed_at, None);
    (whole.log.media(), control.asked.into_inner(), whole.kept)
}

/// Stops after `passes` questions, goes on in a new engine, and compares what comes out with `expected`.
fn stop_and_go_on(
    config: &EngineConfig,
    engine: &mut Engine,
    spec: &GenerationSpec,
    passes: usize,
    expected: &Media,
) -> Option<usize> {
    let stopped = attempt(engine, spec, None, &StopAfter::questions(passes), false);
    let error = stopped.result.unwrap_err();
    assert!(matches!(error, GenerateError::Stopped(Stop::Checkpointed)), "{passes}: {error}");
    let done = stopped.log.steps_done();
    let steps: Vec<usize> = stopped.kept.iter().map(|checkpoint| checkpoint.step).collect();
    assert_eq!(steps, if done == 0 { vec![] } else { vec![done] }, "after {passes} questions");
    let checkpoint = stopped.kept.first()?;

    let rest = attempt(&mut load(config), spec, Some(&checkpoint.bytes), &StopAfter::never(), false);
    assert_eq!(rest.result.unwrap().resumed_at, Some(done));
    assert!(rest.kept.is_empty());
    assert!(rest.log.media() == *expected, "after {passes} questions: the media differ");
    Some(done)
}

#[test]
fn a_run_that_is_stopped_anywhere_goes_on_to_the_same_bits() {
    let (_folder, checkpoint) = tiny();
    let config = config(&checkpoint);
    let mut engine = load(&config);
    let spec = spec(engine.profile(), 11);
    let (expected, questions, _) = uninterrupted(&config, &spec);
    // 50 language-model layers, 2 refiner blocks, 3 AdaLN projections, then 3 blocks a step: at a border and between two.
    let borders = [0, 20, 52, 54, 57, 58, 59, 61, 63, 64, (64 + questions) / 2, questions - 2, questions - 1];
    let seen: Vec<Option<usize>> =
        borders.map(|passes| stop_and_go_on(&config, &mut engine, &spec, passes, &expected)).to_vec();
    let (none, some) = (None, Some);
    assert_eq!(seen[..5], [none; 5], "before the end of the first step");
    assert_eq!(seen[5..10], [some(1), some(1), some(2), some(2), some(3)]);
    assert_eq!(seen[10..], [some(3); 3], "while decoding");
}

#[test]
fn a_run_in_bf16_goes_on_to_the_same_bits() {
    let (_folder, checkpoint) = tiny();
    let config = bf16(&checkpoint);
    let mut engine = load(&config);
    let spec = spec(engine.profile(), 11);
    let (expected, questions, _) = uninterrupted(&config, &spec);
    assert_eq!(stop_and_go_on(&config, &mut engine, &spec, 60, &expected), Some(1));
    assert_eq!(stop_and_go_on(&config, &mut engine, &spec, questions - 1, &expected), Some(3));
}

#[test]
fn every_step_can_be_kept_and_gone_on_from() {
    let (_folder, checkpoint) = tiny();
    let config = config(&checkpoint);
    let mut engine = load(&config);
    let spec = spec(engine.profile(), 11);
    let (expected, _, kept) = uninterrupted(&config, &spec);
    assert_eq!(kept.iter().map(|checkpoint| checkpoint.step).collect::<Vec<_>>(), [1, 2, 3]);
    for DenoiseCheckpoint { step, bytes } in &kept {
        let rest = attempt(&mut engine, &spec, Some(bytes), &StopAfter::never(), true);
        assert_eq!(rest.result.unwrap().resumed_at, Some(*step));
        assert!(rest.log.media() == expected, "step {step}: the media differ");
        // Progress goes on where it was, before anything is computed in the phase.
        let events = rest.log.events_of(Phase::Denoise);
        assert_eq!(events[0], ProgressEvent::Step { done: *step, total: 3 });
        // A state does not tell how it was reached.
        assert_eq!(rest.asked, (step + 1..=3).map(|step| (step, 3)).collect::<Vec<_>>());
        assert_eq!(rest.kept, kept[*step..]);
        // Nobody reads the prompt once the last step is done.
        assert_eq!(rest.log.events_of(Phase::TextEncode).is_empty(), *step == 3);
        assert_eq!(events.len() == 1, *step == 3);
    }
}

#[test]
fn a_chain_of_interruptions_ends_at_the_same_bits() {
    let (_folder, checkpoint) = tiny();
    let config = config(&checkpoint);
    let spec = spec(load(&config).profile(), 11);
    let (expected, ..) = uninterrupted(&config, &spec);
    let mut resume: Option<DenoiseCheckpoint> = None;
    // The 55 questions before the first step each time, then four of the three blocks of a step; and in the end some of decoding.
    for step in 1..=3 {
        let bytes = resume.as_ref().map(|checkpoint| checkpoint.bytes.as_slice());
        let stopped = attempt(&mut load(&config), &spec, bytes, &StopAfter::questions(59), false);
        assert!(matches!(stopped.result, Err(GenerateError::Stopped(Stop::Checkpointed))));
        assert_eq!(stopped.kept.iter().map(|checkpoint| checkpoint.step).collect::<Vec<_>>(), [step]);
        resume = stopped.kept.into_iter().next();
    }
    let last = resume.unwrap().bytes;
    let stopped = attempt(&mut load(&config), &spec, Some(&last), &StopAfter::questions(1), false);
    assert!(matches!(stopped.result, Err(GenerateError::Stopped(Stop::Checkpointed))));
    assert!(stopped.kept.is_empty(), "the state is known");
    let rest = attempt(&mut load(&config), &spec, Some(&last), &StopAfter::never(), false);
    assert_eq!(rest.result.unwrap().resumed_at, Some(3));
    assert!(rest.log.media() == expected, "the media differ");
}

#[test]
fn a_state_that_somebody_has_is_not_handed_over_again() {
    let (_folder, checkpoint) = tiny();
    let config = config(&checkpoint);
    let mut engine = load(&config);
    let spec = spec(engine.profile(), 11);
    let kept = attempt(&mut engine, &spec, None, &StopAfter::questions(59), true).kept;
    assert_eq!(kept.len(), 1, "at the end of the step and not at the stop");
    for passes in [0, 52, 55, 56] {
        let control = StopAfter::questions(passes);
        let stopped = attempt(&mut engine, &spec, Some(&kept[0].bytes), &control, false);
        assert!(matches!(stopped.result, Err(GenerateError::Stopped(Stop::Checkpointed))));
        assert!(stopped.kept.is_empty(), "stopped after {passes} questions in the step that it went on with");
    }
}

/// Says that everything is to be discarded.
struct Cancelled(AtomicUsize);

impl Control for Cancelled {
    fn command(&self) -> Command {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Command::Run } else { Command::Cancel }
    }
}

#[test]
fn a_cancelled_run_keeps_nothing() {
    let (_folder, checkpoint) = tiny();
    let mut engine = load(&config(&checkpoint));
    let spec = spec(engine.profile(), 11);
    for passes in [61, 68] {
        let log = Arc::new(Log::default());
        let mut shelf = Shelf::new(false);
        let continuation = Continuation { resume: None, checkpoints: &mut shelf };
        let control = Cancelled(passes.into());
        let result = engine.generate(&spec, &control, &*log, &mut MediaKeeper(log.clone()), continuation, &mut NoTap);
        assert!(matches!(result, Err(GenerateError::Stopped(Stop::Cancelled))));
        assert!(log.steps_done() > 0 && shelf.kept.is_empty());
    }
}

#[test]
fn a_checkpoint_that_does_not_belong_here_is_refused_before_anything_runs() {
    let (_folder, checkpoint) = tiny();
    let mut engine = load(&config(&checkpoint));
    let spec = spec(engine.profile(), 11);
    let kept = attempt(&mut engine, &spec, None, &StopAfter::questions(59), false).kept;
    let refuse = |engine: &mut Engine, spec: &GenerationSpec, bytes: &[u8]| {
        let refused = attempt(engine, spec, Some(bytes), &StopAfter::never(), true);
        assert!(refused.log.events.lock().unwrap().is_empty(), "nothing has run");
        assert!(refused.kept.is_empty() && refused.log.media() == Media::default());
        match refused.result.unwrap_err() {
            GenerateError::Resume(error) => error,
            other => panic!("{other}"),
        }
    };
    let bytes = &kept[0].bytes;
    let other_seed = GenerationSpec { seed: 12, ..spec.clone() };
    assert!(matches!(refuse(&mut engine, &other_seed, bytes), ResumeError::ForeignSpec));
    let cut = refuse(&mut engine, &spec, &bytes[..bytes.len() - 1]);
    assert!(matches!(cut, ResumeError::Malformed(_)), "{cut}");
    assert!(matches!(refuse(&mut engine, &spec, &[]), ResumeError::Malformed(_)));
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(matches!(refuse(&mut engine, &spec, &flipped), ResumeError::Digest));

    let mut other = load(&bf16(&checkpoint));
    match refuse(&mut other, &spec, bytes) {
        ResumeError::ForeignEngine { found, own } => {
            assert_eq!((found.as_str(), own.as_str()), (engine.fingerprint(), other.fingerprint()));
        }
        error => panic!("{error}"),
    }
    let whole = attempt(&mut engine, &spec, Some(bytes), &StopAfter::never(), false);
    assert!(whole.result.is_ok(), "the engine still works, and the checkpoint too");
}

#[test]
fn a_handle_passes_checkpoints_both_ways() {
    struct Sender(std::sync::mpsc::Sender<DenoiseCheckpoint>);

    impl CheckpointSink for Sender {
        fn wants(&mut self, step: usize, _: usize) -> bool {
            step == 2
        }

        fn keep(&mut self, checkpoint: DenoiseCheckpoint) {
            self.0.send(checkpoint).expect("the test listens");
        }
    }

    let (_folder, checkpoint) = tiny();
    let engine = EngineHandle::start(config(&checkpoint)).unwrap();
    let spec = Arc::new(spec(engine.profile(), 11));
    let run = |resume: Option<Arc<[u8]>>| {
        let log = Arc::new(Log::default());
        let (kept, states) = channel();
        let (ended, result) = channel();
        let generation = Generation {
            spec: spec.clone(),
            media: Arc::default(),
            control: Arc::new(StopAfter::never()),
            progress: log.clone(),
            sink: Box::new(MediaKeeper(log.clone())),
            resume,
            checkpoints: Box::new(Sender(kept)),
        };
        engine.generate(generation, Box::new(move |result| ended.send(result).expect("the test waits")));
        let report = result.recv().unwrap().unwrap();
        (report.resumed_at, log.media(), states.into_iter().collect::<Vec<_>>())
    };
    let (resumed_at, expected, states) = run(None);
    assert_eq!((resumed_at, states.len()), (None, 1));
    let (resumed_at, media, states) = run(Some(states[0].bytes.clone().into()));
    assert_eq!((resumed_at, states.len()), (Some(2), 0));
    assert!(media == expected, "the media differ");
}
