//! One block of the vision transformer.

use std::ops::Range;

use super::buffers::VisionBuffers;
use super::weights::VisionBlockWeights;
use crate::checkpoint::{QkvRows, VisionConfig};
use crate::ops::{Activation, OpError, Ops, Rotary};
use crate::projection::{Part, heads_of, heads_of_mut};

/// Epsilon of every layer norm of the tower; no config holds it.
pub(super) const NORM_EPS: f32 = 1e-6;

/// The block: what all share; weights and activations come with each call.
///
/// Source: transformers 5.24.0 `Qwen3VLVisionBlock`.
pub(super) struct VisionBlock<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) config: &'a VisionConfig,
}

impl<O: Ops> VisionBlock<'_, O> {
    /// Runs the block: `hidden += attention(norm(hidden))`, then `hidden += feed_forward(norm(hidden))`. Patches of one
    /// of `frames` see each other only.
    pub(super) fn forward(
        &self,
        weights: &VisionBlockWeights<O::Buffer>,
        frames: &[Range<usize>],
        buffers: &mut VisionBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        weights.norm1.layer_norm(self.ops, buffers.hidden.view(), NORM_EPS, buffers.normed.view_mut())?;
        self.attention(weights, frames, buffers)?;
        self.ops.add(buffers.branch.view(), buffers.hidden.view_mut())?;
        weights.norm2.layer_norm(self.ops, buffers.hidden.view(), NORM_EPS, buffers.normed.view_mut())?;
        self.feed_forward(weights, buffers)?;
        self.ops.add(buffers.branch.view(), buffers.hidden.view_mut())
    }

    /// `branch = attention(normed)`.
    fn attention(
        &self,
        weights: &VisionBlockWeights<O::Buffer>,
        frames: &[Range<usize>],
        buffers: &mut VisionBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        let (heads, head_dim) = (self.config.num_heads, self.config.head_dim());
        let VisionBuffers { normed, qkv, attended, branch, cos, sin, .. } = buffers;
        weights.qkv.apply(self.ops, normed.view(), qkv.view_mut())?;
        for part in [Part::Query, Part::Key] {
            let turned = heads_of_mut(qkv.view_mut(), QkvRows::Grouped, heads, head_dim, part);
            self.ops.rotate_heads(Rotary { cos: cos.view(), sin: sin.view() }, turned)?;
        }
        for frame in frames {
            let part = |part| heads_of(qkv.rows(frame.clone()), QkvRows::Grouped, heads, head_dim, part);
            self.ops.attention(
                part(Part::Query),
                part(Part::Key),
                part(Part::Value),
                1.0 / (head_dim as f32).sqrt(),
                false,
                attended.rows_mut(frame.clone()),
            )?;
        }
        weights.proj.apply(self.ops, attended.view(), branch.view_mut())
    }

    /// `branch = fc2(gelu(fc1(normed)))`, as many rows at a time as the buffers hold.
    fn feed_forward(
        &self,
        weights: &VisionBlockWeights<O::Buffer>,
        buffers: &mut VisionBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        let VisionBuffers { normed, branch, inner, activated, .. } = buffers;
        let (rows, chunk) = (normed.shape()[0], inner.shape()[0]);
        for start in (0..rows).step_by(chunk) {
            let part = start..(start + chunk).min(rows);
            let held = 0..part.len();
            weights.fc1.apply(self.ops, normed.rows(part.clone()), inner.rows_mut(held.clone()))?;
            self.ops.activate(Activation::GeluTanh, inner.rows(held.clone()), activated.rows_mut(held.clone()))?;
            weights.fc2.apply(self.ops, activated.rows(held), branch.rows_mut(part))?;
        }
        Ok(())
    }
}
