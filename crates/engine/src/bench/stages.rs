//! The stages, each made ready to run again and again.

use std::convert::Infallible;
use std::sync::Arc;

use clapboard_h3::Partition;
use half::bf16;

use super::error::BenchError;
use super::inputs::{TIMESTEPS, drawn, sequence};
use super::measure::BenchOptions;
use super::sizes::Sizes;
use super::stage::Stage;
use crate::audio_vae::AudioDecoder;
use crate::checkpoint::{Component, ComponentId, DitConfig, Inventory, Layout, TextConfig};
use crate::control::Uninterrupted;
use crate::dit::{AdalnCache, Dit, DitOptions, DitRequest};
use crate::load::Loading;
use crate::ops::{DType, Ops};
use crate::parallel::Alone;
use crate::progress::Unwatched;
use crate::run::Run;
use crate::tap::Tap;
use crate::text::{Presentation, TextEncoder};
use crate::video_vae::{
    DecodePrecision, FrameValues, TileGeometry, VideoDecoder, VideoEncoder, VideoFrames, VideoLatents,
};
use crate::vision::VisionEmbeds;

/// A stage that runs once at each call, shown to a tap.
pub(super) type Ready<O> = Box<dyn FnMut(&O, &mut dyn Tap) -> Result<(), BenchError>>;

/// Makes a stage ready, with the weights of `layout`; what it computes before it runs is shown to `tap`.
///
/// Errors: [`BenchError`] for sizes that the stage cannot have, and whatever the device says.
pub(super) fn ready<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
    tap: &mut dyn Tap,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    match options.stage {
        Stage::DitBlock => dit_block(ops, sizes, options, layout, tap),
        Stage::DitStep => dit_step(ops, sizes, options, layout, tap),
        Stage::Text => text(ops, sizes, options, layout),
        Stage::VaeDecode => vae_decode(ops, sizes, options, layout),
        Stage::VaeEncode => vae_encode(ops, sizes, options, layout),
        Stage::Audio => audio(ops, sizes, options, layout),
    }
}

/// Runs a network that nobody stops or watches, shown to `tap`.
fn unwatched(tap: &mut dyn Tap) -> Run<'_> {
    Run { control: &Uninterrupted, progress: &Unwatched, tap }
}

/// A DiT of `layers` layers, and a request of the wanted rows in it.
fn dit<O: Ops + 'static>(
    ops: &O,
    config: DitConfig,
    layout: Layout,
    options: &BenchOptions,
    tap: &mut dyn Tap,
) -> Result<(Dit<O>, DitRequest<O::Buffer>), BenchError>
where
    O::Buffer: 'static,
{
    let &BenchOptions { stage, rows, dtype, seed, .. } = options;
    let packed = sequence(stage, rows)?;
    let inventory = Inventory::dit(ComponentId::Dit(Partition::Fl2va), &config);
    let component = Arc::new(Component::drawn(&inventory, layout, seed, |_| true)?);
    let text_dim = config.text_dim;
    let how = DitOptions { dtype, memory: options.memory, modulations: Arc::new(AdalnCache::new(0)) };
    let dit = Dit::load(ops, &component, config, how, Loading::unwatched(options.placement), Box::new(Alone))?;
    let mut prompt = ops.alloc(dtype, [packed.text_rows, text_dim].into())?;
    ops.write(&drawn(seed, "prompt_embeds", packed.text_rows * text_dim), prompt.view_mut())?;
    let [video, audio] = TIMESTEPS;
    let mut request = dit.begin(ops, &packed, prompt.view(), &[video], &[audio], &mut unwatched(tap))?;
    let hidden = &mut request.buffers.hidden;
    let count = hidden.view().window().shape.elements();
    // Rounded, so that every type holds the same.
    let values: Vec<f32> =
        drawn(seed, "hidden", count).into_iter().map(|value| bf16::from_f32(value).to_f32()).collect();
    ops.write(&values, hidden.view_mut())?;
    Ok((dit, request))
}

fn dit_block<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
    tap: &mut dyn Tap,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let config = DitConfig { num_layers: 1, ..sizes.dit.clone() };
    let (dit, mut request) = dit(ops, config, layout, options, tap)?;
    Ok(Box::new(move |ops, tap| Ok(dit.run_block(ops, &mut request, 0, &mut unwatched(tap))?)))
}

fn dit_step<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
    tap: &mut dyn Tap,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let (dit, mut request) = dit(ops, sizes.dit.clone(), layout, options, tap)?;
    let rows = |name: &str, shape: &[usize]| {
        let mut tensor = ops.alloc(DType::F32, shape.into())?;
        ops.write(&drawn(options.seed, name, shape.iter().product()), tensor.view_mut())?;
        Ok::<_, BenchError>(tensor)
    };
    let video = rows("video_rows", request.buffers.video_velocity.shape())?;
    let audio = rows("audio_rows", request.buffers.audio_velocity.shape())?;
    Ok(Box::new(move |ops, tap| {
        Ok(dit.forward(ops, &mut request, 0, video.view(), audio.view(), &mut unwatched(tap))?)
    }))
}

