//! The schedule that a partition was released with.

use std::path::Path;

use clapboard_h3::Sigmas;
use serde::Serialize;

use super::fields::Fields;
use crate::checkpoint::error::Error;
use crate::checkpoint::layout::Layout;

/// How a partition wants to be sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplingConfig {
    /// Sigma shift of the video latents.
    pub video_shift: f64,
    /// Sigma shift of the audio latents.
    pub audio_shift: f64,
    /// The unshifted sigmas of a distilled checkpoint: falling, the last one zero. `None`: any number of steps.
    pub base_schedule: Option<Vec<f32>>,
}

impl SamplingConfig {
    /// Reads the schedule of one partition: `_minimax_h3` in `model_index.json`, or the two scheduler configs.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule of one file.
    pub(in crate::checkpoint) fn read(layout: Layout, base: &Path, partition: &str) -> Result<Self, Error> {
        match layout {
            Layout::Original => read_model_index(&base.join("model_index.json"), partition),
            Layout::Diffusers => {
                let read = |folder: &str| read_shift(&base.join(folder).join("scheduler_config.json"));
                Ok(Self { video_shift: read("scheduler")?, audio_shift: read("audio_scheduler")?, base_schedule: None })
            }
        }
    }
}

fn read_shift(path: &Path) -> Result<f64, Error> {
    let mut fields = Fields::open(path)?;
    let shift = fields.positive_at(&["shift"]);
    fields.ignore(&["_class_name", "_diffusers_version"]);
    fields.finish(shift)
}

fn read_model_index(path: &Path, partition: &str) -> Result<SamplingConfig, Error> {
    let mut fields = Fields::open(path)?;
    let config = SamplingConfig {
        video_shift: fields.positive_or("_minimax_h3.sigma_shift_scales.video", 12.0),
        audio_shift: fields.positive_or("_minimax_h3.sigma_shift_scales.audio", 3.0),
        base_schedule: fields.reals_if("_minimax_h3.base_schedule"),
    };
    if let Some(found) = fields.text_if("_minimax_h3.partition") {
        fields.rule(found.eq_ignore_ascii_case(partition), || {
            format!("_minimax_h3.partition is {found:?}, but the folder is that of {partition}")
        });
    }
    if let Some(schedule) = &config.base_schedule
        && let Err(problem) = Sigmas::from_base(schedule, 1.0)
    {
        fields.rule(false, || format!("_minimax_h3.base_schedule: {problem}, found {schedule:?}"));
    }
    fields.ignore(&["_class_name", "_minimax_h3.tasks", "scheduler", "text_encoder", "tokenizer", "processor"]);
    fields.ignore(&["transformer", "video_vae", "audio_vae", "_diffusers_version"]);
    fields.finish(config)
}
