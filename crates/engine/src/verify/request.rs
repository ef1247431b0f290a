//! A whole request, stage by stage.

use clapboard_h3::GenerationSpec;
use clapboard_h3::packing::PackedLayout;
use clapboard_h3::prepare::PreparedReference;

use super::compare::{Tolerance, equal, equal_bits};
use super::components::decode_pixels;
use super::golden::{Error, GoldenFile, Values};
use super::report::{Place, Report};
use super::requests::Request;
use super::tapped::{GoldenTap, Kept};
use super::target::Target;
use super::tolerance::{BLOCK, CONDITION_ROWS, PIXELS, PIXELS_WORST, Precision, of_stage};
use super::{prepared, presentation};
use crate::checkpoint::Checkpoint;
use crate::control::Uninterrupted;
use crate::denoise::target_grid;
use crate::dit::StepTimesteps;
use crate::engine::{ComputeDtype, Engine, EngineConfig};
use crate::generate::{self, GenerateError};
use crate::ops::Ops;
use crate::progress::Unwatched;
use crate::resume::{Continuation, NoCheckpoints};
use crate::sampling::{ConditionRows, LatentShape, RequestNoise};
use crate::video_vae::{ConditionLatents, DecodePrecision};

/// Rows that the release pads its sequence to; ours has no padding.
const NOT_OURS: [&str; 1] = ["padded_rows"];

/// Runs `request` on the checkpoint and reports every stage that the golden file holds.
pub(super) fn verify<O: Ops>(
    target: Target<'_, O>,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    request: &Request,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let stored = request
        .precision()
        .ok_or_else(|| golden.malformed("its request computes in neither float32 nor bfloat16".to_owned()))?;
    let precision = match (stored, target.dtype) {
        (Precision::F32, ComputeDtype::Bf16) => Precision::Bf16Apart,
        // The golden's processor rounds after sums in its own order; fifty layers tell.
        (Precision::Bf16, _) if target.is_gpu => Precision::Bf16Apart,
        (stored, _) => stored,
    };
    let mut spec = request.spec().map_err(|problem| golden.malformed(problem))?;
    let media = prepared::verify(&spec, golden, request, place, report)?;
    spec.inputs = request.inputs(&media).map_err(|problem| golden.malformed(problem))?;
    spec.version = GenerationSpec::version_with(&spec.inputs);

    let mut config = EngineConfig::new(checkpoint.root(), spec.partition);
    (config.device, config.attention) = (target.device, target.attention);
    if precision != Precision::F32 {
        config.dtype = ComputeDtype::Bf16;
        config.decode = DecodePrecision::Bf16;
    }
    let mut engine = Engine::load(&config)?;
    let failed = |source: GenerateError| Error::Run { case: request.name.clone(), source: Box::new(source) };
    let asked = generate::Request { spec: &spec, media: &media };
    let (presented, layout) = engine.arrange(asked).map_err(failed)?;
    check_resolution(request, &spec, &layout, golden, place, report)?;
    presentation::verify(&presented, golden, place, report)?;
    check_sequence(&layout, golden, place, report)?;
    check_schedule(&spec, &layout, golden, place, report)?;
    check_conditions(&spec, golden, place, report)?;

    let has_visual = media.iter().any(|medium| !matches!(medium, PreparedReference::Audio(_)));
    let rename = |name: &str| name.to_owned();
    let tolerance = |name: &str| match name {
        // A single product, of rows whose clean latents were rounded to F16: a value at a tie may fall to either side.
        "dit.video_embeds" if has_visual => of_stage("condition_rows", precision),
        _ => of_stage(name, precision),
    };
    let mut tap = GoldenTap::new(golden, &rename, &tolerance);
    let mut kept = Kept::default();
    let from_noise = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    engine.generate(asked, &Uninterrupted, &Unwatched, &mut kept, from_noise, &mut tap).map_err(failed)?;
    for (stage, tolerance, comparison) in tap.seen {
        report.compared(place, &stage, tolerance, comparison);
    }
    check_media(&kept, &spec, precision, golden, place, report)?;
    check_decode(target.ops, checkpoint, config.decode, precision, golden, place, report)?;
    for stage in golden.unreached() {
        if !NOT_OURS.contains(&stage) {
            report.never_reached(place, stage);
        }
    }
    Ok(())
}

