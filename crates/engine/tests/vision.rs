//! What the vision tower does besides matching the golden tensors: batches, BF16, stops, refusals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clapboard_engine::checkpoint::{Checkpoint, ComponentId, Layout, VisionConfig, tiny};
use clapboard_engine::ops::cpu::{Cpu, HostBuffer};
use clapboard_engine::ops::{DType, OpError, Ops};
use clapboard_engine::parallel::Alone;
use clapboard_engine::text::{PresentError, Presented, Presenter, TextEncoder, TokenKind};
use clapboard_engine::vision::{VisionEmbeds, VisionError, VisionFeatures, VisionTower};
use clapboard_engine::{
    Command, Control, Loading, NoTap, Placement, Progress, ProgressEvent, Run, RunError, Stop, Uninterrupted, Unwatched,
};
use clapboard_h3::prepare::{Clip, Picture, PreparedReference, Sound};
use tempfile::TempDir;

/// Blocks of the tiny tower.
const DEPTH: usize = 4;

/// The tiny checkpoint, whose weights are those of the golden files.
struct Tiny {
    _folder: TempDir,
    checkpoint: Checkpoint,
    cpu: Cpu,
}

fn resident() -> Loading<'static> {
    Loading::unwatched(Placement::Resident)
}

impl Tiny {
    fn write() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoint");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        tiny::write_from_golden(&golden, Layout::Original, &root).unwrap();
        Self { checkpoint: Checkpoint::open(&root).unwrap(), _folder: folder, cpu: Cpu::new(1 << 20) }
    }

    fn tower(&self, dtype: DType, activation_bytes: usize) -> VisionTower<Cpu> {
        let component = Arc::new(self.checkpoint.component(ComponentId::TextEncoder).unwrap());
        let config = self.checkpoint.text_encoder().vision.clone();
        VisionTower::load(&self.cpu, &component, config, dtype, activation_bytes, resident()).unwrap()
    }

    fn encoder(&self, dtype: DType) -> TextEncoder<Cpu> {
        let component = Arc::new(self.checkpoint.component(ComponentId::TextEncoder).unwrap());
        let config = self.checkpoint.text_encoder().text.clone();
        TextEncoder::load(&self.cpu, &component, config, dtype, 1 << 20, resident(), Box::new(Alone)).unwrap()
    }

    fn present(&self, references: &[PreparedReference]) -> Result<Presented, PresentError> {
        Presenter::load(&self.checkpoint).unwrap().present("a fox", references)
    }

    fn see(&self, tower: &VisionTower<Cpu>, presented: &Presented) -> VisionEmbeds<HostBuffer> {
        let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut NoTap };
        tower.encode(&self.cpu, &presented.vision, &mut run).unwrap()
    }

    fn encode(
        &self,
        encoder: &TextEncoder<Cpu>,
        presented: &Presented,
        vision: &VisionEmbeds<HostBuffer>,
    ) -> Result<Vec<f32>, RunError> {
        let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut NoTap };
        let embeds = encoder.encode(&self.cpu, &presented.presentation, vision, &mut run)?;
        Ok(self.cpu.read(embeds.view()).unwrap())
    }

    /// Pooled tokens, then deepstack rows, one after the other.
    fn values(&self, features: &VisionFeatures<HostBuffer>) -> Vec<f32> {
        let read = |tensor| self.cpu.read(tensor).unwrap();
        let deepstack = features.deepstack.iter().flat_map(|feature| read(feature.view()));
        read(features.pooled.view()).into_iter().chain(deepstack).collect()
    }
}

/// A pattern that differs everywhere.
fn bytes(count: usize, key: usize) -> Vec<u8> {
    (0..count).map(|i| ((i * 31 + key * 97) % 251) as u8).collect()
}

fn picture(width: u32, height: u32, key: usize) -> PreparedReference {
    PreparedReference::Image(Picture::new(width, height, bytes((width * height * 3) as usize, key)).unwrap())
}

