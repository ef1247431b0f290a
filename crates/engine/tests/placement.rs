//! Where weights are changes memory and time, and no bit of a result.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use clapboard_engine::checkpoint::Layout;
use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{
    ComputeDtype, Continuation, Engine, EngineConfig, FrameSink, GenerateError, LoadError, MediaChunk, MediaFormat,
    MemoryBounds, MemoryBudgets, NoCheckpoints, NoTap, Placement, Request, ResidentLayers, SinkError, Uninterrupted,
    Unwatched,
};
use clapboard_h3::prepare::{Clip, Picture, PreparedReference, Sound};
use clapboard_h3::{GenerationSpec, Input, InputRole, ModelProfile, Partition, Task, VideoRequest};

const PLACEMENTS: [Placement; 5] = [
    Placement::Resident,
    Placement::Modules,
    Placement::Layers { resident: ResidentLayers::Auto },
    Placement::Layers { resident: ResidentLayers::Fixed(1) },
    Placement::Layers { resident: ResidentLayers::Fixed(99) },
];

#[derive(Default, PartialEq)]
struct Made {
    samples: Vec<u32>,
    frames: Vec<u8>,
}

impl FrameSink for Made {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => self.samples.extend(samples.iter().map(|sample| sample.to_bits())),
            MediaChunk::Frames(frames) => self.frames.extend(frames),
        }
        Ok(None)
    }
}

fn config(checkpoint: &Path, task: Task, dtype: ComputeDtype, placement: Placement) -> EngineConfig {
    let decode = match dtype {
        ComputeDtype::F32 => DecodePrecision::F32,
        ComputeDtype::Bf16 => DecodePrecision::Bf16,
    };
    EngineConfig { dtype, decode, placement, ..EngineConfig::new(checkpoint, task.partition()) }
}

/// A request of `task` and its media: a first frame, or a picture, a video with sound and a sound.
fn request(profile: &ModelProfile, task: Task, seed: i64) -> (GenerationSpec, Vec<PreparedReference>) {
    let text_alone = VideoRequest {
        prompt: Some("a fox".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(seed),
        ..VideoRequest::default()
    };
    let profile = ModelProfile { partitions: vec![Partition::Fl2va], ..profile.clone() };
    let resolved = text_alone.resolve(&profile, 0).unwrap();
    let pixels = |count: usize| (0..count * 64 * 32 * 3).map(|index| (index * 7 % 251) as u8).collect::<Vec<_>>();
    let picture = || PreparedReference::Image(Picture::new(64, 32, pixels(1)).unwrap());
    let sound = |samples: usize| {
        let plane = |channel: usize| (0..samples).map(|index| ((index + channel) % 97) as f32 / 97.0 - 0.5).collect();
        Sound::new(plane(0), plane(5)).unwrap()
    };
    let video =
        || PreparedReference::Video { clip: Clip::new(64, 32, pixels(48)).unwrap(), soundtrack: Some(sound(32_000)) };
    let roles = match task {
        Task::T2va => vec![],
        Task::Fl2va => vec![(InputRole::FirstFrame, picture())],
        Task::Ref2va => vec![
            (InputRole::Image, picture()),
            (InputRole::Video, video()),
            (InputRole::Audio, PreparedReference::Audio(sound(48_000))),
        ],
    };
    let input = |(role, medium): &(InputRole, PreparedReference)| Input {
        role: *role,
        object: "object".to_owned(),
        shape: medium.shape(),
    };
    let inputs: Vec<Input> = roles.iter().map(input).collect();
    let version = GenerationSpec::version_with(&inputs);
    let spec = GenerationSpec { task, partition: task.partition(), version, inputs, ..resolved };
    (spec, roles.into_iter().map(|(_, medium)| medium).collect())
}

fn generate(engine: &mut Engine, spec: &GenerationSpec, media: &[PreparedReference]) -> Result<Made, GenerateError> {
    let mut made = Made::default();
    let from_noise = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    engine.generate(Request { spec, media }, &Uninterrupted, &Unwatched, &mut made, from_noise, &mut NoTap)?;
    Ok(made)
}

#[test]
fn every_placement_makes_the_same_bits_of_every_task() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    write_tiny(11, Layout::Original, &checkpoint).unwrap();
    for (task, dtype, placements) in [
        (Task::T2va, ComputeDtype::F32, &PLACEMENTS[..]),
        // Every network that a partition has, and the rarer ways.
        (Task::Ref2va, ComputeDtype::Bf16, &PLACEMENTS[..3]),
    ] {
        let mut first: Option<(String, [Made; 2])> = None;
        for &placement in placements {
            let mut engine = Engine::load(&config(&checkpoint, task, dtype, placement)).unwrap();
            let of_seed = |engine: &mut Engine, seed| {
                let (spec, media) = request(&engine.profile().clone(), task, seed);
                generate(engine, &spec, &media).unwrap()
            };
            // The second has its schedule's modulations from the first, and whatever the first has left behind.
            let made = [of_seed(&mut engine, 5), of_seed(&mut engine, 6)];
            assert!(!made[0].frames.is_empty() && made[0] != made[1]);
            let fingerprint = engine.fingerprint().to_owned();
            match &first {
                None => first = Some((fingerprint, made)),
                Some((known, same)) => {
                    assert_eq!(known, &fingerprint, "{placement:?}");
                    assert!(same == &made, "{task} in {dtype:?} differs with {placement:?}");
                }
            }
        }
    }
}

