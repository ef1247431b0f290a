//! Gated feed-forward layer, in row chunks so that its inner activations stay small.

use super::layers::Layers;
use super::weights::FeedForwardWeights;
use crate::ops::{OpError, Ops, Tensor, ViewMut};

/// The inner activations of one chunk of rows.
pub(super) struct FeedForwardBuffers<'a, B> {
    /// `[chunk, 2 · ffn]`.
    pub(super) gate_up: &'a mut Tensor<B>,
    /// `[chunk, ffn]`.
    pub(super) gated: &'a mut Tensor<B>,
}

impl<O: Ops> Layers<'_, O> {
    /// `x = swiglu(x · fc1ᵀ) · fc2ᵀ`, in place: a chunk's rows are read before they are written.
    pub(super) fn feed_forward(
        &self,
        weights: &FeedForwardWeights<O::Buffer>,
        buffers: FeedForwardBuffers<'_, O::Buffer>,
        mut x: ViewMut<'_, O::Buffer>,
    ) -> Result<(), OpError> {
        let FeedForwardBuffers { gate_up, gated } = buffers;
        let ops = self.ops;
        let (rows, chunk) = (x.len_rows(), gate_up.shape()[0]);
        for start in (0..rows).step_by(chunk) {
            let end = (start + chunk).min(rows);
            let here = 0..end - start;
            ops.linear(weights.fc1.view(), None, x.as_view().rows(start..end), gate_up.rows_mut(here.clone()))?;
            ops.swiglu(gate_up.rows(here.clone()), weights.order, gated.rows_mut(here.clone()))?;
            ops.linear(weights.fc2.view(), None, gated.rows(here), x.reborrow().rows(start..end))?;
        }
        self.rank.sum_partial(ops, x)
    }
}
