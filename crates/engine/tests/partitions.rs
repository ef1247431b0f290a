//! One engine that serves several partitions, switching between generations.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_engine::checkpoint::Layout;
use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::{
    Command, Control, EngineConfig, EngineHandle, FrameSink, GenerateError, Generation, LoadError, MediaChunk,
    MediaFormat, NoCheckpoints, Progress, ProgressEvent, SinkError, Stop, Uninterrupted, Unwatched,
};
use clapboard_h3::prepare::{Picture, PreparedReference};
use clapboard_h3::{GenerationSpec, Input, InputRole, ModelProfile, Partition, Task, VideoRequest};

const BOTH: [Partition; 2] = [Partition::Fl2va, Partition::Ref2va];

fn tiny(seed: u64, folder: &Path) -> PathBuf {
    let checkpoint = folder.join(format!("tiny-{seed}"));
    write_tiny(seed, Layout::Original, &checkpoint).unwrap();
    checkpoint
}

fn config(checkpoint: &Path, partitions: &[Partition]) -> EngineConfig {
    EngineConfig { partitions: partitions.to_vec(), ..EngineConfig::new(checkpoint, Partition::Fl2va) }
}

/// A generation of a task from as many pictures as it has roles.
fn request(profile: &ModelProfile, task: Task, roles: &[InputRole]) -> (GenerationSpec, Arc<[PreparedReference]>) {
    let text_alone = VideoRequest {
        prompt: Some("a fox".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(5),
        ..VideoRequest::default()
    };
    let profile = ModelProfile { partitions: vec![Partition::Fl2va], ..profile.clone() };
    let resolved = text_alone.resolve(&profile, 0).unwrap();
    let pixels = |index: usize| (0..64 * 32 * 3).map(|i| (i * (index + 7) % 251) as u8).collect();
    let picture = |index| PreparedReference::Image(Picture::new(64, 32, pixels(index)).unwrap());
    let media: Arc<[_]> = (0..roles.len()).map(picture).collect();
    let input = |(role, medium): (&InputRole, &PreparedReference)| Input {
        role: *role,
        object: "object".to_owned(),
        shape: medium.shape(),
    };
    let inputs: Vec<Input> = roles.iter().zip(media.iter()).map(input).collect();
    let version = GenerationSpec::version_with(&inputs);
    (GenerationSpec { task, partition: task.partition(), version, inputs, ..resolved }, media)
}

/// The bits of the samples, and the frames.
#[derive(Default, Clone, PartialEq)]
struct Made(Vec<u32>, Vec<u8>);

struct Keeper(Arc<Mutex<Made>>);

impl FrameSink for Keeper {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        let mut made = self.0.lock().unwrap();
        match chunk {
            MediaChunk::Samples(samples) => made.0.extend(samples.iter().map(|sample| sample.to_bits())),
            MediaChunk::Frames(frames) => made.1.extend(frames),
        }
        Ok(None)
    }
}

fn run(
    engine: &EngineHandle,
    (spec, media): &(GenerationSpec, Arc<[PreparedReference]>),
    control: Arc<dyn Control>,
) -> Result<Made, GenerateError> {
    run_watched(engine, &(spec.clone(), Arc::clone(media)), control, Arc::new(Unwatched))
}

fn run_watched(
    engine: &EngineHandle,
    (spec, media): &(GenerationSpec, Arc<[PreparedReference]>),
    control: Arc<dyn Control>,
    progress: Arc<dyn Progress>,
) -> Result<Made, GenerateError> {
    let made = Arc::new(Mutex::new(Made::default()));
    let (sender, ended) = channel();
    let generation = Generation {
        spec: Arc::new(spec.clone()),
        media: Arc::clone(media),
        control,
        progress,
        sink: Box::new(Keeper(Arc::clone(&made))),
        resume: None,
        checkpoints: Box::new(NoCheckpoints),
    };
    engine.generate(generation, Box::new(move |result| sender.send(result).unwrap()));
    ended.recv().unwrap()?;
    let made = made.lock().unwrap().clone();
    assert_eq!((made.0.len(), made.1.len()), (2 * 29_600, 22 * 64 * 32 * 3));
    Ok(made)
}