fn video(frames: usize, soundtrack: bool) -> PreparedReference {
    let clip = Clip::new(64, 64, bytes(64 * 64 * 3 * frames, frames)).unwrap();
    PreparedReference::Video { clip, soundtrack: soundtrack.then(sound) }
}

fn sound() -> Sound {
    Sound::new(vec![0.0], vec![0.0]).unwrap()
}

/// `‖actual − expected‖ / ‖expected‖`.
fn relative_rms(actual: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut actual.iter().zip(expected).map(|(a, e)| f64::from(*a) - f64::from(*e)));
    (difference / square(&mut expected.iter().map(|e| f64::from(*e)))).sqrt()
}

#[test]
fn one_frame_at_a_time_gives_what_all_together_give() {
    let tiny = Tiny::write();
    let references = [picture(64, 64, 1), video(40, false), picture(96, 64, 2), video(13, true)];
    let presented = tiny.present(&references).unwrap();
    let (together, apart) = (tiny.tower(DType::F32, usize::MAX), tiny.tower(DType::F32, 1));
    let (together, apart) = (tiny.see(&together, &presented), tiny.see(&apart, &presented));
    for (together, apart, rows) in [
        (together.images.unwrap(), apart.images.unwrap(), 4 + 6),
        // Four and two sampled frames make two blocks and one.
        (together.videos.unwrap(), apart.videos.unwrap(), 3 * 4),
    ] {
        assert_eq!(together.pooled.shape(), [rows, 40]);
        assert_eq!(together.deepstack.len(), 3);
        let error = relative_rms(&tiny.values(&apart), &tiny.values(&together));
        assert!(error <= 1e-6, "off by {error:e}");
    }
}

#[test]
fn pictures_never_see_each_other() {
    let tiny = Tiny::write();
    let tower = tiny.tower(DType::F32, usize::MAX);
    let first_token = |key| {
        let presented = tiny.present(&[picture(64, 64, 1), picture(64, 64, key)]).unwrap();
        let images = tiny.see(&tower, &presented).images.unwrap();
        tiny.cpu.read(images.pooled.rows(0..4)).unwrap()
    };
    assert!(relative_rms(&first_token(2), &first_token(3)) <= 1e-6);
}

#[test]
fn pixels_and_their_order_matter_to_the_prompts_embeddings() {
    let tiny = Tiny::write();
    let (tower, encoder) = (tiny.tower(DType::F32, usize::MAX), tiny.encoder(DType::F32));
    let embeds = |keys: [usize; 2]| {
        let presented = tiny.present(&keys.map(|key| picture(64, 64, key))).unwrap();
        tiny.encode(&encoder, &presented, &tiny.see(&tower, &presented)).unwrap()
    };
    let expected = embeds([1, 2]);
    for other in [[1, 3], [2, 1]] {
        let error = relative_rms(&embeds(other), &expected);
        assert!(error > 1e-3, "{other:?} differs by {error:e} only");
    }
}

#[test]
fn bf16_stays_close_to_f32() {
    let tiny = Tiny::write();
    let presented = tiny.present(&[picture(64, 64, 1), video(36, true)]).unwrap();
    let embeds = |dtype| {
        let vision = tiny.see(&tiny.tower(dtype, usize::MAX), &presented);
        tiny.encode(&tiny.encoder(dtype), &presented, &vision).unwrap()
    };
    let error = relative_rms(&embeds(DType::Bf16), &embeds(DType::F32));
    assert!(error <= 4e-2, "off by {error:e}");
}

/// Cancels at its `last`-th look.
struct CancelAfter {
    looks: AtomicUsize,
    last: usize,
}

impl Control for CancelAfter {
    fn command(&self) -> Command {
        if self.looks.fetch_add(1, Ordering::Relaxed) < self.last { Command::Run } else { Command::Cancel }
    }
}

/// Keeps the parts that were reported.
#[derive(Default)]
struct Parts(Mutex<Vec<(usize, usize)>>);

