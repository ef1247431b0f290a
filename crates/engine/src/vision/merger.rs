//! From blocks of patches to tokens of the language model.

use std::ops::Range;

use super::block::NORM_EPS;
use super::buffers::VisionBuffers;
use super::weights::MergerWeights;
use crate::checkpoint::VisionConfig;
use crate::ops::{Activation, OpError, Ops, Tensor};

/// What a merger norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Normed {
    /// Each patch, before they are joined.
    Patches,
    /// Joined patches.
    Merged,
}

/// The merger: joins the patches of a block and projects them.
///
/// Source: transformers 5.24.0 `Qwen3VLVisionPatchMerger`.
pub(super) struct Merger<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) config: &'a VisionConfig,
}

impl<O: Ops> Merger<'_, O> {
    /// `tokens[place] = fc2(gelu(fc1(norm(hidden))))`, as many tokens at a time as the buffers hold.
    pub(super) fn forward(
        &self,
        weights: &MergerWeights<O::Buffer>,
        normed: Normed,
        buffers: &mut VisionBuffers<O::Buffer>,
        tokens: &mut Tensor<O::Buffer>,
        place: Range<usize>,
    ) -> Result<(), OpError> {
        let merged = [place.len(), self.config.merged_dim()];
        let VisionBuffers { hidden, normed: joined, merger_inner: inner, merger_activated: activated, .. } = buffers;
        let (from, to) = match normed {
            Normed::Patches => (hidden.view(), joined.view_mut()),
            Normed::Merged => (hidden.view().reshape(merged), joined.view_mut().reshape(merged)),
        };
        weights.norm.layer_norm(self.ops, from, NORM_EPS, to)?;
        let chunk = inner.shape()[0];
        for start in (0..place.len()).step_by(chunk) {
            let part = start..(start + chunk).min(place.len());
            let held = 0..part.len();
            let to = place.start + part.start..place.start + part.end;
            let rows = joined.view().reshape(merged).rows(part);
            weights.fc1.apply(self.ops, rows, inner.rows_mut(held.clone()))?;
            self.ops.activate(Activation::Gelu, inner.rows(held.clone()), activated.rows_mut(held.clone()))?;
            weights.fc2.apply(self.ops, activated.rows(held), tokens.rows_mut(to))?;
        }
        Ok(())
    }
}