/// Our own resolution of the request against the reference's.
fn check_resolution(
    request: &Request,
    spec: &GenerationSpec,
    layout: &PackedLayout,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let resolved = &request.resolved;
    let ours = [spec.canvas.width(), spec.canvas.height(), spec.num_frames.get()];
    let theirs = [resolved.width, resolved.height, resolved.num_frames];
    report.compared(place, "resolved size and frames", Tolerance::Exact, equal(&ours, &theirs));
    let samples = [spec.num_frames.audio_samples() as usize];
    report.compared(place, "resolved samples", Tolerance::Exact, equal(&samples, &[resolved.audio_samples]));
    let target = spec.target();
    for (name, ours) in [
        ("width", spec.canvas.width()),
        ("height", spec.canvas.height()),
        ("num_frames", spec.num_frames.get()),
        ("latent_width", target.video.width),
        ("latent_height", target.video.height),
        ("num_latent_frames", target.video.frames),
        ("num_audio_latents", target.audio_latents),
        ("num_condition_video_rows", layout.condition_video_rows as u32),
        ("num_condition_audio_rows", layout.condition_audio_rows as u32),
    ] {
        report.compared(place, name, Tolerance::Exact, equal(&[i64::from(ours)], golden.integers(name)?));
    }
    Ok(())
}

/// The packed sequence, bit by bit.
fn check_sequence(
    layout: &PackedLayout,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let wide = |values: &[u32]| values.iter().map(|value| i64::from(*value)).collect::<Vec<_>>();
    let tags: Vec<u32> = layout.tags.iter().map(|tag| tag.index()).collect();
    let text_rows: Vec<u32> = (0..layout.text_rows as u32).collect();
    for (name, ours) in [
        ("token_tags", &tags),
        ("text_indices", &text_rows),
        ("video_indices", &layout.video_indices),
        ("audio_indices", &layout.audio_indices),
    ] {
        report.compared(place, name, Tolerance::Exact, equal(&wide(ours), golden.integers(name)?));
    }
    let Some(Values::Double(positions)) = golden.find("position_ids") else {
        return Err(golden.malformed("it lacks the doubles position_ids".to_owned()));
    };
    report.compared(place, "position_ids", Tolerance::Exact, equal_bits(layout.positions.as_flattened(), positions));
    Ok(())
}

/// The rows of visual conditions from the golden latents: their noise weighs so little that a wrong draw would pass for
/// another rounding of the latents themselves.
fn check_conditions(
    spec: &GenerationSpec,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let mut latents = Vec::new();
    loop {
        let name = format!("condition_{}_latent_normalized", latents.len());
        if !golden.names().any(|held| held == name) {
            break;
        }
        let (shape, values) = golden.floats(&name)?;
        let &[1, channels, frames, height, width] = shape else {
            return Err(golden.malformed(format!("{name} is no block of latents")));
        };
        latents
            .push(ConditionLatents { shape: LatentShape { channels, frames, height, width }, values: values.to_vec() });
    }
    if latents.is_empty() {
        return Ok(());
    }
    let shapes: Vec<LatentShape> = latents.iter().map(|latents| latents.shape).collect();
    let noise = RequestNoise::draw(spec.recipe, spec.seed, &shapes, target_grid(spec, shapes[0].channels));
    let rows = ConditionRows::new(&latents, &noise.conditions, Vec::new());
    let (_, expected) = golden.floats("condition_rows")?;
    let comparison = CONDITION_ROWS.floats(&rows.video, expected);
    report.compared(place, "condition_rows of golden latents", CONDITION_ROWS, comparison);
    Ok(())
}

/// Sigmas, timesteps and which row has which.
fn check_schedule(
    spec: &GenerationSpec,
    layout: &PackedLayout,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let (video, audio) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
    for (name, ours) in [
        ("sigmas", spec.video_sigmas.values()),
        ("audio_sigmas", spec.audio_sigmas.values()),
        ("timesteps", &video),
        ("audio_timesteps", &audio),
    ] {
        let tolerance = of_stage(name, Precision::F32);
        report.compared(place, name, tolerance, tolerance.floats(ours, golden.floats(name)?.1));
    }
    let wide = |values: &[u32]| values.iter().map(|value| i64::from(*value)).collect::<Vec<_>>();
    for (index, step) in StepTimesteps::schedule(layout, &video, &audio).iter().enumerate() {
        let name = format!("step{index}.unique_timesteps");
        let tolerance = of_stage(&name, Precision::F32);
        let comparison = tolerance.floats(&step.unique[..step.distinct], golden.floats(&name)?.1);
        report.compared(place, &name, tolerance, comparison);
        let name = format!("step{index}.timestep_indices");
        let comparison = equal(&wide(&step.timestep_rows), golden.integers(&name)?);
        report.compared(place, &name, Tolerance::Exact, comparison);
        if index == 0 && golden.names().any(|name| name == "dit.adaln_indices") {
            let comparison = equal(&wide(&step.modulation_rows), golden.integers("dit.adaln_indices")?);
            report.compared(place, "dit.adaln_indices", Tolerance::Exact, comparison);
        }
    }
    Ok(())
}

