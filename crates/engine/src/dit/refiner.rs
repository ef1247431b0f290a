//! The token refiner: prompt embeddings become text rows, once per request.

use super::attention::{AttentionBuffers, heads_per_group};
use super::feed_forward::FeedForwardBuffers;
use super::layers::Layers;
use super::weights::{DitStartWeights, RefinerBlockWeights};
use crate::activations::{ActivationPlan, Planned, rows_per_chunk};
use crate::checkpoint::DitConfig;
use crate::engine::MemoryBounds;
use crate::ops::{DType, NormRounding, Ops, Tensor, View};
use crate::run::{Run, RunError};
use crate::weights::WeightSource;

/// Plans the refiner's buffers for `rows` text rows.
pub(crate) fn plan(config: &DitConfig, dtype: DType, rows: usize, memory: MemoryBounds) -> ActivationPlan {
    let (hidden, inner, ffn) = (config.hidden_size, config.inner_dim(), config.ffn_dim);
    let chunk = rows_per_chunk(memory.feed_forward_bytes, 3 * ffn * dtype.size(), rows);
    let heads = heads_per_group(memory.qkv_bytes, rows * 3 * config.head_dim * dtype.size(), config.num_heads);
    ActivationPlan::new(vec![
        Planned::new("text", dtype, [rows, hidden]),
        Planned::new("normed", dtype, [rows, hidden]),
        Planned::new("qkv", dtype, [rows, 3 * heads * config.head_dim]),
        Planned::new("attended", dtype, [rows, inner]),
        Planned::new("gate_up", dtype, [chunk, 2 * ffn]),
        Planned::new("gated", dtype, [chunk, ffn]),
    ])
}

/// What the refiner computes with.
pub(super) struct RefinerWeights<'a, O: Ops> {
    pub(super) start: &'a DitStartWeights<O::Buffer>,
    pub(super) blocks: &'a dyn WeightSource<O, RefinerBlockWeights<O::Buffer>>,
}

impl<O: Ops> Layers<'_, O> {
    /// Refined text rows `[text_rows, hidden]` of prompt embeddings `[text_rows, text_dim]`.
    pub(super) fn refine(
        &self,
        RefinerWeights { start, blocks }: RefinerWeights<'_, O>,
        plan: &ActivationPlan,
        prompt_embeds: View<'_, O::Buffer>,
        run: &mut Run<'_>,
    ) -> Result<Tensor<O::Buffer>, RunError> {
        let ops = self.ops;
        let mut text = plan.make(ops, "text")?;
        let mut normed = plan.make(ops, "normed")?;
        let (mut qkv, mut attended) = (plan.make(ops, "qkv")?, plan.make(ops, "attended")?);
        let (mut gate_up, mut gated) = (plan.make(ops, "gate_up")?, plan.make(ops, "gated")?);

        start.condition_proj.apply(ops, prompt_embeds, text.view_mut())?;
        run.tap.see("dit.context_embedder_out", text.shape(), &|| ops.read(text.view()))?;
        let (eps, once) = (self.config.norm_eps as f32, NormRounding::Once);
        for index in 0..blocks.len() {
            run.check()?;
            let block = blocks.block(ops, index)?;
            ops.rms_norm(text.view(), block.norm1.view(), eps, once, normed.view_mut())?;
            let inner = AttentionBuffers { qkv: qkv.view_mut(), attended: attended.view_mut() };
            self.attend(&block.attention, None, inner, normed.view_mut())?;
            ops.add(normed.view(), text.view_mut())?;
            ops.rms_norm(text.view(), block.norm2.view(), eps, once, normed.view_mut())?;
            let inner = FeedForwardBuffers { gate_up: &mut gate_up, gated: &mut gated };
            self.feed_forward(&block.feed_forward, inner, normed.view_mut())?;
            ops.add(normed.view(), text.view_mut())?;
            if index == 0 {
                run.tap.see("dit.refiner_block0_out", text.shape(), &|| ops.read(text.view()))?;
            }
        }
        let eps = self.config.final_norm_eps as f32;
        ops.rms_norm(text.view(), start.refiner_norm.view(), eps, once, normed.view_mut())?;
        run.tap.see("dit.token_refiner_out", normed.shape(), &|| ops.read(normed.view()))?;
        Ok(normed)
    }
}
