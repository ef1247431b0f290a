//! Generations from keyframes and references on the tiny checkpoint.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clapboard_engine::checkpoint::Layout;
use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::ops::OpError;
use clapboard_engine::vision::VisionError;
use clapboard_engine::{
    CheckpointSink, Command, Continuation, Control, DenoiseCheckpoint, Engine, EngineConfig, FrameSink, GenerateError,
    GenerationReport, MediaChunk, MediaFormat, NoCheckpoints, NoTap, Phase, Progress, ProgressEvent, Request,
    ResumeError, SinkError, Stop, Tap, Uninterrupted, Unwatched,
};
use clapboard_h3::prepare::{Clip, Picture, PreparedReference, Sound};
use clapboard_h3::{GenerationSpec, Input, InputRole, Partition, Task, VideoRequest};

fn tiny() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    write_tiny(3, Layout::Original, &checkpoint).unwrap();
    (folder, checkpoint)
}

/// Bytes without a pattern that a convolution could miss.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * 31 + seed * 97) * (i % 13 + 1) % 251) as u8).collect()
}

fn picture(width: u32, height: u32, seed: usize) -> PreparedReference {
    PreparedReference::Image(Picture::new(width, height, bytes((width * height * 3) as usize, seed)).unwrap())
}

fn sound(samples: usize) -> Sound {
    let wave: Vec<f32> = (0..samples).map(|i| (i as f32 * 0.05).sin() * 0.5).collect();
    Sound::new(wave.clone(), wave).unwrap()
}

fn video(frames: usize) -> PreparedReference {
    let clip = Clip::new(64, 32, bytes(frames * 64 * 32 * 3, 5)).unwrap();
    PreparedReference::Video { clip, soundtrack: Some(sound(8_010)) }
}

fn spec(engine: &Engine, task: Task, roles: &[InputRole], media: &[PreparedReference]) -> GenerationSpec {
    let request = VideoRequest {
        prompt: Some("a fox".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(5),
        ..VideoRequest::default()
    };
    let profile = clapboard_h3::ModelProfile { partitions: vec![Partition::Fl2va], ..engine.profile().clone() };
    let resolved = request.resolve(&profile, 0).unwrap();
    let named = roles.iter().zip(media).enumerate();
    let inputs: Vec<Input> = named
        .map(|(index, (role, medium))| Input { role: *role, object: format!("{index}"), shape: medium.shape() })
        .collect();
    let version = GenerationSpec::version_with(&inputs);
    GenerationSpec { task, partition: task.partition(), version, inputs, ..resolved }
}

#[derive(Default, Debug, PartialEq)]
struct Media {
    samples: Vec<f32>,
    frames: Vec<u8>,
}

impl FrameSink for Media {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => self.samples.extend(samples),
            MediaChunk::Frames(frames) => self.frames.extend(frames),
        }
        Ok(None)
    }
}

/// Keeps the state after the first step.
struct First(Option<DenoiseCheckpoint>);

impl CheckpointSink for First {
    fn wants(&mut self, step: usize, _: usize) -> bool {
        step == 1
    }

    fn keep(&mut self, checkpoint: DenoiseCheckpoint) {
        self.0 = Some(checkpoint);
    }
}

fn run(
    engine: &mut Engine,
    request: Request<'_>,
    from: Continuation<'_>,
) -> Result<(GenerationReport, Media), GenerateError> {
    let mut media = Media::default();
    let report = engine.generate(request, &Uninterrupted, &Unwatched, &mut media, from, &mut NoTap)?;
    Ok((report, media))
}