#[test]
fn jobs_of_both_partitions_in_turn_become_the_bits_of_engines_that_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = tiny(3, folder.path());
    let pinned = BOTH.map(|partition| EngineHandle::start(config(&checkpoint, &[partition])).unwrap());
    let doubled = [BOTH, BOTH].concat();
    let both = EngineHandle::start(config(&checkpoint, &doubled)).unwrap();
    assert_eq!(both.profile().partitions, BOTH);
    for (partition, pinned) in BOTH.iter().zip(&pinned) {
        assert_eq!(pinned.profile().partitions, [*partition]);
        assert!(pinned.fingerprint(*partition).is_some());
        assert_eq!(both.fingerprint(*partition), pinned.fingerprint(*partition));
    }
    assert_eq!(pinned[0].fingerprint(Partition::Ref2va), None);
    assert_ne!(both.fingerprint(Partition::Fl2va), both.fingerprint(Partition::Ref2va));

    let text = request(both.profile(), Task::T2va, &[]);
    let keyframes = request(both.profile(), Task::Fl2va, &[InputRole::FirstFrame, InputRole::LastFrame]);
    let references = request(both.profile(), Task::Ref2va, &[InputRole::Image, InputRole::Image]);
    let cases = [(&text, &pinned[0]), (&keyframes, &pinned[0]), (&references, &pinned[1])];
    let expected = cases.map(|(request, pinned)| run(pinned, request, Arc::new(Uninterrupted)).unwrap());
    assert!(expected[0] != expected[1] && expected[1] != expected[2]);
    for index in [2, 1, 2, 0, 0, 1, 2] {
        let made = run(&both, cases[index].0, Arc::new(Uninterrupted)).unwrap();
        assert!(made == expected[index], "case {index}");
    }
}

#[test]
fn a_partition_that_is_not_served_is_refused_and_the_loaded_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let engine = EngineHandle::start(config(&tiny(3, folder.path()), &[Partition::Ref2va])).unwrap();
    let foreign = request(engine.profile(), Task::T2va, &[]);
    let error = run(&engine, &foreign, Arc::new(Uninterrupted)).err().unwrap();
    assert_eq!(error.to_string(), "this engine has loaded ref2va and cannot run t2va");
    run(&engine, &request(engine.profile(), Task::Ref2va, &[InputRole::Image]), Arc::new(Uninterrupted)).unwrap();
}

/// Wants nothing any more.
struct Cancelled;

impl Control for Cancelled {
    fn command(&self) -> Command {
        Command::Cancel
    }
}

#[test]
fn weights_that_are_gone_or_have_changed_fail_the_jobs_that_need_them_until_they_are_back() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = tiny(3, folder.path());
    let engine = EngineHandle::start(config(&checkpoint, &BOTH)).unwrap();
    let references = request(engine.profile(), Task::Ref2va, &[InputRole::Image]);
    let text = request(engine.profile(), Task::T2va, &[]);
    let expected = run(&engine, &text, Arc::new(Uninterrupted)).unwrap();

    let (weights, away) = (checkpoint.join("Ref2VA/transformer"), folder.path().join("away"));
    fs::rename(&weights, &away).unwrap();
    // Nobody waits for weights of a job that nobody wants.
    let error = run(&engine, &references, Arc::new(Cancelled)).err().unwrap();
    assert!(matches!(error, GenerateError::Stopped(Stop::Cancelled)), "{error}");
    let error = run(&engine, &references, Arc::new(Uninterrupted)).err().unwrap();
    assert_eq!(error.to_string(), "could not load partition ref2va");
    assert!(matches!(engine.look_for(Partition::Ref2va), Err(LoadError::Checkpoint(_))));
    engine.look_for(Partition::Fl2va).unwrap();
    // The loaded partition was not given up for it: it goes on even where it could not be loaded again.
    let (loaded, moved) = (checkpoint.join("FL2VA/transformer"), folder.path().join("moved"));
    fs::rename(&loaded, &moved).unwrap();
    assert!(run(&engine, &text, Arc::new(Uninterrupted)).unwrap() == expected);
    fs::rename(&moved, &loaded).unwrap();

    fs::rename(tiny(4, folder.path()).join("Ref2VA/transformer"), &weights).unwrap();
    let error = run(&engine, &references, Arc::new(Uninterrupted)).err().unwrap();
    let GenerateError::Load { partition: Partition::Ref2va, source } = error else { panic!("{error}") };
    assert!(matches!(*source, LoadError::Changed { partition: Partition::Ref2va }), "{source}");

    fs::remove_dir_all(&weights).unwrap();
    fs::rename(&away, &weights).unwrap();
    engine.look_for(Partition::Ref2va).unwrap();
    run(&engine, &references, Arc::new(Uninterrupted)).unwrap();
    assert!(run(&engine, &text, Arc::new(Uninterrupted)).unwrap() == expected);
}

