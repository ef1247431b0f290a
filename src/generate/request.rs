//! The sampling options of one video, under the names that the API uses.

use anyhow::anyhow;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_h3::{GenerationSpec, ModelProfile, Recipe, VideoRequest};
use uuid::Uuid;

use crate::generate::flags::told_by_flag;
use crate::generate::inputs::Inputs;

/// What to generate. What is left out follows from the checkpoint.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Video")]
pub(crate) struct RequestArgs {
    /// The text to generate from
    #[arg(long)]
    prompt: String,
    /// The task by name: t2va, fl2va or ref2va; it has to go with the inputs, from which it follows when left out
    #[arg(long)]
    task: Option<String>,
    /// The canvas as WIDTHxHEIGHT, floored to multiples of 32; it carries its own ratio. This or --aspect-ratio is needed
    /// without inputs
    #[arg(long, value_name = "WxH", conflicts_with_all = ["width", "height"])]
    size: Option<String>,
    /// The ratio of width to height: 21:9, 16:9, 4:3, 1:1, 3:4, 9:16, or the equal decimal; without it, a
    /// keyframe's own, and 16:9 with references
    #[arg(long, value_name = "RATIO")]
    aspect_ratio: Option<String>,
    /// The width in pixels; needs --height and --aspect-ratio
    #[arg(long, value_name = "PIXELS", requires = "height")]
    width: Option<i64>,
    /// The height in pixels; needs --width and --aspect-ratio
    #[arg(long, value_name = "PIXELS", requires = "width")]
    height: Option<i64>,
    /// The length in seconds, rounded up to the model's frame lattice (5, 22, 39, … frames at 24 per second)
    #[arg(long, visible_alias = "seconds", value_name = "SECONDS", conflicts_with = "num_frames")]
    duration: Option<f64>,
    /// The number of frames, rounded up to the lattice
    #[arg(long, value_name = "FRAMES")]
    num_frames: Option<i64>,
    /// The number of sigma points, 2 to 200; the transformer runs once less
    #[arg(long, visible_alias = "num-inference-steps", value_name = "POINTS", allow_negative_numbers = true)]
    steps: Option<i64>,
    /// The shift of the video's sigmas
    #[arg(long, value_name = "SHIFT", allow_negative_numbers = true)]
    flow_shift: Option<f64>,
    /// The shift of the audio's sigmas
    #[arg(long, value_name = "SHIFT", allow_negative_numbers = true)]
    audio_flow_shift: Option<f64>,
    /// The seed of the noise; drawn at random and printed when left out
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<i64>,
    /// Which published way of running the model to follow
    #[arg(long, default_value = "release", value_parser = recipe())]
    recipe: Recipe,
    /// How the MP4 is encoded: high or lossless; moderate when left out
    #[arg(long)]
    quality: Option<String>,
}

impl RequestArgs {
    /// Returns the task that was asked for by name.
    pub(crate) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Turns the options into the specification of a run, by the same rules as the API.
    pub(crate) fn resolve(self, profile: &ModelProfile, inputs: &Inputs) -> anyhow::Result<GenerationSpec> {
        let request = VideoRequest {
            prompt: Some(self.prompt),
            task: self.task.or_else(|| Some(inputs.task.to_string())),
            frame_indices: inputs.frame_indices.clone(),
            media: inputs.media.clone(),
            size: self.size,
            width: self.width,
            height: self.height,
            aspect_ratio: self.aspect_ratio,
            duration: self.duration,
            num_frames: self.num_frames,
            num_inference_steps: self.steps,
            flow_shift: self.flow_shift,
            audio_flow_shift: self.audio_flow_shift,
            seed: self.seed,
            quality: self.quality,
            recipe: Some(self.recipe),
            ..VideoRequest::default()
        };
        request.resolve(profile, random_seed()).map_err(|invalid| anyhow!("{}", told_by_flag(&invalid)))
    }
}

/// Draws a seed below 2^32, all of which PyTorch's generator uses.
fn random_seed() -> u64 {
    // The last bytes of a version-4 UUID are random throughout.
    let [.., a, b, c, d] = Uuid::new_v4().into_bytes();
    u64::from(u32::from_le_bytes([a, b, c, d]))
}

fn recipe() -> impl TypedValueParser<Value = Recipe> {
    PossibleValuesParser::new(Recipe::ALL.map(Recipe::as_str)).try_map(|name| name.parse::<Recipe>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_seeds_differ_and_fit_into_32_bits() {
        let seeds: Vec<u64> = (0..16).map(|_| random_seed()).collect();
        assert!(seeds.iter().all(|seed| *seed < 1 << 32));
        assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
    }
}
