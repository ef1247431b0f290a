//! The encoders and decoders alone.

use super::audio;
use super::compare::{Tolerance, equal};
use super::golden::{Error, GoldenFile};
use super::report::{Place, Report};
use super::tapped::GoldenTap;
use super::tolerance::{BLOCK, F16_AGAINST_F32, F16_BLOCK, F16_LEVELS, F16_PIXELS, PIXELS, PIXELS_WORST};
use super::video_encoder;
use crate::audio_vae::AudioDecoder;
use crate::checkpoint::{Checkpoint, ComponentId};
use crate::control::Uninterrupted;
use crate::ops::Ops;
use crate::progress::Unwatched;
use crate::run::Run;
use crate::tap::{NoTap, Tap};
use crate::video_vae::{DecodePrecision, PIXEL_MEAN, PIXEL_STD, TileGeometry, VideoDecoder, VideoLatents};

/// Tiles of the golden `tiled.*`, pixels.
const GOLDEN_TILES: TileGeometry = TileGeometry { size: 64, min_overlap: 32 };

/// Decoded pixels, `[channels, frames, height · width]` as a list of chunks of frames.
pub(super) struct Pixels {
    chunks: Vec<(Vec<f32>, usize)>,
    channels: usize,
    pub(super) frames: usize,
}

impl Pixels {
    /// Returns the pixels of some frames, `[channels, picked, height · width]`.
    pub(super) fn pick(&self, frames: &[usize]) -> Vec<f32> {
        let mut picked = Vec::new();
        for channel in 0..self.channels {
            for frame in frames {
                let mut before = 0;
                for (values, count) in &self.chunks {
                    if *frame < before + count {
                        let plane = values.len() / (self.channels * count);
                        let start = (channel * count + frame - before) * plane;
                        picked.extend_from_slice(&values[start..start + plane]);
                        break;
                    }
                    before += count;
                }
            }
        }
        picked
    }

    fn all(&self) -> Vec<f32> {
        self.pick(&(0..self.frames).collect::<Vec<_>>())
    }
}

/// Decodes denormalised latents `[1, channels, t, h, w]` to pixels.
#[expect(clippy::too_many_arguments, reason = "each says something else of one decode")]
pub(super) fn decode_pixels<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    precision: DecodePrecision,
    tiles: Option<TileGeometry>,
    shape: &[usize],
    latents: &[f32],
    case: &str,
    tap: Option<&mut dyn Tap>,
) -> Result<Pixels, Error>
where
    O::Buffer: 'static,
{
    let config = checkpoint.video_vae().clone();
    let channels = config.out_channels;
    let tiles = tiles.unwrap_or(TileGeometry { size: config.tile_size, min_overlap: config.tile_overlap_min });
    let component = checkpoint.component(ComponentId::VideoVae)?;
    let decoder = VideoDecoder::load(ops, &component, config, precision, tiles)?;
    let &[_, _, frames, height, width] = shape else {
        return Err(run_error(case, format!("latents of shape {shape:?} are not [1, channels, t, h, w]")));
    };
    let mut chunks = Vec::new();
    let mut no_tap = NoTap;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: tap.unwrap_or(&mut no_tap) };
    let latents = VideoLatents { values: latents, frames, height, width };
    decoder
        .decode_pixels(ops, latents, &mut run, &mut |values, count| {
            chunks.push((values, count));
            Ok::<(), std::convert::Infallible>(())
        })
        .map_err(|error| run_error(case, error))?;
    let frames = chunks.iter().map(|(_, count)| count).sum();
    Ok(Pixels { chunks, channels, frames })
}

fn run_error(case: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Run { case: case.to_owned(), source: source.into() }
}

/// `vae.safetensors`: clips of several lengths, tiles.
pub(super) fn video<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let prefixes: Vec<String> = golden
        .names()
        .filter_map(|name| name.strip_suffix(".z"))
        .filter(|prefix| prefix.starts_with("dec"))
        .map(str::to_owned)
        .collect();
    for prefix in prefixes {
        let (shape, latents) = golden.floats(&format!("{prefix}.z"))?;
        let rename = |name: &str| {
            let plain = name.replacen("vae.", &format!("{prefix}."), 1);
            let first_clip = format!("{plain}_first_clip");
            if golden.names().any(|name| name == first_clip) { first_clip } else { plain }
        };
        let mut tap = GoldenTap::new(golden, &rename, &|_| BLOCK);
        let precision = DecodePrecision::F32;
        let pixels = decode_pixels(ops, checkpoint, precision, None, shape, latents, &place.case, Some(&mut tap))?;
        for (stage, tolerance, comparison) in tap.seen {
            report.compared(place, &stage, tolerance, comparison);
        }
        let stage = format!("{prefix}.frames");
        let (ours, (_, expected)) = (pixels.all(), golden.floats(&stage)?);
        report.compared(place, &stage, PIXELS, PIXELS.floats(&ours, expected));
        report.compared(place, &format!("{stage}, worst"), PIXELS_WORST, PIXELS_WORST.floats(&ours, expected));
    }
    tiled(ops, checkpoint, golden, place, report)?;
    video_encoder::verify(ops, checkpoint, golden, GOLDEN_TILES, place, report)?;
    finish(golden, place, report);
    Ok(())
}