/// Runs to the end, then again from the first step's state in another engine, and returns what both made.
fn made_twice(config: &EngineConfig, spec: &GenerationSpec, media: &[PreparedReference]) -> Media {
    let request = Request { spec, media };
    let mut kept = First(None);
    let from_noise = Continuation { resume: None, checkpoints: &mut kept };
    let (report, whole) = run(&mut Engine::load(config).unwrap(), request, from_noise).unwrap();
    let phases: Vec<Phase> = report.phase_seconds.iter().map(|(phase, _)| *phase).collect();
    assert_eq!(phases, Phase::ALL, "there is something to encode");
    let state = kept.0.expect("the first step was kept").bytes;
    let resumed = Continuation { resume: Some(&state), checkpoints: &mut NoCheckpoints };
    let (report, rest) = run(&mut Engine::load(config).unwrap(), request, resumed).unwrap();
    assert_eq!(report.resumed_at, Some(1));
    assert!(whole == rest, "a resumed generation differs");
    assert_eq!((whole.frames.len(), whole.samples.len() / 2), (22 * 64 * 32 * 3, 29_600));
    whole
}

#[test]
fn keyframes_condition_a_generation_and_resume_to_the_same_bits() {
    let (_folder, checkpoint) = tiny();
    let config = EngineConfig::new(&checkpoint, Partition::Fl2va);
    let engine = Engine::load(&config).unwrap();
    let (first, last) = (picture(64, 32, 1), picture(64, 32, 2));
    let mut made = Vec::new();
    for (roles, media) in [
        (vec![InputRole::FirstFrame], vec![first.clone()]),
        (vec![InputRole::LastFrame], vec![first.clone()]),
        (vec![InputRole::FirstFrame], vec![last.clone()]),
        (vec![InputRole::FirstFrame, InputRole::LastFrame], vec![first, last]),
    ] {
        let spec = spec(&engine, Task::Fl2va, &roles, &media);
        made.push(made_twice(&config, &spec, &media));
    }
    for (index, one) in made.iter().enumerate() {
        assert!(made[..index].iter().all(|other| other != one), "keyframes {index} make no difference");
    }
}

#[test]
fn references_of_every_kind_condition_a_generation() {
    let (_folder, checkpoint) = tiny();
    let config = EngineConfig::new(&checkpoint, Partition::Ref2va);
    let engine = Engine::load(&config).unwrap();
    let roles = [InputRole::Image, InputRole::Video, InputRole::Audio];
    let media = [picture(96, 64, 3), video(30), PreparedReference::Audio(sound(8_000))];
    let all = spec(&engine, Task::Ref2va, &roles, &media);
    let everything = made_twice(&config, &all, &media);
    let alone = spec(&engine, Task::Ref2va, &roles[..1], &media[..1]);
    assert!(made_twice(&config, &alone, &media[..1]) != everything);
}

#[test]
fn media_that_the_specification_does_not_name_are_refused() {
    let (_folder, checkpoint) = tiny();
    let config = EngineConfig::new(&checkpoint, Partition::Fl2va);
    let mut engine = Engine::load(&config).unwrap();
    let fitting = [picture(64, 32, 1)];
    let named = spec(&engine, Task::Fl2va, &[InputRole::FirstFrame], &fitting);
    let elsewhere = [picture(32, 64, 1)];
    let off_canvas = spec(&engine, Task::Fl2va, &[InputRole::FirstFrame], &elsewhere);
    let mut refuse = |spec: &GenerationSpec, media: &[PreparedReference]| {
        let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
        match run(&mut engine, Request { spec, media }, from).unwrap_err() {
            GenerateError::Media(why) => why,
            other => panic!("{other}"),
        }
    };
    let heard = PreparedReference::Audio(sound(8_000));
    assert_eq!(refuse(&named, &[heard]), "input 0 is FirstFrame, given was Audio");
    assert_eq!(refuse(&named, &[]), "it has 1 inputs, given were 0");
    assert_eq!(refuse(&named, &[picture(64, 32, 1), picture(64, 32, 2)]), "it has 1 inputs, given were 2");
    let why = refuse(&named, &elsewhere);
    assert!(why.starts_with("input 0 may have 64x32 pixels, 1 frames"), "{why}");
    assert_eq!(refuse(&off_canvas, &elsewhere), "a keyframe is not of 64x32 pixels");
}

