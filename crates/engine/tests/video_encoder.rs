//! What the video encoder does besides matching the golden tensors of its file: conditions, seams, stops, refusals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clapboard_engine::checkpoint::{Checkpoint, ComponentId, Layout, RawTensor, map_file, tiny};
use clapboard_engine::ops::cpu::Cpu;
use clapboard_engine::video_vae::{
    EncodeError, FrameValues, Moments, TileGeometry, VideoEncoder, VideoFrames, posterior_noise,
};
use clapboard_engine::{Command, Control, NoTap, Progress, ProgressEvent, Run, RunError, Stop};
use clapboard_engine::{LoadError, Uninterrupted, Unwatched};
use tempfile::TempDir;

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// A tiny checkpoint, whose weights are those of the golden files.
struct Tiny {
    checkpoint: Checkpoint,
    cpu: Cpu,
    _folder: TempDir,
}

impl Tiny {
    fn write(layout: Layout) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoint");
        tiny::write_from_golden(&golden_folder(), layout, &root).unwrap();
        Self { checkpoint: Checkpoint::open(&root).unwrap(), cpu: Cpu::new(1 << 20), _folder: folder }
    }

    fn encoder(&self, tiles: TileGeometry) -> Result<VideoEncoder<Cpu>, LoadError> {
        let component = self.checkpoint.component(ComponentId::VideoVae)?;
        VideoEncoder::load(&self.cpu, &component, self.checkpoint.video_vae().clone(), tiles)
    }

    fn moments(&self, encoder: &VideoEncoder<Cpu>, frames: VideoFrames<'_>) -> Result<Moments, EncodeError> {
        let mut tap = NoTap;
        let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };
        encoder.moments(&self.cpu, frames, &mut run)
    }
}

/// The tensors of one golden file.
struct Golden(Vec<RawTensor>);

impl Golden {
    fn open(file: &str) -> Self {
        Self(map_file(&golden_folder().join(format!("{file}.safetensors"))).unwrap())
    }

    fn find(&self, name: &str) -> Option<&RawTensor> {
        self.0.iter().find(|tensor| tensor.name() == name)
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let mut values = Vec::new();
        self.find(name).unwrap_or_else(|| panic!("no golden tensor {name}")).append_f32(&mut values).unwrap();
        values
    }

    /// Frames `[frames, height, width, 3]` or a picture `[height, width, 3]`, the first `most` of them.
    fn frames(&self, name: &str, most: usize) -> VideoFrames<'_> {
        let tensor = self.find(name).unwrap_or_else(|| panic!("no golden tensor {name}"));
        let (frames, height, width) = match tensor.shape() {
            &[height, width, 3] => (1, height, width),
            &[frames, height, width, 3] => (frames.min(most), height, width),
            shape => panic!("{name} has shape {shape:?}"),
        };
        let values = FrameValues::Rgb8(&tensor.bytes()[..3 * frames * height * width]);
        VideoFrames { values, frames, height, width }
    }
}

/// Relative RMS of the difference.
fn error(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v) * f64::from(v)).sum::<f64>();
    let difference = square(&mut got.iter().zip(expected).map(|(got, expected)| got - expected));
    (difference / square(&mut expected.iter().copied())).sqrt()
}