/// Frames and samples as the sink got them.
fn check_media(
    kept: &Kept,
    spec: &GenerationSpec,
    precision: Precision,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let frame_bytes = spec.canvas.pixels() as usize * 3;
    let frames = kept.frames.len() / frame_bytes.max(1);
    let comparison = equal(&[frames], &[spec.num_frames.get() as usize]);
    report.compared(place, "frames in all", Tolerance::Exact, comparison);
    if let Some(Values::Byte(expected)) = golden.find("frames_u8") {
        let tolerance = of_stage("frames_u8", precision);
        report.compared(place, "frames_u8", tolerance, tolerance.bytes(&kept.frames, expected));
    }
    if let Some(Values::Byte(expected)) = golden.find("frames_u8_picked") {
        let picked: Vec<u8> = golden
            .integers("picked_frames")?
            .iter()
            .filter_map(|index| {
                let start = usize::try_from(*index).ok()?.checked_mul(frame_bytes)?;
                kept.frames.get(start..start.checked_add(frame_bytes)?)
            })
            .flatten()
            .copied()
            .collect();
        let tolerance = of_stage("frames_u8_picked", precision);
        report.compared(place, "frames_u8_picked", tolerance, tolerance.bytes(&picked, expected));
    }
    let samples = kept.samples.len() / 2;
    let comparison = equal(&[samples], &[spec.num_frames.audio_samples() as usize]);
    report.compared(place, "samples in all", Tolerance::Exact, comparison);
    let first: Vec<String> =
        golden.names().filter(|name| name.starts_with("audio_first_")).map(str::to_owned).collect();
    for name in first {
        let (shape, expected) = golden.floats(&name)?;
        let count = shape.last().copied().unwrap_or(0).min(samples);
        let ours: Vec<f32> =
            (0..2).flat_map(|side| kept.samples.iter().skip(side).step_by(2).take(count)).copied().collect();
        let tolerance = of_stage(&name, precision);
        report.compared(place, &name, tolerance, tolerance.floats(&ours, expected));
    }
    Ok(())
}

/// Compares the decoder alone, fed with the golden latents: what came before cannot hide in it.
fn check_decode<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    decode: DecodePrecision,
    precision: Precision,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let (video, audio) = (checkpoint.video_vae(), checkpoint.audio_vae());
    for (normalised, denormalised, mean, std) in [
        ("final_video_latent_normalized", "vae_decode_in", &video.latents_mean, &video.latents_std),
        ("final_audio_latent_normalized", "audio_vae_decode_in", &audio.latents_mean, &audio.latents_std),
    ] {
        let (_, values) = golden.floats(normalised)?;
        let (shape, expected) = golden.floats(denormalised)?;
        let per_channel: usize = shape.iter().skip(2).product();
        let ours: Vec<f32> = values
            .chunks(per_channel.max(1))
            .enumerate()
            .flat_map(|(row, values)| {
                let channel = row % mean.len();
                values.iter().map(move |value| value * std[channel] + mean[channel])
            })
            .collect();
        report.compared(place, denormalised, BLOCK, BLOCK.floats(&ours, expected));
    }
    if !golden.names().any(|name| name == "vae_decode_out_first_last") {
        return Ok(());
    }
    let (shape, latents) = golden.floats("vae_decode_in")?;
    let pixels = decode_pixels(ops, checkpoint, decode, None, shape, latents, &place.case, None)?;
    let ours = pixels.pick(&[0, pixels.frames.saturating_sub(1)]);
    let (_, expected) = golden.floats("vae_decode_out_first_last")?;
    let (relative, worst) = match precision {
        Precision::F32 => (PIXELS, Some(PIXELS_WORST)),
        Precision::Bf16 | Precision::Bf16Apart => (of_stage("vae_decode_out_first_last", precision), None),
    };
    report.compared(place, "vae_decode_out_first_last", relative, relative.floats(&ours, expected));
    if let Some(worst) = worst {
        report.compared(place, "vae_decode_out_first_last, worst", worst, worst.floats(&ours, expected));
    }
    Ok(())
}