fn text<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let &BenchOptions { stage, rows, dtype, seed, .. } = options;
    let config = TextConfig { num_layers: TextConfig::CONDITIONING_LAYERS, ..sizes.text.text.clone() };
    let most = config.max_position_embeddings.unwrap_or(usize::MAX);
    if !(1..=most).contains(&rows) {
        return Err(BenchError::Rows { stage, rows, least: 1, most });
    }
    let mut all = sizes.text.clone();
    all.text = config.clone();
    let read = |name: &str| name.starts_with("model.language_model.") && name != "model.language_model.norm.weight";
    let component = Arc::new(Component::drawn(&Inventory::text_encoder(&all), layout, seed, read)?);
    let vocabulary = config.vocab_size;
    let bytes = options.memory.feed_forward_bytes;
    let loading = Loading::unwatched(options.placement);
    let encoder = TextEncoder::load(ops, &component, config, dtype, bytes, loading, Box::new(Alone))?;
    let ids: Vec<u32> = (0..rows).map(|row| (row * 7919 % vocabulary) as u32).collect();
    let presentation = Presentation::of_ids(&ids);
    Ok(Box::new(move |ops, tap| {
        encoder.encode(ops, &presentation, &VisionEmbeds::none(), &mut unwatched(tap))?;
        Ok(())
    }))
}

/// Latent rows and columns of the picture.
fn latent_sides(sizes: &Sizes, options: &BenchOptions) -> Result<[usize; 2], BenchError> {
    let step = sizes.video.spatial_compression();
    let (width, height) = options.size;
    let on_grid = |side: usize| side > 0 && side.is_multiple_of(step);
    if on_grid(width) && on_grid(height) {
        Ok([height / step, width / step])
    } else {
        Err(BenchError::Sides { width, height, step })
    }
}

fn tiles(sizes: &Sizes) -> TileGeometry {
    TileGeometry { size: sizes.video.tile_size, min_overlap: sizes.video.tile_overlap_min }
}

/// The frames that a film may have here: an hour.
const MOST_FRAMES: usize = 24 * 3600;

fn vae_decode<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let &BenchOptions { stage, rows, dtype, seed, .. } = options;
    let [height, width] = latent_sides(sizes, options)?;
    let precision = match dtype {
        DType::F16 => DecodePrecision::F16,
        DType::Bf16 => DecodePrecision::Bf16,
        _ => DecodePrecision::F32,
    };
    let config = sizes.video.clone();
    let read = |name: &str| !name.starts_with("encoder.") && !name.starts_with("quant_conv.");
    let component = Component::drawn(&Inventory::video_vae(&config), layout, seed, read)?;
    let channels = config.latent_channels;
    let decoder = VideoDecoder::load(ops, &component, config, precision, tiles(sizes))?;
    let refused = || BenchError::Rows { stage, rows, least: 1, most: MOST_FRAMES };
    if !(1..=MOST_FRAMES).contains(&rows) {
        return Err(refused());
    }
    let enough = |frames: &usize| decoder.frames(*frames).is_some_and(|frames| frames >= rows);
    let frames = (1..=rows + 16).find(enough).ok_or_else(refused)?;
    let values = drawn(seed, "latents", channels * frames * height * width);
    Ok(Box::new(move |ops, tap| {
        let latents = VideoLatents { values: &values, frames, height, width };
        let mut taken = |_: Vec<u8>| Ok::<_, Infallible>(());
        Ok(decoder.decode(ops, latents, &mut unwatched(tap), &mut taken)?)
    }))
}

fn vae_encode<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let &BenchOptions { stage, rows: frames, seed, size: (width, height), .. } = options;
    latent_sides(sizes, options)?;
    if !(1..=MOST_FRAMES).contains(&frames) {
        return Err(BenchError::Rows { stage, rows: frames, least: 1, most: MOST_FRAMES });
    }
    let config = sizes.video.clone();
    let read = |name: &str| name.starts_with("encoder.") || name.starts_with("quant_conv.");
    let component = Component::drawn(&Inventory::video_vae(&config), layout, seed, read)?;
    let encoder = VideoEncoder::load(ops, &component, config, tiles(sizes))?;
    let levels = drawn(seed, "frames", frames * height * width * 3);
    let bytes: Vec<u8> = levels.iter().map(|level| (128.0 + 64.0 * level) as u8).collect();
    Ok(Box::new(move |ops, tap| {
        let frames = VideoFrames { values: FrameValues::Rgb8(&bytes), frames, height, width };
        encoder.encode(ops, frames, &mut unwatched(tap))?;
        Ok(())
    }))
}

fn audio<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    layout: Layout,
) -> Result<Ready<O>, BenchError>
where
    O::Buffer: 'static,
{
    let &BenchOptions { stage, rows: frames, seed, .. } = options;
    if !(1..=MOST_FRAMES).contains(&frames) {
        return Err(BenchError::Rows { stage, rows: frames, least: 1, most: MOST_FRAMES });
    }
    let config = sizes.audio.clone();
    let component = Component::drawn(&Inventory::audio_vae(&config), layout, seed, |_| true)?;
    // 24 frames a second.
    let latents = (frames * config.sampling_rate).div_ceil(24 * config.hop_length());
    let values = drawn(seed, "audio_latents", 2 * config.latent_channels * latents);
    let decoder = AudioDecoder::load(ops, &component, config)?;
    Ok(Box::new(move |ops, tap| {
        decoder.decode(ops, &values, &mut unwatched(tap))?;
        Ok(())
    }))
}