#[test]
fn conditions_are_those_of_the_golden_requests() {
    let tiny = Tiny::write(Layout::Diffusers);
    let encoder = tiny.encoder(TileGeometry::RELEASED).unwrap();
    // Requests with their conditions in order: the tensor, and how many of its frames are encoded.
    let cases: [(&str, &[(&str, usize)]); 4] = [
        ("fl2va_first_last", &[("keyframe_0_u8", 1), ("keyframe_1_u8", 1)]),
        ("fl2va_first_last_release", &[("keyframe_0_u8", 1), ("keyframe_1_u8", 1)]),
        ("ref2va_video_sound", &[("ref_0_video_u8", 22), ("ref_1_image_u8", 1)]),
        ("ref2va_mixed_release", &[("ref_0_image_u8", 1), ("media.1.video_u8", 22)]),
    ];
    for (case, conditions) in cases {
        let golden = Golden::open(case);
        for (index, (name, most)) in conditions.iter().enumerate() {
            let moments = tiny.moments(&encoder, golden.frames(name, *most)).unwrap();
            let expected = |kind: &str| golden.floats(&format!("vae_encode_{index}_{kind}"));
            let worst = error(moments.mean(), &expected("mean")).max(error(moments.logvar(), &expected("logvar")));
            assert!(worst < 1e-5, "{case} {name}: moments {worst:.2e}");
            let noise = golden.floats(&format!("condition_{index}_posterior_noise"));
            let drawn = posterior_noise(moments.shape());
            assert_eq!(drawn.len(), noise.len());
            let worst = drawn.iter().zip(&noise).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 5e-7, "{case} {name}: noise {worst:.2e}");
            let latents = moments.condition(encoder.config()).unwrap();
            let expected = golden.floats(&format!("condition_{index}_latent_normalized"));
            let worst = error(&latents.values, &expected);
            // A latent may round to the neighbouring F16: a few of them weigh less than this.
            assert!(worst < 3e-4, "{case} {name}: latents {worst:.2e}");
        }
    }
}

/// Bytes without a period that a clip or a tile could share.
fn pattern(frames: usize, height: usize, width: usize) -> Vec<u8> {
    (0..3 * frames * height * width).map(|i| ((i * i / 7 + i * 13) % 251) as u8).collect()
}

#[test]
fn lengths_give_the_latents_of_the_lattice_and_repeat_their_last_frame() {
    let tiny = Tiny::write(Layout::Original);
    let encoder = tiny.encoder(TileGeometry::RELEASED).unwrap();
    let bytes = pattern(39, 32, 32);
    let encode = |count: usize, bytes: &[u8]| {
        let frames = VideoFrames { values: FrameValues::Rgb8(bytes), frames: count, height: 32, width: 32 };
        tiny.moments(&encoder, frames).unwrap()
    };
    let size = 3 * 32 * 32;
    let whole = encode(39, &bytes);
    for (count, latents) in [(1, 1), (5, 2), (17, 2), (18, 7), (22, 7), (39, 12)] {
        let moments = encode(count, &bytes[..count * size]);
        assert_eq!(moments.shape().frames, latents);
        assert_eq!(encoder.latent_frames(count), latents);
        // The first latent sees the first frame alone.
        let first = |moments: &Moments| -> Vec<f32> {
            moments.mean().chunks_exact(4 * moments.shape().frames).flat_map(|channel| channel[..4].to_vec()).collect()
        };
        assert!(error(&first(&moments), &first(&whole)) < 1e-6, "{count}");
        let mut repeated = bytes[..count * size].to_vec();
        while count > 1 && !(repeated.len() / size).is_multiple_of(17) {
            repeated.extend_from_within((count - 1) * size..count * size);
        }
        let filled = encode(repeated.len() / size, &repeated);
        assert!(error(moments.mean(), filled.mean()) < 1e-6, "{count}");
    }
}

#[test]
fn tiles_leave_no_trace_outside_their_seams() {
    let tiny = Tiny::write(Layout::Original);
    let bytes = pattern(1, 64, 112);
    let picture = |columns: std::ops::Range<usize>| -> Vec<u8> {
        bytes.chunks_exact(3 * 112).flat_map(|row| row[3 * columns.start..3 * columns.end].to_vec()).collect()
    };
    let tiled = tiny.encoder(TileGeometry { size: 64, min_overlap: 16 }).unwrap();
    let frames = VideoFrames { values: FrameValues::Rgb8(&bytes), frames: 1, height: 64, width: 112 };
    let whole = tiny.moments(&tiled, frames).unwrap();
    let [left, right] = [0..64, 48..112].map(|columns| {
        let bytes = picture(columns);
        let frames = VideoFrames { values: FrameValues::Rgb8(&bytes), frames: 1, height: 64, width: 64 };
        tiny.moments(&tiled, frames).unwrap()
    });
    // Rows of 7 latents: three of the left tile, one shared of which the old tile has all, three of the right one.
    for (row, (left, right)) in
        whole.mean().chunks_exact(7).zip(left.mean().chunks_exact(4).zip(right.mean().chunks_exact(4)))
    {
        assert_eq!(row, [left, &right[1..]].concat());
    }
}

