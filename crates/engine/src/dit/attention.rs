//! Attention of a DiT or refiner block: normed rows in, projected heads out.

use std::ops::Range;

use super::layers::Layers;
use super::rotary::RotaryTables;
use super::weights::AttentionWeights;
use crate::checkpoint::QkvRows;
use crate::ops::{NormRounding, OpError, Ops, View, ViewMut};
use crate::projection::{Part, heads_of, heads_of_mut};

/// The buffers that one attention writes into.
pub(super) struct AttentionBuffers<'a, B> {
    /// `[rows, 3 · group · head_dim]`: as many heads at a time as it holds.
    pub(super) qkv: ViewMut<'a, B>,
    /// `[rows, inner]`.
    pub(super) attended: ViewMut<'a, B>,
}

/// How many of `heads` are computed with at a time so that their queries, keys and values, `head_bytes` each, stay within
/// `budget_bytes`: the most that share the heads evenly, and at least one.
pub(super) fn heads_per_group(budget_bytes: usize, head_bytes: usize, heads: usize) -> usize {
    let fits = budget_bytes / head_bytes.max(1);
    (1..=heads).rev().find(|group| *group <= fits && heads.is_multiple_of(*group)).unwrap_or(1)
}

impl<O: Ops> Layers<'_, O> {
    /// `x = attention(x) · outᵀ`, in place; queries and keys are normed per head and, with `rotary`, turned.
    pub(super) fn attend(
        &self,
        weights: &AttentionWeights<O::Buffer>,
        rotary: Option<&RotaryTables<O::Buffer>>,
        buffers: AttentionBuffers<'_, O::Buffer>,
        mut x: ViewMut<'_, O::Buffer>,
    ) -> Result<(), OpError> {
        let AttentionBuffers { mut qkv, mut attended } = buffers;
        let (ops, order) = (self.ops, weights.qkv_rows);
        let (heads, head_dim) = (self.config.num_heads, self.config.head_dim);
        let eps = self.config.qk_norm_eps as f32;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let group = qkv.width() / (3 * head_dim);
        for first in (0..heads).step_by(group) {
            self.project(weights, first..first + group, x.as_view(), qkv.reborrow())?;
            for (part, norm) in [(Part::Query, &weights.q_norm), (Part::Key, &weights.k_norm)] {
                let target = heads_of_mut(qkv.reborrow(), order, group, head_dim, part);
                let rotary = rotary.map(RotaryTables::view);
                ops.norm_rotate_heads(Some(norm.view()), eps, NormRounding::Once, rotary, target)?;
            }
            let part = |part| heads_of(qkv.as_view(), order, group, head_dim, part);
            let (query, key, value) = (part(Part::Query), part(Part::Key), part(Part::Value));
            let columns = first * head_dim..(first + group) * head_dim;
            ops.attention(query, key, value, scale, false, attended.reborrow().narrow(1, columns))?;
        }
        ops.linear(weights.out.view(), None, attended.as_view(), x.reborrow())?;
        self.rank.sum_partial(ops, x)
    }

    /// Queries, keys and values of some heads, in the order of the weights.
    fn project(
        &self,
        weights: &AttentionWeights<O::Buffer>,
        heads: Range<usize>,
        x: View<'_, O::Buffer>,
        mut qkv: ViewMut<'_, O::Buffer>,
    ) -> Result<(), OpError> {
        let (ops, head_dim) = (self.ops, self.config.head_dim);
        let (all, some) = (self.config.num_heads * head_dim, heads.len() * head_dim);
        let start = heads.start * head_dim;
        match weights.qkv_rows {
            // All of them, or heads with their three parts side by side: rows that follow one another.
            QkvRows::PerHead => ops.linear(weights.qkv.rows(3 * start..3 * (start + some)), None, x, qkv),
            QkvRows::Grouped if some == all => ops.linear(weights.qkv.view(), None, x, qkv),
            QkvRows::Grouped => (0..3).try_for_each(|part| {
                let rows = part * all + start..part * all + start + some;
                let columns = part * some..(part + 1) * some;
                ops.linear(weights.qkv.rows(rows), None, x, qkv.reborrow().narrow(1, columns))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_the_heads_evenly_and_stay_within_the_bound() {
        let group = |budget| heads_per_group(budget, 10, 56);
        assert_eq!([560, 559, 280, 279, 140, 80, 79, 10].map(group), [56, 28, 28, 14, 14, 8, 7, 1]);
        assert_eq!([9, 0].map(group), [1, 1], "one head is never split");
        assert_eq!([usize::MAX, 6].map(|budget| heads_per_group(budget, 0, 6)), [6, 6]);
        assert_eq!(heads_per_group(30, 10, 7), 1, "seven heads are shared by one or by seven");
    }
}