/// Frames of a picture in several uneven tiles; the file keeps them in F16, so ours are rounded alike.
fn tiled<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let (shape, latents) = golden.floats("tiled.dec.z")?;
    let precision = DecodePrecision::F32;
    let pixels = decode_pixels(ops, checkpoint, precision, Some(GOLDEN_TILES), shape, latents, &place.case, None)?;
    let kept: Vec<String> =
        golden.names().filter(|name| name.starts_with("tiled.dec.frames_")).map(str::to_owned).collect();
    for stage in kept {
        let frames: Vec<usize> =
            stage.trim_start_matches("tiled.dec.frames_").split('_').filter_map(|n| n.parse().ok()).collect();
        let ours: Vec<f32> =
            pixels.pick(&frames).into_iter().map(|value| half::f16::from_f32(value).to_f32()).collect();
        report.compared(place, &stage, PIXELS, PIXELS.floats(&ours, golden.floats(&stage)?.1));
    }
    Ok(())
}

/// `vae_f16.safetensors`: one decode in F32 and with F16 linears.
pub(super) fn video_f16<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let (shape, latents) = golden.floats("z")?;
    for (prefix, precision, block, frames) in
        [("f32", DecodePrecision::F32, BLOCK, PIXELS), ("f16", DecodePrecision::F16, F16_BLOCK, F16_PIXELS)]
    {
        let rename = |name: &str| format!("{}_first_clip", name.replacen("vae.", &format!("{prefix}."), 1));
        let tolerance = |_: &str| block;
        let mut tap = GoldenTap::new(golden, &rename, &tolerance);
        let pixels = decode_pixels(ops, checkpoint, precision, None, shape, latents, &place.case, Some(&mut tap))?;
        for (stage, tolerance, comparison) in tap.seen {
            report.compared(place, &stage, tolerance, comparison);
        }
        let stage = format!("{prefix}.frames");
        let ours = pixels.all();
        let (_, expected) = golden.floats(&stage)?;
        report.compared(place, &stage, frames, frames.floats(&ours, expected));
        if precision == DecodePrecision::F32 {
            let comparison = PIXELS_WORST.floats(&ours, expected);
            report.compared(place, "f32.frames, worst", PIXELS_WORST, comparison);
        }
        if precision == DecodePrecision::F16 {
            let (_, exact) = golden.floats("f32.frames")?;
            let (relative, worst) = F16_AGAINST_F32;
            report.compared(place, "f16.frames against f32", relative, relative.floats(&ours, exact));
            report.compared(place, "f16.frames against f32, worst", worst, worst.floats(&ours, exact));
            let comparison = F16_LEVELS.bytes(&levels(&ours), &levels(exact));
            report.compared(place, "f16.frames against f32, levels", F16_LEVELS, comparison);
        }
    }
    finish(golden, place, report);
    Ok(())
}

/// Pixels of the network, channel by channel, as 8-bit levels.
fn levels(pixels: &[f32]) -> Vec<u8> {
    let plane = (pixels.len() / PIXEL_MEAN.len()).max(1);
    let channels = pixels.chunks(plane).zip(PIXEL_MEAN.iter().zip(PIXEL_STD));
    channels
        .flat_map(|(values, (mean, std))| {
            values.iter().map(move |value| ((value * std + mean).clamp(0.0, 1.0) * 255.0).round_ties_even() as u8)
        })
        .collect()
}

/// `audio_vae.safetensors`: both halves, stage by stage.
pub(super) fn audio<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let component = checkpoint.component(ComponentId::AudioVae)?;
    for (stage, name) in [
        ("filter.up", "decoder.activation_post.upsample.filter"),
        ("filter.down", "decoder.activation_post.downsample.lowpass.filter"),
    ] {
        let ours = component.get(name)?.to_f32().unwrap_or_default();
        report.compared(place, stage, Tolerance::Exact, equal(&ours, golden.floats(stage)?.1));
    }
    let decoder = AudioDecoder::load(ops, &component, checkpoint.audio_vae().clone())?;
    let (_, latents) = golden.floats("dec.z")?;
    let rename = |name: &str| name.replacen("audio_vae.", "dec.", 1);
    let mut tap = GoldenTap::new(golden, &rename, &|_| BLOCK);
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };
    let sound = decoder.decode_denormalised(ops, latents, &mut run).map_err(|error| run_error(&place.case, error))?;
    for (stage, tolerance, comparison) in tap.seen {
        report.compared(place, &stage, tolerance, comparison);
    }
    let (_, expected) = golden.floats("dec.waveform")?;
    report.compared(place, "dec.waveform", PIXELS, PIXELS.floats(&sound.planes, expected));
    audio::encoder(ops, checkpoint, golden, place, report)?;
    finish(golden, place, report);
    Ok(())
}

/// Reports what nothing asked for.
fn finish(golden: &GoldenFile, place: &Place, report: &mut Report<'_>) {
    for stage in golden.unreached() {
        report.never_reached(place, stage);
    }
}
