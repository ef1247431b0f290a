//! The activations of one encoding, planned from the prompt's length.

use crate::activations::{ActivationPlan, Planned, rows_per_chunk};
use crate::checkpoint::TextConfig;
use crate::ops::{DType, OpError, Ops, Tensor};

/// The named activations of the decoder layers.
pub(crate) struct TextBuffers<B> {
    /// Residual stream `[rows, hidden]`; leaves the encoder as the prompt's embeddings.
    pub(super) hidden: Tensor<B>,
    /// Normalised input of attention or feed-forward `[rows, hidden]`.
    pub(super) normed: Tensor<B>,
    /// Queries, keys and values side by side `[rows, query_dim + 2 · kv_dim]`.
    pub(super) qkv: Tensor<B>,
    /// Attention's output `[rows, query_dim]`.
    pub(super) attended: Tensor<B>,
    /// What a residual addition adds `[rows, hidden]`.
    pub(super) branch: Tensor<B>,
    /// Gate and up projection side by side `[chunk, 2 · intermediate]`.
    pub(super) gate_up: Tensor<B>,
    /// Their product `[chunk, intermediate]`.
    pub(super) gated: Tensor<B>,
    /// Cosines, F32 `[rows, head_dim]`.
    pub(super) cos: Tensor<B>,
    /// Sines, F32 `[rows, head_dim]`.
    pub(super) sin: Tensor<B>,
}

impl<B: Send + Sync> TextBuffers<B> {
    /// Plans the buffers of a prompt of `rows` tokens; `feed_forward_bytes` bounds `gate_up` and `gated` together.
    pub(crate) fn plan(config: &TextConfig, dtype: DType, feed_forward_bytes: usize, rows: usize) -> ActivationPlan {
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        let (query_dim, kv_dim) = (config.query_dim(), config.kv_dim());
        let chunk = rows_per_chunk(feed_forward_bytes, 3 * intermediate * dtype.size(), rows);
        ActivationPlan::new(vec![
            Planned::new("hidden", dtype, [rows, hidden]),
            Planned::new("normed", dtype, [rows, hidden]),
            Planned::new("qkv", dtype, [rows, query_dim + 2 * kv_dim]),
            Planned::new("attended", dtype, [rows, query_dim]),
            Planned::new("branch", dtype, [rows, hidden]),
            Planned::new("gate_up", dtype, [chunk, 2 * intermediate]),
            Planned::new("gated", dtype, [chunk, intermediate]),
            Planned::new("cos", DType::F32, [rows, config.head_dim]),
            Planned::new("sin", DType::F32, [rows, config.head_dim]),
        ])
    }

    /// Makes what [`TextBuffers::plan`] planned.
    pub(super) fn make<O: Ops<Buffer = B>>(ops: &O, plan: &ActivationPlan) -> Result<Self, OpError> {
        let make = |name| plan.make(ops, name);
        Ok(Self {
            hidden: make("hidden")?,
            normed: make("normed")?,
            qkv: make("qkv")?,
            attended: make("attended")?,
            branch: make("branch")?,
            gate_up: make("gate_up")?,
            gated: make("gated")?,
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
    use crate::text::testing::tiny_config;

    #[test]
    fn a_plan_holds_every_activation_once() {
        let plan = TextBuffers::<HostBuffer>::plan(&tiny_config(), DType::F32, usize::MAX, 57);
        // Per row: hidden, normed, branch 40 each; qkv 128; attended 64; gate_up 128; gated 64; cos and sin 16 each.
        assert_eq!(plan.bytes(), 57 * 4 * (3 * 40 + 128 + 64 + 128 + 64 + 2 * 16));
    }

    proptest! {
        #[test]
        fn the_feed_forward_layer_never_takes_more_than_its_bytes(rows in 1usize..300_000, budget in 153_600usize..1 << 30) {
            let released = TextEncoderConfig::released().text;
            let plan = TextBuffers::<HostBuffer>::plan(&released, DType::Bf16, budget, rows);
            let named = |name| plan.buffers().iter().find(|planned| planned.name == name).unwrap();
            let (both, product) = (named("gate_up"), named("gated"));
            prop_assert!(both.bytes() + product.bytes() <= budget);
            let chunk = both.shape.as_slice()[0];
            prop_assert!(chunk <= rows && chunk == product.shape.as_slice()[0]);
        }
    }
}
