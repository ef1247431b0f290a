//! Attention of a DiT or refiner block: normed rows in, projected heads out.

use super::layers::Layers;
use super::rotary::RotaryTables;
use super::weights::AttentionWeights;
use crate::ops::{NormRounding, OpError, Ops, View, ViewMut};
use crate::projection::{Part, heads_of, heads_of_mut};

/// The buffers that one attention writes into.
pub(super) struct AttentionBuffers<'a, B> {
    /// `[rows, 3 · inner]`.
    pub(super) qkv: ViewMut<'a, B>,
    /// `[rows, inner]`.
    pub(super) attended: ViewMut<'a, B>,
}

impl<O: Ops> Layers<'_, O> {
    /// `out = attention(normed) · outᵀ`; queries and keys are normed per head and, with `rotary`, turned.
    pub(super) fn attend(
        &self,
        weights: &AttentionWeights<O::Buffer>,
        rotary: Option<&RotaryTables<O::Buffer>>,
        normed: View<'_, O::Buffer>,
        buffers: AttentionBuffers<'_, O::Buffer>,
        mut out: ViewMut<'_, O::Buffer>,
    ) -> Result<(), OpError> {
        let AttentionBuffers { mut qkv, mut attended } = buffers;
        let (ops, order) = (self.ops, weights.qkv_rows);
        let (heads, head_dim) = (self.config.num_heads, self.config.head_dim);
        let eps = self.config.qk_norm_eps as f32;
        ops.linear(weights.qkv.view(), None, normed, qkv.reborrow())?;
        for (part, norm) in [(Part::Query, &weights.q_norm), (Part::Key, &weights.k_norm)] {
            let target = heads_of_mut(qkv.reborrow(), order, heads, head_dim, part);
            let rotary = rotary.map(RotaryTables::view);
            ops.norm_rotate_heads(Some(norm.view()), eps, NormRounding::Once, rotary, target)?;
        }
        let part = |part| heads_of(qkv.as_view(), order, heads, head_dim, part);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let (query, key, value) = (part(Part::Query), part(Part::Key), part(Part::Value));
        ops.attention(query, key, value, scale, false, attended.reborrow())?;
        ops.linear(weights.out.view(), None, attended.as_view(), out.reborrow())?;
        self.rank.sum_partial(ops, out)
    }
}
