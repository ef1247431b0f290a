//! What the decoders do besides matching the golden tensors: chunks, stops, refusals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clapboard_engine::LoadError;
use clapboard_engine::audio_vae::AudioDecoder;
use clapboard_engine::checkpoint::{Checkpoint, ComponentId, Layout, RawTensor, map_file, tiny};
use clapboard_engine::ops::cpu::Cpu;
use clapboard_engine::video_vae::{
    DecodeError, DecodePrecision, PIXEL_MEAN, PIXEL_STD, TileGeometry, VideoDecoder, VideoLatents,
};
use clapboard_engine::{Command, Control, NoTap, Progress, ProgressEvent, Run, RunError, Stop};
use clapboard_engine::{Uninterrupted, Unwatched};
use tempfile::TempDir;

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The tensors of one golden file.
struct Golden(Vec<RawTensor>);

impl Golden {
    fn open(file: &str) -> Self {
        Self(map_file(&golden_folder().join(format!("{file}.safetensors"))).unwrap())
    }

    fn tensor(&self, name: &str) -> &RawTensor {
        self.0.iter().find(|tensor| tensor.name() == name).unwrap_or_else(|| panic!("no golden tensor {name}"))
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let mut values = Vec::new();
        self.tensor(name).append_f32(&mut values).unwrap();
        values
    }

    /// A latent film `[1, 24, t, h, w]`.
    fn latents<'a>(&self, name: &str, values: &'a [f32]) -> VideoLatents<'a> {
        let &[1, 24, frames, height, width] = self.tensor(name).shape() else { panic!("{name}") };
        VideoLatents { values, frames, height, width }
    }
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
        // Less attention scratch than one decode needs, so that rows go in chunks.
        Self { checkpoint: Checkpoint::open(&root).unwrap(), cpu: Cpu::new(1 << 10), _folder: folder }
    }

    fn video(&self, precision: DecodePrecision, tiles: TileGeometry) -> Result<VideoDecoder<Cpu>, LoadError> {
        let component = self.checkpoint.component(ComponentId::VideoVae)?;
        VideoDecoder::load(&self.cpu, &component, self.checkpoint.video_vae().clone(), precision, tiles)
    }

    fn audio(&self) -> Result<AudioDecoder<Cpu>, LoadError> {
        let component = self.checkpoint.component(ComponentId::AudioVae)?;
        AudioDecoder::load(&self.cpu, &component, self.checkpoint.audio_vae().clone())
    }
}

/// Returns the pixels of a film, `[3, frames, height, width]`.
fn decode(tiny: &Tiny, decoder: &VideoDecoder<Cpu>, latents: VideoLatents<'_>) -> Vec<f32> {
    let mut tap = NoTap;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };
    let mut planes = [Vec::new(), Vec::new(), Vec::new()];
    let mut frames = 0;
    decoder
        .decode_pixels(&tiny.cpu, latents, &mut run, &mut |chunk, count| {
            frames += count;
            for (plane, part) in planes.iter_mut().zip(chunk.chunks_exact(chunk.len() / 3)) {
                plane.extend_from_slice(part);
            }
            Ok::<_, Infallible>(())
        })
        .unwrap();
    assert_eq!(decoder.frames(latents.frames), Some(frames));
    planes.concat()
}

/// Compares by relative RMS and by the largest difference.
fn assert_close(what: &str, got: &[f32], expected: &[f32], relative: f64, absolute: f32) {
    assert_eq!(got.len(), expected.len(), "{what}: lengths");
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v) * f64::from(v)).sum::<f64>();
    let difference = square(&mut got.iter().zip(expected).map(|(got, expected)| got - expected));
    let error = (difference / square(&mut expected.iter().copied()).max(f64::MIN_POSITIVE)).sqrt();
    let worst = got.iter().zip(expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f32::max);
    assert!(error <= relative && worst <= absolute, "{what}: relative RMS {error:.2e}, worst {worst:.2e}");
}

