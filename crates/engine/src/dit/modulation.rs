//! The AdaLN parameters of one block: shift, scale and gate for attention and feed-forward.

use crate::ops::{OpError, Ops, Tensor, View};
use crate::projection::Linear;

/// Modalities that have modulation parameters of their own: video, text, audio.
pub(super) const MODALITIES: usize = 3;

/// Which of a block's six parameter vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    AttentionShift = 0,
    AttentionScale = 1,
    AttentionGate = 2,
    FeedForwardShift = 3,
    FeedForwardScale = 4,
    FeedForwardGate = 5,
}

/// A block's modulation table: row `timestep · 3 + modality` holds six vectors of the hidden width.
pub(super) struct ModulationTable<'a, B> {
    table: View<'a, B>,
    hidden: usize,
}

impl<'a, B: Send + Sync> ModulationTable<'a, B> {
    /// Projects the activated timestep embeddings `[timesteps, time_embed_dim]` into `buffer`.
    ///
    /// The row count is fixed per request: a matrix product may sum in another order for another number of rows.
    pub(super) fn project<O: Ops<Buffer = B>>(
        ops: &O,
        adaln: &Linear<B>,
        activated: View<'_, B>,
        buffer: &'a mut Tensor<B>,
    ) -> Result<Self, OpError> {
        adaln.apply(ops, activated, buffer.view_mut())?;
        let (timesteps, width) = (buffer.shape()[0], buffer.shape()[1] / MODALITIES);
        Ok(Self { table: buffer.view().reshape([timesteps * MODALITIES, width]), hidden: width / 6 })
    }

    /// One parameter vector of every table row, `[3 · timesteps, hidden]`.
    pub(super) fn chunk(&self, chunk: Chunk) -> View<'a, B> {
        let start = chunk as usize * self.hidden;
        self.table.narrow(1, start..start + self.hidden)
    }
}
