//! The activations of one batch of frames, planned from its patches.

use crate::activations::{ActivationPlan, Planned, rows_per_chunk};
use crate::checkpoint::VisionConfig;
use crate::ops::{DType, OpError, Ops, Tensor};

use super::position::TAPS;

/// The named activations of the blocks and mergers.
pub(crate) struct VisionBuffers<B> {
    /// Some rows of pixels `[chunk, patch]`.
    pub(super) pixels: Tensor<B>,
    /// Residual stream `[rows, hidden]`.
    pub(super) hidden: Tensor<B>,
    /// A norm's result `[rows, hidden]`.
    pub(super) normed: Tensor<B>,
    /// Queries, keys and values side by side `[rows, 3 · hidden]`.
    pub(super) qkv: Tensor<B>,
    /// Attention's output `[rows, hidden]`.
    pub(super) attended: Tensor<B>,
    /// What a residual addition adds `[rows, hidden]`.
    pub(super) branch: Tensor<B>,
    /// Inner activations of a feed-forward layer `[chunk, intermediate]`.
    pub(super) inner: Tensor<B>,
    /// The same after their activation.
    pub(super) activated: Tensor<B>,
    /// Inner activations of a merger `[token chunk, merged]`.
    pub(super) merger_inner: Tensor<B>,
    /// The same after their activation.
    pub(super) merger_activated: Tensor<B>,
    /// Weights of the learned positions, F32 `[rows, taps]`.
    pub(super) position_weights: Tensor<B>,
    /// Cosines, F32 `[rows, head_dim]`.
    pub(super) cos: Tensor<B>,
    /// Sines, F32 `[rows, head_dim]`.
    pub(super) sin: Tensor<B>,
}

/// Bytes of one patch in the buffers that hold all of a batch.
fn row_bytes(config: &VisionConfig, dtype: DType) -> usize {
    7 * config.hidden_size * dtype.size() + (TAPS + 2 * config.head_dim()) * DType::F32.size()
}

/// How many patches fit in a batch under `bytes`.
pub(crate) fn rows_per_batch(config: &VisionConfig, dtype: DType, bytes: usize) -> usize {
    rows_per_chunk(bytes, row_bytes(config, dtype), usize::MAX)
}

impl<B: Send + Sync> VisionBuffers<B> {
    /// Plans the buffers of `rows` patches; `bytes` bounds the inner activations of each kind of layer.
    pub(crate) fn plan(config: &VisionConfig, dtype: DType, bytes: usize, rows: usize) -> ActivationPlan {
        let &VisionConfig { hidden_size: hidden, intermediate_size: intermediate, .. } = config;
        let side = config.patch_size;
        let patch = config.in_channels * config.temporal_patch_size * side * side;
        let merged = config.merged_dim();
        let tokens = rows / (config.spatial_merge_size * config.spatial_merge_size);
        let chunk = rows_per_chunk(bytes, (2 * intermediate + patch) * dtype.size(), rows);
        let token_chunk = rows_per_chunk(bytes, 2 * merged * dtype.size(), tokens);
        ActivationPlan::new(vec![
            Planned::new("pixels", dtype, [chunk, patch]),
            Planned::new("hidden", dtype, [rows, hidden]),
            Planned::new("normed", dtype, [rows, hidden]),
            Planned::new("qkv", dtype, [rows, 3 * hidden]),
            Planned::new("attended", dtype, [rows, hidden]),
            Planned::new("branch", dtype, [rows, hidden]),
            Planned::new("inner", dtype, [chunk, intermediate]),
            Planned::new("activated", dtype, [chunk, intermediate]),
            Planned::new("merger_inner", dtype, [token_chunk, merged]),
            Planned::new("merger_activated", dtype, [token_chunk, merged]),
            Planned::new("position_weights", DType::F32, [rows, TAPS]),
            Planned::new("cos", DType::F32, [rows, config.head_dim()]),
            Planned::new("sin", DType::F32, [rows, config.head_dim()]),
        ])
    }

    /// Makes what [`VisionBuffers::plan`] planned.
    pub(super) fn make<O: Ops<Buffer = B>>(ops: &O, plan: &ActivationPlan) -> Result<Self, OpError> {
        let make = |name| plan.make(ops, name);
        Ok(Self {
            pixels: make("pixels")?,
            hidden: make("hidden")?,
            normed: make("normed")?,
            qkv: make("qkv")?,
            attended: make("attended")?,
            branch: make("branch")?,
            inner: make("inner")?,
            activated: make("activated")?,
            merger_inner: make("merger_inner")?,
            merger_activated: make("merger_activated")?,
            position_weights: make("position_weights")?,
            cos: make("cos")?,
            sin: make("sin")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::TextEncoderConfig;
    use crate::ops::cpu::HostBuffer;

    proptest! {
        #[test]
        fn a_full_batch_stays_within_three_times_its_bytes(budget in 1usize << 20..1 << 30) {
            let config = TextEncoderConfig::released().vision;
            let rows = rows_per_batch(&config, DType::Bf16, budget) / 4 * 4;
            prop_assume!(rows > 0);
            let plan = VisionBuffers::<HostBuffer>::plan(&config, DType::Bf16, budget, rows);
            // What holds all rows, and the inner activations of each kind of layer.
            prop_assert!(plan.bytes() <= 3 * budget, "{} of {budget}", plan.bytes());
        }
    }
}
