//! What one request fixes before its first step.

use clapboard_h3::packing::PackedLayout;

use super::adaln::ScheduleModulations;
use super::block::BlockInputs;
use super::buffers::{DitBuffers, DitShape};
use super::rotary::RotaryTables;
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::DitConfig;
use crate::ops::{DType, OpError, Ops, Tensor};

/// The timesteps of one denoising step, spread over the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimesteps {
    /// Distinct timesteps, ascending, padded by the last one to the request's fixed count.
    pub unique: Vec<f32>,
    /// How many of them rows point at.
    pub distinct: usize,
    /// Index into `unique` of each row.
    pub timestep_rows: Vec<u32>,
    /// Row of a block's modulation table of each row: `timestep · 3 + modality`.
    pub modulation_rows: Vec<u32>,
}

impl StepTimesteps {
    /// Returns the timesteps of every step of a schedule over `layout`, each padded to the same count.
    pub fn schedule(layout: &PackedLayout, video: &[f32], audio: &[f32]) -> Vec<Self> {
        let steps: Vec<_> = video.iter().zip(audio).map(|(video, audio)| layout.timesteps(*video, *audio)).collect();
        let count = steps.iter().map(|step| step.unique.len()).max().unwrap_or(0);
        steps
            .into_iter()
            .map(|step| {
                let modulation_rows = step.modulation_rows(&layout.tags);
                let distinct = step.unique.len();
                let mut unique = step.unique;
                let last = *unique.last().expect("a sequence has rows, so a step has timesteps");
                unique.resize(count, last);
                Self { unique, distinct, timestep_rows: step.indices, modulation_rows }
            })
            .collect()
    }
}

/// A request in the transformer.
pub struct DitRequest<B> {
    /// Activations; the velocities of the last forward are among them.
    pub buffers: DitBuffers<B>,
    /// What no step changes.
    pub(super) fixed: Fixed<B>,
    /// The step whose modulation the buffers hold.
    pub(super) modulated: Option<usize>,
}

impl<B: Send + Sync> DitRequest<B> {
    /// Sees to it that the buffers hold the modulation of `step`.
    ///
    /// Errors: [`OpError`] when the device fails.
    pub(super) fn modulate<O: Ops<Buffer = B>>(&mut self, ops: &O, step: usize) -> Result<(), OpError> {
        if self.modulated != Some(step) {
            self.modulated = None;
            self.fixed.modulations.upload(ops, step, &mut self.buffers.modulation)?;
            self.modulated = Some(step);
        }
        Ok(())
    }
}

/// What a request computes once: refined text, rotary tables, timestep embeddings, row indices.
pub(super) struct Fixed<B> {
    /// Refined text rows, `[text_rows, hidden]`.
    pub(super) text: Tensor<B>,
    /// Cosines and sines of every row.
    pub(super) rotary: RotaryTables<B>,
    /// Activated timestep embeddings of every step, `[steps, timesteps, time_embed_dim]`.
    pub(super) activated: Tensor<B>,
    /// What the AdaLN projections make of every step's timesteps.
    pub(super) modulations: ScheduleModulations,
    pub(super) text_indices: Tensor<B>,
    pub(super) video_indices: Tensor<B>,
    pub(super) audio_indices: Tensor<B>,
    pub(super) step_rows: Vec<StepRows<B>>,
}

impl<B> Fixed<B> {
    /// What block `index` reads in `step`.
    pub(super) fn block_inputs(&self, step: usize, index: usize) -> BlockInputs<'_, B> {
        BlockInputs {
            index,
            distinct: self.step_rows[step].distinct,
            rows: self.step_rows[step].modulation_rows.view(),
            rotary: &self.rotary,
        }
    }
}

/// One step's rows on the device.
pub(super) struct StepRows<B> {
    pub(super) distinct: usize,
    pub(super) timestep_rows: Tensor<B>,
    pub(super) modulation_rows: Tensor<B>,
}

impl<B> StepRows<B> {
    pub(super) fn upload<O: Ops<Buffer = B>>(ops: &O, step: &StepTimesteps) -> Result<Self, OpError> {
        Ok(Self {
            distinct: step.distinct,
            timestep_rows: ops.indices(&step.timestep_rows)?,
            modulation_rows: ops.indices(&step.modulation_rows)?,
        })
    }
}

/// Plans what a request of `steps` steps computes once and keeps, the refined text among it.
pub(crate) fn fixed_plan(config: &DitConfig, dtype: DType, shape: &DitShape, steps: usize) -> ActivationPlan {
    let (rows, rotary) = (shape.rows, 6 * config.rope_freq_dim);
    ActivationPlan::new(vec![
        Planned::new("text", dtype, [shape.text_rows, config.hidden_size]),
        Planned::new("rope_cos", DType::F32, [rows, rotary]),
        Planned::new("rope_sin", DType::F32, [rows, rotary]),
        Planned::new("activated", dtype, [steps.max(1), shape.timesteps, config.time_embed_dim]),
        Planned::new("row_indices", DType::U32, [rows]),
        Planned::new("timestep_rows", DType::U32, [steps, rows]),
        Planned::new("modulation_rows", DType::U32, [steps, rows]),
    ])
}

/// Plans what the timestep MLP computes in.
pub(crate) fn embedding_plan(config: &DitConfig, timesteps: usize) -> ActivationPlan {
    ActivationPlan::new(vec![
        Planned::new("sinusoids", DType::F32, [timesteps, config.freq_dim]),
        Planned::new("time_inner", DType::F32, [timesteps, config.time_embed_hidden_dim]),
        Planned::new("time_activated", DType::F32, [timesteps, config.time_embed_hidden_dim]),
        Planned::new("time_embedded", DType::F32, [timesteps, config.time_embed_dim]),
    ])
}
