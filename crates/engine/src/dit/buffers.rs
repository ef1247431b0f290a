//! The buffers of one request, planned from its shape.

use clapboard_h3::packing::PackedLayout;

use super::attention::heads_per_group;
use super::request::StepTimesteps;
use crate::activations::{ActivationPlan, Planned, rows_per_chunk};
use crate::checkpoint::DitConfig;
use crate::engine::MemoryBounds;
use crate::ops::{DType, OpError, Ops, Tensor};

/// What fixes the sizes of a request's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DitShape {
    /// Rows of the packed sequence.
    pub rows: usize,
    /// Text rows among them.
    pub text_rows: usize,
    /// Video rows among them, conditions included.
    pub video_rows: usize,
    /// Audio rows among them, references included.
    pub audio_rows: usize,
    /// Distinct timesteps that one step may hold: the fixed row count of every modulation.
    pub timesteps: usize,
    /// Bounds of the buffers.
    pub memory: MemoryBounds,
}

impl DitShape {
    /// Takes the sizes of a laid-out request and its schedule.
    pub(crate) fn of(layout: &PackedLayout, steps: &[StepTimesteps], memory: MemoryBounds) -> Self {
        Self {
            rows: layout.rows(),
            text_rows: layout.text_rows,
            video_rows: layout.video_indices.len(),
            audio_rows: layout.audio_indices.len(),
            timesteps: steps.first().map_or(1, |step| step.unique.len()),
            memory,
        }
    }
}

/// The named activations of the block stack and the two heads.
pub struct DitBuffers<B> {
    /// The residual stream, `[rows, hidden]`.
    pub hidden: Tensor<B>,
    /// What a layer reads, and then what it adds to the stream, `[rows, hidden]`.
    pub(super) normed: Tensor<B>,
    /// Queries, keys and values of a group of heads, `[rows, 3 · group · head_dim]`.
    pub(super) qkv: Tensor<B>,
    pub(super) attended: Tensor<B>,
    pub(super) gate_up: Tensor<B>,
    pub(super) gated: Tensor<B>,
    /// What the AdaLN projections make of a step's timesteps, `[blocks, timesteps, 18 · hidden]`.
    pub(super) modulation: Tensor<B>,
    pub(super) final_modulation: Tensor<B>,
    /// A chunk of video or audio rows at the hidden width, F32 `[chunk, hidden]`.
    pub(super) embeds: Tensor<B>,
    /// Velocities of the video rows, F32 `[video_rows, 4 · channels]`.
    pub video_velocity: Tensor<B>,
    /// Velocities of the audio rows, F32 `[audio_rows, channels]`.
    pub audio_velocity: Tensor<B>,
}

impl<B: Send + Sync> DitBuffers<B> {
    /// Plans the buffers for `shape` with activations of `dtype`.
    pub fn plan(config: &DitConfig, dtype: DType, shape: &DitShape) -> ActivationPlan {
        let (rows, hidden, inner, ffn) = (shape.rows, config.hidden_size, config.inner_dim(), config.ffn_dim);
        let MemoryBounds { feed_forward_bytes, qkv_bytes, .. } = shape.memory;
        let chunk = rows_per_chunk(feed_forward_bytes, 3 * ffn * dtype.size(), rows);
        let heads = heads_per_group(qkv_bytes, rows * 3 * config.head_dim * dtype.size(), config.num_heads);
        let most = shape.video_rows.max(shape.audio_rows);
        let embedded = rows_per_chunk(feed_forward_bytes, hidden * DType::F32.size(), most);
        ActivationPlan::new(vec![
            Planned::new("hidden", dtype, [rows, hidden]),
            Planned::new("normed", dtype, [rows, hidden]),
            Planned::new("qkv", dtype, [rows, 3 * heads * config.head_dim]),
            Planned::new("attended", dtype, [rows, inner]),
            Planned::new("gate_up", dtype, [chunk, 2 * ffn]),
            Planned::new("gated", dtype, [chunk, ffn]),
            Planned::new("modulation", dtype, [config.num_layers, shape.timesteps, config.adaln_features()]),
            Planned::new("final_modulation", dtype, [shape.timesteps, config.final_adaln_features()]),
            Planned::new("embeds", DType::F32, [embedded, hidden]),
            Planned::new("video_velocity", DType::F32, [shape.video_rows, config.video_row_dim()]),
            Planned::new("audio_velocity", DType::F32, [shape.audio_rows, config.audio_in_channels]),
        ])
    }

    /// Makes what [`DitBuffers::plan`] planned.
    ///
    /// Errors: [`OpError`] when memory runs out.
    pub fn make<O: Ops<Buffer = B>>(ops: &O, plan: &ActivationPlan) -> Result<Self, OpError> {
        let make = |name| plan.make(ops, name);
        Ok(Self {
            hidden: make("hidden")?,
            normed: make("normed")?,
            qkv: make("qkv")?,
            attended: make("attended")?,
            gate_up: make("gate_up")?,
            gated: make("gated")?,
            modulation: make("modulation")?,
            final_modulation: make("final_modulation")?,
            embeds: make("embeds")?,
            video_velocity: make("video_velocity")?,
            audio_velocity: make("audio_velocity")?,
        })
    }
}