impl Progress for Parts {
    fn report(&self, event: ProgressEvent) {
        if let ProgressEvent::Part { done, total } = event {
            self.0.lock().unwrap().push((done, total));
        }
    }
}

#[test]
fn a_cancelled_tower_stops_before_its_next_block() {
    let tiny = Tiny::write();
    let presented = tiny.present(&[picture(64, 64, 1)]).unwrap();
    // One look for the batch, one for each block.
    let (control, parts) = (CancelAfter { looks: AtomicUsize::new(0), last: 3 }, Parts::default());
    let mut run = Run { control: &control, progress: &parts, tap: &mut NoTap };
    let stopped = tiny.tower(DType::F32, 1).encode(&tiny.cpu, &presented.vision, &mut run).map(|_| ()).unwrap_err();
    assert!(matches!(stopped, RunError::Stopped(Stop::Cancelled)), "{stopped}");
    assert_eq!(*parts.0.lock().unwrap(), [(1, DEPTH), (2, DEPTH)]);
}

#[test]
fn every_block_of_every_batch_is_reported() {
    let tiny = Tiny::write();
    let presented = tiny.present(&[picture(64, 64, 1), video(36, false)]).unwrap();
    let parts = Parts::default();
    let mut run = Run { control: &Uninterrupted, progress: &parts, tap: &mut NoTap };
    tiny.tower(DType::F32, 1).encode(&tiny.cpu, &presented.vision, &mut run).unwrap();
    // One picture and two frames of the video's patches.
    let expected: Vec<_> = (1..=3 * DEPTH).map(|done| (done, 3 * DEPTH)).collect();
    assert_eq!(*parts.0.lock().unwrap(), expected);
}

#[test]
fn tokens_that_no_row_waits_for_are_refused_and_so_are_rows_without_tokens() {
    let tiny = Tiny::write();
    let (tower, encoder) = (tiny.tower(DType::F32, usize::MAX), tiny.encoder(DType::F32));
    let one = tiny.present(&[picture(64, 64, 1)]).unwrap();
    let two = tiny.present(&[picture(64, 64, 1), picture(64, 64, 2)]).unwrap();
    assert_eq!(two.presentation.rows_of(TokenKind::Image).len(), 8);
    for (presented, vision) in [(&two, tiny.see(&tower, &one)), (&one, VisionEmbeds::none())] {
        let refused = tiny.encode(&encoder, presented, &vision).unwrap_err();
        assert!(matches!(refused, RunError::Op(OpError::Shape { op: "text_encoder", name: "image", .. })), "{refused}");
    }
}

#[test]
fn a_video_too_short_to_be_seen_is_refused() {
    let tiny = Tiny::write();
    let short = tiny.present(&[video(12, false)]).unwrap_err();
    assert!(matches!(short, PresentError::Vision(VisionError::TooFewFrames { frames: 12, needed: 13 })), "{short}");
    assert!(tiny.present(&[]).unwrap().vision.is_empty());
}

#[test]
fn weights_that_contradict_the_config_are_named() {
    let tiny = Tiny::write();
    let component = Arc::new(tiny.checkpoint.component(ComponentId::TextEncoder).unwrap());
    let load = |change: &dyn Fn(&mut VisionConfig)| {
        let mut config = tiny.checkpoint.text_encoder().vision.clone();
        change(&mut config);
        VisionTower::load(&tiny.cpu, &component, config, DType::F32, 1, resident()).map(|_| ()).unwrap_err().to_string()
    };
    let patch = load(&|config| config.patch_size = 14);
    assert!(patch.contains("model.visual.patch_embed.proj.weight"), "{patch}");
    let depth = load(&|config| config.depth = 5);
    assert!(depth.contains("model.visual.blocks.4."), "{depth}");
    let stack = load(&|config| config.deepstack_visual_indexes.push(3));
    assert!(stack.contains("model.visual.deepstack_merger_list.3."), "{stack}");
}