#[test]
fn references_beyond_their_announced_size_are_refused() {
    let (_folder, checkpoint) = tiny();
    let config = EngineConfig::new(&checkpoint, Partition::Ref2va);
    let mut engine = Engine::load(&config).unwrap();
    let roles = [InputRole::Image, InputRole::Video, InputRole::Audio];
    let media = [picture(96, 64, 3), video(30), PreparedReference::Audio(sound(8_000))];
    let all = spec(&engine, Task::Ref2va, &roles, &media);
    for (index, larger) in
        [(0, picture(64, 96, 3)), (0, picture(96, 96, 3)), (1, video(31)), (2, PreparedReference::Audio(sound(8_001)))]
    {
        let mut media = media.clone();
        media[index] = larger;
        let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
        let error = run(&mut engine, Request { spec: &all, media: &media }, from).unwrap_err();
        let expected = format!("the media do not fit the specification: input {index} may have ");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    // Shorter than announced: a file may hold less than its container says.
    let shorter = [media[0].clone(), video(29), media[2].clone()];
    let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    run(&mut engine, Request { spec: &all, media: &shorter }, from).unwrap();
}

#[test]
fn a_video_that_the_language_model_cannot_see_is_no_fault_of_the_prompt() {
    let (_folder, checkpoint) = tiny();
    let mut engine = Engine::load(&EngineConfig::new(&checkpoint, Partition::Ref2va)).unwrap();
    let media = [video(12)];
    let short = spec(&engine, Task::Ref2va, &[InputRole::Video], &media);
    let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    let error = run(&mut engine, Request { spec: &short, media: &media }, from).unwrap_err();
    assert!(matches!(error, GenerateError::Vision(VisionError::TooFewFrames { frames: 12, needed: 13 })), "{error}");
}

#[test]
fn a_state_of_other_media_is_refused() {
    let (_folder, checkpoint) = tiny();
    let mut engine = Engine::load(&EngineConfig::new(&checkpoint, Partition::Fl2va)).unwrap();
    let media = [picture(64, 32, 1)];
    let spec = spec(&engine, Task::Fl2va, &[InputRole::FirstFrame], &media);
    let mut kept = First(None);
    let from_noise = Continuation { resume: None, checkpoints: &mut kept };
    run(&mut engine, Request { spec: &spec, media: &media }, from_noise).unwrap();
    let state = kept.0.expect("the first step was kept").bytes;
    let other = [picture(64, 32, 2)];
    let resumed = Continuation { resume: Some(&state), checkpoints: &mut NoCheckpoints };
    let error = run(&mut engine, Request { spec: &spec, media: &other }, resumed).unwrap_err();
    assert!(matches!(error, GenerateError::Resume(ResumeError::ForeignMedia)), "{error}");
}

/// Notes progress, and cancels once a phase has got so far.
#[derive(Default)]
struct Watch {
    events: Mutex<Vec<ProgressEvent>>,
    cancel_in: Option<Phase>,
    cancelled: AtomicBool,
}

impl Watch {
    /// The parts of each phase, done and in all.
    fn parts(&self) -> Vec<(Phase, Vec<(usize, usize)>)> {
        let mut phases: Vec<(Phase, Vec<(usize, usize)>)> = Vec::new();
        for event in self.events.lock().unwrap().iter() {
            match (event, phases.last_mut()) {
                (ProgressEvent::Phase(phase), _) => phases.push((*phase, Vec::new())),
                (ProgressEvent::Part { done, total }, Some((_, parts))) => parts.push((*done, *total)),
                _ => {}
            }
        }
        phases
    }
}

impl Progress for Watch {
    fn report(&self, event: ProgressEvent) {
        self.events.lock().unwrap().push(event);
        let now = self.parts().pop();
        if now.is_some_and(|(phase, parts)| self.cancel_in == Some(phase) && parts.len() == 2) {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }
}

impl Control for Watch {
    fn command(&self) -> Command {
        if self.cancelled.load(Ordering::Relaxed) { Command::Cancel } else { Command::Run }
    }
}

#[test]
fn progress_only_grows_within_a_phase_and_ends_at_its_total() {
    let (_folder, checkpoint) = tiny();
    let mut engine = Engine::load(&EngineConfig::new(&checkpoint, Partition::Ref2va)).unwrap();
    let media = [picture(64, 32, 3), video(30), PreparedReference::Audio(sound(8_000))];
    let roles = [InputRole::Image, InputRole::Video, InputRole::Audio];
    let spec = spec(&engine, Task::Ref2va, &roles, &media);
    let watch = Watch::default();
    let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    let request = Request { spec: &spec, media: &media };
    engine.generate(request, &Uninterrupted, &watch, &mut Media::default(), from, &mut NoTap).unwrap();
    for (phase, parts) in watch.parts() {
        if phase == Phase::Denoise {
            // Every step counts its blocks.
            continue;
        }
        assert!(parts.is_sorted() && parts.iter().all(|(_, total)| *total == parts[0].1), "{phase}: {parts:?}");
        let (done, total) = parts.last().expect("every phase has parts");
        assert_eq!(done, total, "{phase}");
    }
    let encoded = watch.parts().into_iter().find(|(phase, _)| *phase == Phase::EncodeInputs).unwrap().1;
    assert_eq!(encoded[0].1, 4 * 1000, "a picture, a video, its sound, a sound");
}

#[test]
fn a_generation_is_cancelled_while_its_inputs_are_encoded() {
    let (_folder, checkpoint) = tiny();
    let mut engine = Engine::load(&EngineConfig::new(&checkpoint, Partition::Ref2va)).unwrap();
    for media in [picture(64, 32, 3), video(30)] {
        let media = [media];
        let role = if matches!(media[0], PreparedReference::Image(_)) { InputRole::Image } else { InputRole::Video };
        let spec = spec(&engine, Task::Ref2va, &[role], &media);
        let watch = Watch { cancel_in: Some(Phase::EncodeInputs), ..Watch::default() };
        let (mut kept, mut made) = (First(None), Media::default());
        let from = Continuation { resume: None, checkpoints: &mut kept };
        let request = Request { spec: &spec, media: &media };
        let error = engine.generate(request, &watch, &watch, &mut made, from, &mut NoTap).unwrap_err();
        assert!(matches!(error, GenerateError::Stopped(Stop::Cancelled)), "{error}");
        let (phase, parts) = watch.parts().pop().unwrap();
        assert_eq!((phase, parts.len()), (Phase::EncodeInputs, 2), "it stops at once");
        assert!(kept.0.is_none() && made == Media::default());
    }
}

/// Has every tensor read whose name ends so, and notes which were.
struct Reads(&'static str, Vec<String>);

impl Tap for Reads {
    fn see(
        &mut self,
        name: &str,
        shape: &[usize],
        read: &dyn Fn() -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        if name.ends_with(self.0) {
            assert_eq!(read()?.len(), shape.iter().product::<usize>(), "{name}");
            self.1.push(name.to_owned());
        }
        Ok(())
    }
}

#[test]
fn noise_is_shown_to_those_who_look() {
    let (_folder, checkpoint) = tiny();
    let mut engine = Engine::load(&EngineConfig::new(&checkpoint, Partition::Fl2va)).unwrap();
    let media = [picture(64, 32, 1), picture(64, 32, 2)];
    let spec = spec(&engine, Task::Fl2va, &[InputRole::FirstFrame, InputRole::LastFrame], &media);
    let mut reads = Reads("noise", Vec::new());
    let from = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    let request = Request { spec: &spec, media: &media };
    engine.generate(request, &Uninterrupted, &Unwatched, &mut Media::default(), from, &mut reads).unwrap();
    let names =
        ["condition_0_posterior_noise", "condition_1_posterior_noise", "condition_0_noise", "condition_1_noise"];
    assert_eq!(reads.1, names);
}
