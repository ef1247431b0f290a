//! The engine behind its handle: what it makes, how it stops, what it refuses.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::checkpoint::{Layout, map_file};
use clapboard_engine::{
    Command, Control, EngineConfig, EngineHandle, FrameSink, GenerateError, Generation, GenerationReport, MediaChunk,
    MediaFormat, NoCheckpoints, Phase, Progress, ProgressEvent, SinkError, Stop, Uninterrupted,
};
use clapboard_h3::packing::LayoutError;
use clapboard_h3::{Canvas, GenerationSpec, Partition, Sigmas, Task, VideoRequest};

fn tiny(layout: Layout) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let checkpoint = folder.path().join("tiny");
    write_tiny(3, layout, &checkpoint).expect("a tiny checkpoint can be written");
    (folder, checkpoint)
}

fn engine(checkpoint: &Path) -> EngineHandle {
    EngineHandle::start(EngineConfig::new(checkpoint, Partition::Fl2va)).expect("the tiny checkpoint loads")
}

fn spec(engine: &EngineHandle) -> GenerationSpec {
    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(11),
        ..VideoRequest::default()
    };
    request.resolve(engine.profile(), 0).expect("the request fits the tiny checkpoint")
}

/// Everything a generation said and made.
#[derive(Default)]
struct Log {
    events: Mutex<Vec<ProgressEvent>>,
    samples: Mutex<Vec<f32>>,
    frames: Mutex<Vec<u8>>,
}

impl Progress for Log {
    fn report(&self, event: ProgressEvent) {
        self.events.lock().unwrap().push(event);
    }
}

struct Keeper(Arc<Log>);

impl FrameSink for Keeper {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => self.0.samples.lock().unwrap().extend(samples),
            MediaChunk::Frames(frames) => self.0.frames.lock().unwrap().extend(frames),
        }
        Ok(None)
    }
}

fn run(
    engine: &EngineHandle,
    spec: &GenerationSpec,
    control: Arc<dyn Control>,
    log: &Arc<Log>,
    sink: Box<dyn FrameSink>,
) -> Result<GenerationReport, GenerateError> {
    let (sender, receiver) = channel();
    let generation = Generation {
        spec: Arc::new(spec.clone()),
        media: Arc::default(),
        control,
        progress: log.clone(),
        sink,
        resume: None,
        checkpoints: Box::new(NoCheckpoints),
    };
    engine.generate(generation, Box::new(move |result| sender.send(result).expect("the test waits")));
    receiver.recv().expect("every generation ends exactly once")
}

#[test]
fn one_seed_makes_the_same_bytes_in_both_layouts_and_another_seed_others() {
    let made: Vec<(Vec<u8>, Vec<f32>)> = [(Layout::Original, 11), (Layout::Diffusers, 11), (Layout::Original, 12)]
        .into_iter()
        .map(|(layout, seed)| {
            let (_folder, checkpoint) = tiny(layout);
            let engine = engine(&checkpoint);
            let log = Arc::new(Log::default());
            let spec = GenerationSpec { seed, ..spec(&engine) };
            run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).expect("it generates");
            let frames = log.frames.lock().unwrap().clone();
            (frames, log.samples.lock().unwrap().clone())
        })
        .collect();
    assert_eq!(made[0].0.len(), 22 * 64 * 32 * 3);
    assert_eq!(made[0].1.len(), 2 * 800 * 37);
    assert!(made[0] == made[1], "the layouts differ");
    assert!(made[0].0 != made[2].0, "the seed does not matter");
}

#[test]
fn phases_come_in_order_and_every_step_is_told() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let (log, spec) = (Arc::new(Log::default()), spec(&engine));
    let report = run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).unwrap();
    let events = log.events.lock().unwrap();
    let phases: Vec<Phase> = events
        .iter()
        .filter_map(|event| match event {
            ProgressEvent::Phase(phase) => Some(*phase),
            _ => None,
        })
        .collect();
    // There is nothing to encode.
    let expected: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| *phase != Phase::EncodeInputs).collect();
    assert_eq!(phases, expected);
    let steps: Vec<usize> = events
        .iter()
        .filter_map(|event| match event {
            ProgressEvent::Step { done, total } => {
                assert_eq!(*total, spec.forwards());
                Some(*done)
            }
            _ => None,
        })
        .collect();
    assert_eq!(steps, (1..=spec.forwards()).collect::<Vec<_>>());
    assert_eq!(report.forwards, spec.forwards());
}

/// Lets a number of questions pass, then gives its command.
struct After(AtomicUsize, Command);

impl Control for After {
    fn command(&self) -> Command {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Command::Run } else { self.1 }
    }
}

#[test]
fn a_stop_is_obeyed_wherever_it_is_seen() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let spec = spec(&engine);
    // 50 language-model layers, 2 refiner blocks, 9 DiT blocks, stages of the audio decoder, tiles.
    for (passes, command, stop) in [
        (0, Command::Cancel, Stop::Cancelled),
        (20, Command::Cancel, Stop::Cancelled),
        (51, Command::Cancel, Stop::Cancelled),
        (55, Command::CheckpointAndStop, Stop::Checkpointed),
        (62, Command::Cancel, Stop::Cancelled),
    ] {
        let log = Arc::new(Log::default());
        let control = Arc::new(After(passes.into(), command));
        let error = run(&engine, &spec, control, &log, Box::new(Keeper(log.clone()))).unwrap_err();
        assert!(matches!(error, GenerateError::Stopped(seen) if seen == stop), "{passes}: {error}");
        assert!(log.frames.lock().unwrap().is_empty());
    }
    let log = Arc::new(Log::default());
    run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).expect("the engine still works");
}