#[test]
fn bytes_are_those_of_the_golden_request_and_leave_in_chunks() {
    let golden = Golden::open("t2va");
    let tiny = Tiny::write(Layout::Original);
    let decoder = tiny.video(DecodePrecision::F32, TileGeometry::RELEASED).unwrap();
    let z = golden.floats("final_video_latent_normalized");
    let latents = golden.latents("final_video_latent_normalized", &z);
    let mut chunks = Vec::new();
    let mut tap = NoTap;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };
    let emitted = decoder.decode(&tiny.cpu, latents, &mut run, &mut |chunk| {
        chunks.push(chunk);
        Ok::<_, Infallible>(())
    });
    emitted.unwrap();
    let frame = latents.height * latents.width * 256 * 3;
    assert_eq!(chunks.iter().map(|chunk| chunk.len() / frame).collect::<Vec<_>>(), [17, 5]);
    let bytes = chunks.concat();
    let expected = golden.tensor("frames_u8").bytes();
    assert_eq!(bytes.len(), expected.len());
    let differing = bytes.iter().zip(expected).filter(|(got, expected)| got != expected).count();
    let worst = bytes.iter().zip(expected).map(|(got, expected)| got.abs_diff(*expected)).max();
    assert!(
        worst <= Some(1) && differing * 200 <= bytes.len(),
        "{differing} of {} differ, by up to {worst:?}",
        bytes.len()
    );

    // The bytes are the pixels of the other door, quantised.
    let denormalised: Vec<f32> = z
        .chunks_exact(z.len() / 24)
        .zip(decoder.config().latents_mean.iter().zip(&decoder.config().latents_std))
        .flat_map(|(values, (mean, std))| values.iter().map(move |value| value * std + mean))
        .collect();
    let pixels = decode(&tiny, &decoder, VideoLatents { values: &denormalised, ..latents });
    let plane = pixels.len() / 3;
    let quantised = (0..plane * 3).map(|index| {
        let (pixel, channel) = (index / 3, index % 3);
        let value = pixels[channel * plane + pixel] * PIXEL_STD[channel] + PIXEL_MEAN[channel];
        (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8
    });
    assert!(quantised.eq(bytes));
}

/// Stops at the `looks`-th look, and keeps the parts that were reported.
struct Watched {
    looks: AtomicUsize,
    parts: AtomicUsize,
}

impl Control for Watched {
    fn command(&self) -> Command {
        match self.looks.fetch_sub(1, Ordering::Relaxed) {
            0 | 1 => Command::Cancel,
            _ => Command::Run,
        }
    }
}

impl Progress for Watched {
    fn report(&self, event: ProgressEvent) {
        let ProgressEvent::Part { done, total } = event else { panic!("{event:?}") };
        assert_eq!((done, total), (self.parts.fetch_add(1, Ordering::Relaxed) + 1, 12));
    }
}

#[test]
fn a_decode_reports_its_tiles_and_stops_between_them() {
    let tiny = Tiny::write(Layout::Original);
    let decoder = tiny.video(DecodePrecision::F32, TileGeometry { size: 32, min_overlap: 16 }).unwrap();
    // 12 latent frames make 2 clips; 32 x 64 pixels make 1 x 3 tiles, twice over.
    let values = vec![0.1; 24 * 12 * 3 * 4];
    let latents = VideoLatents { values: &values, frames: 12, height: 3, width: 4 };
    for (looks, parts, stopped) in [(7, 2, true), (usize::MAX, 12, false)] {
        let watched = Watched { looks: looks.into(), parts: 0.into() };
        let mut tap = NoTap;
        let mut run = Run { control: &watched, progress: &watched, tap: &mut tap };
        let result = decoder.decode(&tiny.cpu, latents, &mut run, &mut |_| Ok::<_, Infallible>(()));
        let cancelled = matches!(result, Err(DecodeError::Run(RunError::Stopped(Stop::Cancelled))));
        assert_eq!((cancelled, watched.parts.into_inner()), (stopped, parts));
    }
}

#[test]
fn wrong_latents_and_receivers_that_give_up_are_told_apart() {
    let tiny = Tiny::write(Layout::Diffusers);
    let decoder = tiny.video(DecodePrecision::F32, TileGeometry::RELEASED).unwrap();
    let values = vec![0.0; 24 * 7];
    let mut tap = NoTap;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };
    let mut decode = |frames: usize, values: &[f32]| {
        let latents = VideoLatents { values, frames, height: 1, width: 1 };
        decoder.decode(&tiny.cpu, latents, &mut run, &mut |_| Err("full")).unwrap_err().to_string()
    };
    assert_eq!(decode(2, &values[..48]), "video latents: 2 latent frames do not make a clip, at least 3 are needed");
    assert_eq!(decode(7, &values[..24]), "video latents: 24 values do not fill 24 channels of 7 x 1 x 1");
    assert_eq!(decode(7, &values), "decoded frames were not taken");

    let off_grid = tiny.video(DecodePrecision::F32, TileGeometry { size: 40, min_overlap: 16 }).err().unwrap();
    assert!(off_grid.to_string().starts_with("tiles of 40 pixels with an overlap of 16"), "{off_grid}");
    let audio = tiny.audio().unwrap();
    let error = audio.decode(&tiny.cpu, &values[..33], &mut run).unwrap_err();
    assert_eq!(error.to_string(), "audio latents: 33 values are not 2 x 32 channels of one or more latents each");
}

#[test]
fn frames_do_not_depend_on_the_attention_scratch() {
    let tiny = Tiny::write(Layout::Original);
    let decoder = tiny.video(DecodePrecision::F32, TileGeometry::RELEASED).unwrap();
    let golden = Golden::open("vae");
    let z = golden.floats("dec12.z");
    let latents = golden.latents("dec12.z", &z);
    let small = decode(&tiny, &decoder, latents);
    let roomy = Tiny { cpu: Cpu::new(1 << 30), ..tiny };
    assert_close("scratch", &decode(&roomy, &decoder, latents), &small, 1e-6, 1e-5);
}