#[test]
fn heads_by_groups_make_the_same_film_but_for_its_last_digits() {
    let folder = tempfile::tempdir().unwrap();
    for layout in [Layout::Original, Layout::Diffusers] {
        let checkpoint = folder.path().join(layout.to_string());
        write_tiny(14, layout, &checkpoint).unwrap();
        let whole = config(&checkpoint, Task::T2va, ComputeDtype::F32, Placement::Resident);
        // Too little for any group of more than one head.
        let memory = MemoryBounds { qkv_bytes: 1, ..whole.memory };
        let one_by_one = EngineConfig { memory, ..whole.clone() };
        let [first, second] = [whole, one_by_one].map(|config| {
            let mut engine = Engine::load(&config).unwrap();
            let (spec, media) = request(&engine.profile().clone(), Task::T2va, 8);
            generate(&mut engine, &spec, &media).unwrap()
        });
        let levels = first.frames.iter().zip(&second.frames).map(|(one, other)| one.abs_diff(*other)).max();
        assert!(levels <= Some(1), "{layout}: {levels:?} levels");
        let samples = first.samples.iter().zip(&second.samples);
        let apart = samples.map(|(one, other)| (f32::from_bits(*one) - f32::from_bits(*other)).abs());
        let apart = apart.fold(0.0, f32::max);
        assert!(apart < 1e-4, "{layout}: samples are {apart} apart");
        assert_eq!((first.frames.len(), first.samples.len()), (second.frames.len(), second.samples.len()));
    }
}

#[test]
fn a_budget_decides_what_stays_and_refuses_what_has_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    write_tiny(15, Layout::Original, &checkpoint).unwrap();
    let auto = Placement::Layers { resident: ResidentLayers::Auto };
    let resident = config(&checkpoint, Task::T2va, ComputeDtype::F32, Placement::Resident);
    let within = |hbm_bytes| EngineConfig {
        placement: auto,
        budgets: MemoryBudgets { hbm_bytes: Some(hbm_bytes), host_bytes: None },
        ..resident.clone()
    };
    let made = |config: &EngineConfig| {
        let mut engine = Engine::load(config).unwrap();
        let (spec, media) = request(&engine.profile().clone(), Task::T2va, 9);
        generate(&mut engine, &spec, &media)
    };
    let all = made(&resident).unwrap();
    assert!(made(&within(4 << 30)).unwrap() == all);
    let refused = made(&within(1 << 20)).err().unwrap();
    let GenerateError::OutOfMemory(reason) = refused else { panic!("{refused:?}") };
    assert!(reason.to_string().contains("the budget is 0.01 GiB"), "{reason}");
    assert!(matches!(within(1 << 20).largest_rows(), Err(LoadError::Budget { .. })));
    assert!(within(64 << 30).largest_rows().unwrap().unwrap() > within(4 << 30).largest_rows().unwrap().unwrap());
    assert_eq!(resident.largest_rows().unwrap(), None);
}

#[test]
fn modulations_that_are_not_kept_are_made_again_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    write_tiny(12, Layout::Diffusers, &checkpoint).unwrap();
    let placement = Placement::Layers { resident: ResidentLayers::Fixed(1) };
    let kept = config(&checkpoint, Task::T2va, ComputeDtype::Bf16, placement);
    let [mut kept, mut forgotten] = [kept.adaln_cache_bytes, 0]
        .map(|bytes| Engine::load(&EngineConfig { adaln_cache_bytes: bytes, ..kept.clone() }).unwrap());
    for seed in [1, 2] {
        let (spec, media) = request(&kept.profile().clone(), Task::T2va, seed);
        assert!(generate(&mut kept, &spec, &media).unwrap() == generate(&mut forgotten, &spec, &media).unwrap());
    }
}

#[test]
fn what_is_missing_is_found_at_the_start_whatever_stays() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    write_tiny(13, Layout::Diffusers, &checkpoint).unwrap();
    for shard in fs::read_dir(checkpoint.join("vae")).unwrap().map(|entry| entry.unwrap().path()) {
        if shard.extension().is_some_and(|extension| extension == "safetensors") {
            fs::remove_file(shard).unwrap();
        }
    }
    for placement in PLACEMENTS {
        let loaded = Engine::load(&config(&checkpoint, Task::T2va, ComputeDtype::F32, placement));
        assert!(matches!(loaded.err(), Some(LoadError::Checkpoint(_))), "{placement:?}");
    }
}