/// Never takes a frame.
struct Full;

impl FrameSink for Full {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        Ok(Some(chunk).filter(|chunk| matches!(chunk, MediaChunk::Frames(_))))
    }
}

#[test]
fn a_full_sink_does_not_hide_a_cancel() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let control = Arc::new(After(500.into(), Command::Cancel));
    let error = run(&engine, &spec(&engine), control, &Arc::new(Log::default()), Box::new(Full)).unwrap_err();
    assert!(matches!(error, GenerateError::Stopped(Stop::Cancelled)), "{error}");
}

/// Panics at the first chunk.
struct Broken;

impl FrameSink for Broken {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, _: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        panic!("the sink is broken")
    }
}

#[test]
fn a_panic_ends_its_generation_and_not_the_engine() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let (log, spec) = (Arc::new(Log::default()), spec(&engine));
    let error = run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Broken)).unwrap_err();
    assert!(matches!(&error, GenerateError::Panicked { message } if message == "the sink is broken"), "{error}");
    run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).expect("the engine still works");
}

#[test]
fn a_listener_that_panics_does_not_silence_the_next_one() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let (log, spec) = (Arc::new(Log::default()), spec(&engine));
    let foreign = GenerationSpec { task: Task::Ref2va, ..spec.clone() };
    let generation = Generation {
        spec: Arc::new(foreign),
        media: Arc::default(),
        control: Arc::new(Uninterrupted),
        progress: log.clone(),
        sink: Box::new(Keeper(log.clone())),
        resume: None,
        checkpoints: Box::new(NoCheckpoints),
    };
    engine.generate(generation, Box::new(|_| panic!("the listener is broken")));
    run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).expect("the engine still works");
}

/// Overwrites the F32 tensor `name` of every safetensors file under `folder` with values that are no numbers.
fn poison(folder: &Path, name: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            continue;
        }
        let tensors = map_file(&path).unwrap();
        let Some(tensor) = tensors.iter().find(|tensor| tensor.name() == name) else { continue };
        let (range, mut bytes) = (tensor.file_range(), std::fs::read(&path).unwrap());
        for value in bytes[range].chunks_exact_mut(4) {
            value.copy_from_slice(&f32::NAN.to_le_bytes());
        }
        // Renamed into place: the open mapping keeps the old file.
        let spoiled = path.with_extension("spoiled");
        std::fs::write(&spoiled, bytes).unwrap();
        std::fs::rename(spoiled, path).unwrap();
    }
}

#[test]
fn values_that_are_no_numbers_fail_the_generation_and_reach_no_sink() {
    for (folder, tensor, expected) in [
        ("FL2VA/transformer", "final_layer.video_out.bias", "video latents"),
        ("FL2VA/transformer", "final_layer.audio_out.bias", "audio latents"),
        ("FL2VA/audio_vae", "decoder.conv_pre.bias", "audio samples"),
        ("FL2VA/video_vae/source", "decoder.proj_out.bias", "frames"),
    ] {
        let (_folder, checkpoint) = tiny(Layout::Original);
        poison(&checkpoint.join(folder), tensor);
        let engine = engine(&checkpoint);
        let log = Arc::new(Log::default());
        // One forward: a second one would carry what one modality made into the other.
        let grid = |shift| Sigmas::shifted(2, shift).unwrap();
        let spec = GenerationSpec { video_sigmas: grid(12.0), audio_sigmas: grid(3.0), ..spec(&engine) };
        let result = run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone())));
        let error = result.unwrap_err();
        assert!(matches!(error, GenerateError::NotFinite { what } if what == expected), "{error}");
        // The sound is whole before the first frame is decoded.
        assert_eq!(log.samples.lock().unwrap().is_empty(), expected != "frames");
        assert!(log.frames.lock().unwrap().is_empty());
    }
}

#[test]
fn prompts_and_tasks_that_the_engine_cannot_run_are_refused() {
    let (_folder, checkpoint) = tiny(Layout::Original);
    let engine = engine(&checkpoint);
    let refuse = |spec: GenerationSpec| {
        let log = Arc::new(Log::default());
        run(&engine, &spec, Arc::new(Uninterrupted), &log, Box::new(Keeper(log.clone()))).unwrap_err()
    };
    let special = GenerationSpec { prompt: "a fox <|image_pad|> runs".to_owned(), ..spec(&engine) };
    assert!(matches!(refuse(special), GenerateError::Prompt(_)));
    let foreign = GenerationSpec { task: Task::Ref2va, partition: Partition::Ref2va, ..spec(&engine) };
    assert!(matches!(refuse(foreign), GenerateError::Task { .. }));
    let audio_sigmas = Sigmas::shifted(2, 3.0).unwrap();
    let vast = GenerationSpec { canvas: Canvas::new(32768, 32768).unwrap(), ..spec(&engine) };
    let refused = refuse(vast);
    assert!(matches!(refused, GenerateError::Layout(LayoutError::TooManyRows { .. })), "{refused}");
    let uneven = GenerationSpec { audio_sigmas, ..spec(&engine) };
    assert!(matches!(refuse(uneven), GenerateError::Spec(_)));
}