/// Stops at the `looks`-th look, and keeps the parts that were reported.
struct Watched {
    looks: AtomicUsize,
    parts: Mutex<Vec<(usize, usize)>>,
}

impl Control for Watched {
    fn command(&self) -> Command {
        match self.looks.fetch_sub(1, Ordering::Relaxed) {
            0 | 1 => Command::CheckpointAndStop,
            _ => Command::Run,
        }
    }
}

impl Progress for Watched {
    fn report(&self, event: ProgressEvent) {
        let ProgressEvent::Part { done, total } = event else { panic!("{event:?}") };
        self.parts.lock().unwrap().push((done, total));
    }
}

#[test]
fn an_encode_reports_every_step_of_its_tiles_and_stops_between_them() {
    let tiny = Tiny::write(Layout::Original);
    let encoder = tiny.encoder(TileGeometry { size: 32, min_overlap: 16 }).unwrap();
    // Two clips, and three tiles side by side.
    let bytes = pattern(18, 32, 64);
    let frames = VideoFrames { values: FrameValues::Rgb8(&bytes), frames: 18, height: 32, width: 64 };
    let total = encoder.parts(18, 32, 64);
    assert_eq!(total, 2 * 3 * 12);
    for (looks, reported) in [(1, 0), (21, 20), (usize::MAX, total)] {
        let watched = Watched { looks: looks.into(), parts: Mutex::default() };
        let mut tap = NoTap;
        let mut run = Run { control: &watched, progress: &watched, tap: &mut tap };
        let result = encoder.encode(&tiny.cpu, frames, &mut run);
        let stopped = matches!(result, Err(EncodeError::Run(RunError::Stopped(Stop::Checkpointed))));
        assert_eq!(stopped, reported < total);
        let parts: Vec<_> = (1..=reported).map(|done| (done, total)).collect();
        assert_eq!(watched.parts.into_inner().unwrap(), parts);
    }
}

#[test]
fn frames_that_do_not_fit_are_named() {
    let tiny = Tiny::write(Layout::Diffusers);
    let encoder = tiny.encoder(TileGeometry::RELEASED).unwrap();
    let bytes = pattern(1, 64, 64);
    let refused = |values: FrameValues<'_>, frames: usize, height: usize, width: usize| {
        tiny.moments(&encoder, VideoFrames { values, frames, height, width }).unwrap_err().to_string()
    };
    let rgb = |len: usize| FrameValues::Rgb8(&bytes[..len]);
    assert_eq!(
        refused(rgb(100), 1, 32, 32),
        "video frames: 100 values do not fill one or more frames, 1 of 32 x 32 x 3"
    );
    assert_eq!(refused(rgb(0), 0, 32, 32), "video frames: 0 values do not fill one or more frames, 0 of 32 x 32 x 3");
    assert_eq!(
        refused(rgb(3 * 40 * 32), 1, 40, 32),
        "video frames: 40 x 32 pixels are not multiples of 16 of at least 32 each"
    );
    assert_eq!(
        refused(rgb(3 * 16 * 64), 1, 64, 16),
        "video frames: 64 x 16 pixels are not multiples of 16 of at least 32 each"
    );
    let mut pixels = vec![0.0; 3 * 32 * 32];
    pixels[77] = f32::NAN;
    assert_eq!(
        refused(FrameValues::Normalised(&pixels), 1, 32, 32),
        "the encoder gave values that are not finite or too large for F16"
    );

    let small = tiny.encoder(TileGeometry { size: 16, min_overlap: 0 }).err().unwrap();
    assert!(small.to_string().starts_with("tiles of 16 pixels with an overlap of 0"), "{small}");
}
