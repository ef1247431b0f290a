//! What the audio encoder does besides matching the golden tensors: padding, channels, stops, refusals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use clapboard_engine::audio_vae::{AudioEncoder, AudioRows, EncodeError};
use clapboard_engine::checkpoint::{Checkpoint, ComponentId, Layout, tiny};
use clapboard_engine::ops::cpu::Cpu;
use clapboard_engine::{Command, Control, NoTap, Run, RunError, Stop, Uninterrupted, Unwatched};
use clapboard_h3::prepare::Sound;
use tempfile::TempDir;

/// The encoder of a tiny checkpoint.
struct Tiny {
    encoder: AudioEncoder<Cpu>,
    cpu: Cpu,
    _folder: TempDir,
}

impl Tiny {
    fn write(layout: Layout) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoint");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        tiny::write_from_golden(&golden, layout, &root).unwrap();
        let checkpoint = Checkpoint::open(&root).unwrap();
        // Less attention scratch than one encode needs, so that rows go in chunks.
        let cpu = Cpu::new(1 << 7);
        let component = checkpoint.component(ComponentId::AudioVae).unwrap();
        let encoder = AudioEncoder::load(&cpu, &component, checkpoint.audio_vae().clone()).unwrap();
        Self { encoder, cpu, _folder: folder }
    }

    fn encode(&self, sound: &Sound, control: &dyn Control) -> Result<AudioRows, EncodeError> {
        let mut run = Run { control, progress: &Unwatched, tap: &mut NoTap };
        self.encoder.encode(&self.cpu, sound, &mut run)
    }
}

fn wave(samples: usize, pitch: f32) -> Vec<f32> {
    (0..samples).map(|i| (i as f32 * pitch).sin() * 0.5).collect()
}

#[test]
fn a_ragged_end_is_filled_up_with_silence() {
    let tiny = Tiny::write(Layout::Original);
    let (left, right) = (wave(1_700, 0.03), wave(1_700, 0.05));
    let padded = |channel: &[f32]| [channel, &[0.0; 700]].concat();
    let ragged = tiny.encode(&Sound::new(left.clone(), right.clone()).unwrap(), &Uninterrupted).unwrap();
    let whole = tiny.encode(&Sound::new(padded(&left), padded(&right)).unwrap(), &Uninterrupted).unwrap();
    assert_eq!(ragged, whole);
    assert_eq!((ragged.latents, ragged.values.len()), (3, 2 * 3 * 32));
    assert_eq!(tiny.encoder.latents(1), 1);
}

#[test]
fn the_channels_do_not_see_each_other() {
    let tiny = Tiny::write(Layout::Diffusers);
    let (one, other) = (wave(1_600, 0.03), wave(1_600, 0.05));
    let rows = tiny.encode(&Sound::new(one.clone(), other.clone()).unwrap(), &Uninterrupted).unwrap().values;
    let swapped = tiny.encode(&Sound::new(other, one).unwrap(), &Uninterrupted).unwrap().values;
    let (left, right) = rows.split_at(rows.len() / 2);
    assert_ne!(left, right);
    assert_eq!([right, left].concat(), swapped);
}

/// Cancels when it was asked so many times.
struct CancelAfter(AtomicUsize);

impl Control for CancelAfter {
    fn command(&self) -> Command {
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(1))) {
            Ok(0) | Err(_) => Command::Cancel,
            Ok(_) => Command::Run,
        }
    }
}

#[test]
fn it_stops_between_blocks() {
    let tiny = Tiny::write(Layout::Original);
    let sound = Sound::new(wave(800, 0.03), wave(800, 0.05)).unwrap();
    for asked in [0, 1, 4, 10] {
        let result = tiny.encode(&sound, &CancelAfter(AtomicUsize::new(asked)));
        assert!(matches!(result, Err(EncodeError::Run(RunError::Stopped(Stop::Cancelled)))), "{asked}: {result:?}");
    }
    assert!(tiny.encode(&sound, &CancelAfter(AtomicUsize::new(1_000))).is_ok());
}

#[test]
fn samples_that_overflow_are_refused() {
    let tiny = Tiny::write(Layout::Original);
    let sound = Sound::new(vec![f32::MAX; 800], vec![0.0; 800]).unwrap();
    assert!(matches!(tiny.encode(&sound, &Uninterrupted), Err(EncodeError::NotFinite)));
}
