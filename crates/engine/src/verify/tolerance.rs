//! How far each stage may be from its golden tensor, and why.
//!
//! The golden tensors are those of an F32 (or BF16) run on a CPU; another summation order moves the last digits. Bounds
//! were chosen from what independent implementations measured on three seeds, and are never widened to make a run pass.

pub use super::compare::Tolerance;

/// What a request case computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// F32 against an F32 golden.
    F32,
    /// BF16 against a BF16 golden.
    Bf16,
    /// BF16 against values that were not rounded where it rounds: an F32 golden, or on a GPU the BF16 of a processor.
    Bf16Apart,
}

/// Standard normal draws: PyTorch's vector code approximates logarithm and cosine.
pub const NOISE: Tolerance = Tolerance::Absolute(5e-7);

/// Sigmas and timesteps: one step in the last place.
pub const SIGMAS: Tolerance = Tolerance::LastPlaces(1.0);

/// A decoder's pixels in its own normalised space, F32.
pub const PIXELS: Tolerance = Tolerance::RelativeRms(1e-4);

/// The same, value by value.
pub const PIXELS_WORST: Tolerance = Tolerance::Absolute(1e-3);

/// The video encoder's moments, F32.
pub const MOMENTS: Tolerance = Tolerance::RelativeRms(1e-5);

/// Rows of visual conditions made of golden latents.
pub const CONDITION_ROWS: Tolerance = Tolerance::Absolute(1e-6);

/// Pixels in patches: one level of 255 where they were resized.
pub const PATCHES: Tolerance = Tolerance::Absolute(7.9e-3);

/// 8-bit pictures after resizing.
pub const RESIZED: Tolerance = Tolerance::Levels { most: 1, share: 1.0 };

/// A single operation or block in F32.
pub const BLOCK: Tolerance = Tolerance::RelativeRms(1e-5);

/// Decoder blocks whose linears run in F16, against F16.
pub const F16_BLOCK: Tolerance = Tolerance::RelativeRms(1e-3);

/// Frames decoded with F16 linears, against F16.
pub const F16_PIXELS: Tolerance = Tolerance::RelativeRms(2e-3);

/// Frames decoded with F16 linears against those in F32, relative and value by value.
pub const F16_AGAINST_F32: (Tolerance, Tolerance) = (Tolerance::RelativeRms(2e-3), Tolerance::Absolute(1e-2));

/// The same as 8-bit levels.
pub const F16_LEVELS: Tolerance = Tolerance::Levels { most: 1, share: 0.1 };

/// Frames of BF16 against those of F32: PyTorch's own differ by more than four levels in up to 1.4e-4 of a film's values,
/// and by seven at the most.
pub const BF16_FRAMES: Tolerance = Tolerance::LevelsBeyond { most: 4, share: 2.5e-4, worst: 8 };

/// Returns the tolerance of a request's stage, by its golden name.
///
/// F32: a stage before any attention 1e-5; whatever attention or many layers feed 1e-4; latents 3e-4; sound 1e-4;
/// frames one level in one of 200 values. BF16: activations 2e-2, velocities and latents 1e-2, frames four levels.
/// BF16 apart: activations 4e-2, velocities 2e-2, latents 1.5e-2, frames [`BF16_FRAMES`]; docs/verify.md holds the
/// measurements.
pub fn of_stage(name: &str, precision: Precision) -> Tolerance {
    let rms = Tolerance::RelativeRms;
    let after_step = name.strip_prefix("step").and_then(|rest| rest.split_once('.')).map(|(_, kind)| kind);
    match after_step {
        Some("video_rows_in" | "audio_rows_in") => return NOISE,
        Some("video_velocity" | "audio_velocity") => {
            return match precision {
                Precision::F32 => rms(1e-4),
                Precision::Bf16 => rms(1e-2),
                Precision::Bf16Apart => rms(2e-2),
            };
        }
        Some("unique_timesteps") => return SIGMAS,
        _ => {}
    }
    if name.starts_with("condition_") && name.ends_with("_noise") {
        return NOISE;
    }
    if name.starts_with("vae_encode_") {
        return MOMENTS;
    }
    match (name, precision) {
        ("sigmas" | "audio_sigmas" | "timesteps" | "audio_timesteps", _) => SIGMAS,
        ("dit.rope_cos" | "dit.rope_sin" | "dit.time_sinusoid" | "dit.temb", _) => rms(1e-5),
        ("dit.video_embeds" | "dit.audio_embeds", _) => rms(1e-5),
        ("frames_u8" | "frames_u8_picked", Precision::F32) => Tolerance::Levels { most: 1, share: 0.005 },
        ("frames_u8" | "frames_u8_picked", Precision::Bf16Apart) => BF16_FRAMES,
        ("frames_u8" | "frames_u8_picked", Precision::Bf16) => Tolerance::Levels { most: 4, share: 1.0 },
        (_, Precision::Bf16) if is_latents(name) => rms(1e-2),
        (_, Precision::Bf16) => rms(2e-2),
        (_, Precision::Bf16Apart) if is_latents(name) => rms(1.5e-2),
        (_, Precision::Bf16Apart) => rms(4e-2),
        ("te.inputs_embeds" | "te.hidden_after_layer_0", Precision::F32) => rms(1e-5),
        ("te.visual.patch_embed" | "te.visual.block0_in" | "te.visual.block0_out", Precision::F32) => rms(1e-5),
        ("dit.block0_adaln_shift_scale_gate_x2", Precision::F32) => rms(1e-5),
        (_, Precision::F32) if is_latents(name) => rms(3e-4),
        (_, Precision::F32) => rms(1e-4),
    }
}

fn is_latents(name: &str) -> bool {
    name.contains("rows_out") || name.contains("latent") || name.ends_with("decode_in")
}