/// Counts the parts of a load and the events, and wants nothing any more after some parts.
struct LoadWatch {
    parts: AtomicUsize,
    events: AtomicUsize,
    most_parts: usize,
}

impl LoadWatch {
    fn new(most_parts: usize) -> Arc<Self> {
        Arc::new(Self { parts: AtomicUsize::new(0), events: AtomicUsize::new(0), most_parts })
    }

    fn counts(&self) -> (usize, usize) {
        (self.parts.load(Ordering::SeqCst), self.events.load(Ordering::SeqCst))
    }
}

impl Control for LoadWatch {
    fn command(&self) -> Command {
        if self.parts.load(Ordering::SeqCst) < self.most_parts { Command::Run } else { Command::Cancel }
    }
}

impl Progress for LoadWatch {
    fn report(&self, _: ProgressEvent) {
        self.events.fetch_add(1, Ordering::SeqCst);
    }

    fn loading(&self) {
        // What a generation brings in for itself, once it has begun, is no load of the engine's.
        if self.events.load(Ordering::SeqCst) == 0 {
            self.parts.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_load_tells_that_it_moves_and_a_generation_is_stopped_in_the_midst_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = EngineHandle::start(config(&tiny(3, folder.path()), &BOTH)).unwrap();
    let references = request(engine.profile(), Task::Ref2va, &[InputRole::Image]);
    let text = request(engine.profile(), Task::T2va, &[]);
    let watched = |request, watch: &Arc<LoadWatch>| run_watched(&engine, request, watch.clone(), watch.clone());
    // One that is loaded already has nothing to tell.
    let loaded = LoadWatch::new(1);
    watched(&text, &loaded).unwrap();
    assert_eq!(loaded.counts().0, 0);
    for most_parts in [1, 4, 9] {
        let stopped = LoadWatch::new(most_parts);
        let error = watched(&references, &stopped).err().unwrap();
        assert!(matches!(error, GenerateError::Stopped(Stop::Cancelled)), "{error}");
        assert_eq!(stopped.counts(), (most_parts, 0));
    }
    let whole = LoadWatch::new(usize::MAX);
    watched(&references, &whole).unwrap();
    let (parts, events) = whole.counts();
    assert!(parts > 9 && events > 0, "{parts} parts and {events} events");
    run(&engine, &text, Arc::new(Uninterrupted)).unwrap();
}

#[test]
fn every_partition_is_looked_for_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = tiny(3, folder.path());
    let nothing = EngineHandle::start(config(&checkpoint, &[])).err().unwrap();
    assert!(matches!(nothing, LoadError::NoPartition), "{nothing}");
    let weights = fs::read_dir(checkpoint.join("Ref2VA/transformer")).unwrap().map(|entry| entry.unwrap().path());
    weights.filter(|path| path.extension().is_some_and(|end| end == "safetensors")).for_each(|path| {
        fs::remove_file(path).unwrap();
    });
    let error = EngineHandle::start(config(&checkpoint, &BOTH)).err().unwrap();
    assert!(matches!(error, LoadError::Checkpoint(_)), "{error}");
    EngineHandle::start(config(&checkpoint, &[Partition::Fl2va])).unwrap();
}
