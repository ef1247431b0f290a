//! The AdaLN parameters of one block: shift, scale and gate for attention and feed-forward.

use crate::ops::View;

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

impl<'a, B> ModulationTable<'a, B> {
    /// Takes what a block's AdaLN projection has made of the timesteps, `[timesteps, 18 · hidden]`.
    pub(super) fn of(projected: View<'a, B>) -> Self {
        let (timesteps, width) = (projected.len_rows(), projected.width() / MODALITIES);
        Self { table: projected.reshape([timesteps * MODALITIES, width]), hidden: width / 6 }
    }

    /// One parameter vector of every table row, `[3 · timesteps, hidden]`.
    pub(super) fn chunk(&self, chunk: Chunk) -> View<'a, B> {
        let start = chunk as usize * self.hidden;
        self.table.narrow(1, start..start + self.hidden)
    }
}
