//! One decoder layer of the language model.

use super::buffers::TextBuffers;
use super::weights::LmLayerWeights;
use crate::checkpoint::TextConfig;
use crate::ops::{GateOrder, NormRounding, OpError, Ops, Rotary, View};
use crate::parallel::Rank;

/// The decoder layer: what all layers share; weights and activations come with each call.
///
/// Source: transformers 5.24.0 `Qwen3VLTextDecoderLayer`.
pub(super) struct LmLayer<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) rank: &'a dyn Rank<O>,
    pub(super) config: &'a TextConfig,
}

impl<O: Ops> LmLayer<'_, O> {
    /// Runs the layer: `hidden += attention(norm(hidden))`, then `hidden += feed_forward(norm(hidden))`.
    pub(super) fn forward(
        &self,
        weights: &LmLayerWeights<O::Buffer>,
        buffers: &mut TextBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        self.norm(weights.input_norm.view(), buffers)?;
        self.attention(weights, buffers)?;
        self.add_branch(buffers)?;
        self.norm(weights.post_attention_norm.view(), buffers)?;
        self.feed_forward(weights, buffers)?;
        self.add_branch(buffers)
    }

    /// `normed = RMSNorm(hidden)`.
    fn norm(&self, weight: View<'_, O::Buffer>, buffers: &mut TextBuffers<O::Buffer>) -> Result<(), OpError> {
        let TextBuffers { hidden, normed, .. } = buffers;
        self.ops.rms_norm(hidden.view(), weight, self.eps(), NormRounding::BeforeWeight, normed.view_mut())
    }

    /// `branch = attention(normed)`: causal, query heads share key and value heads, queries and keys normed per head.
    fn attention(
        &self,
        weights: &LmLayerWeights<O::Buffer>,
        buffers: &mut TextBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        let &TextConfig { num_heads, num_kv_heads, head_dim, .. } = self.config;
        let TextBuffers { normed, qkv, attended, branch, cos, sin, .. } = buffers;
        // Columns of qkv: [queries | keys | values], each [heads · head_dim].
        let queries = 0..num_heads * head_dim;
        let keys = queries.end..queries.end + num_kv_heads * head_dim;
        let values = keys.end..keys.end + num_kv_heads * head_dim;

        for (weight, columns) in [(&weights.q, &queries), (&weights.k, &keys), (&weights.v, &values)] {
            let projected = qkv.view_mut().narrow(1, columns.clone());
            self.ops.linear(weight.view(), None, normed.view(), projected)?;
        }
        for (norm, columns, heads) in [(&weights.q_norm, &queries, num_heads), (&weights.k_norm, &keys, num_kv_heads)] {
            let rotary = Rotary { cos: cos.view(), sin: sin.view() };
            let turned = qkv.view_mut().narrow(1, columns.clone()).split(1, &[heads, head_dim]);
            let rounding = NormRounding::BeforeWeight;
            self.ops.norm_rotate_heads(Some(norm.view()), self.eps(), rounding, Some(rotary), turned)?;
        }
        let heads_of = |columns, heads| qkv.view().narrow(1, columns).split(1, &[heads, head_dim]);
        self.ops.attention(
            heads_of(queries, num_heads),
            heads_of(keys, num_kv_heads),
            heads_of(values, num_kv_heads),
            1.0 / (head_dim as f32).sqrt(),
            true,
            attended.view_mut(),
        )?;
        self.ops.linear(weights.o.view(), None, attended.view(), branch.view_mut())?;
        self.rank.sum_partial(self.ops, branch.view_mut())
    }

    /// `branch = down(silu(gate(normed)) · up(normed))`, as many rows at a time as the buffers hold.
    fn feed_forward(
        &self,
        weights: &LmLayerWeights<O::Buffer>,
        buffers: &mut TextBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        let intermediate = self.config.intermediate_size;
        let TextBuffers { normed, branch, gate_up, gated, .. } = buffers;
        let (rows, chunk) = (normed.shape()[0], gated.shape()[0]);
        for start in (0..rows).step_by(chunk) {
            let part = start..(start + chunk).min(rows);
            for (weight, columns) in [(&weights.gate, 0..intermediate), (&weights.up, intermediate..2 * intermediate)] {
                let projected = gate_up.rows_mut(0..part.len()).narrow(1, columns);
                self.ops.linear(weight.view(), None, normed.rows(part.clone()), projected)?;
            }
            let both = gate_up.rows(0..part.len());
            self.ops.swiglu(both, GateOrder::GateFirst, gated.rows_mut(0..part.len()))?;
            let product = gated.rows(0..part.len());
            self.ops.linear(weights.down.view(), None, product, branch.rows_mut(part))?;
        }
        self.rank.sum_partial(self.ops, branch.view_mut())
    }

    /// `hidden += branch`.
    fn add_branch(&self, buffers: &mut TextBuffers<O::Buffer>) -> Result<(), OpError> {
        self.ops.add(buffers.branch.view(), buffers.hidden.view_mut())
    }

    fn eps(&self) -> f32 {
        self.config.rms_norm_eps as f32
    }
}
