//! One DiT block: modulated attention, then modulated feed-forward.

use super::attention::AttentionBuffers;
use super::buffers::DitBuffers;
use super::feed_forward::FeedForwardBuffers;
use super::layers::Layers;
use super::modulation::{Chunk, MODALITIES, ModulationTable};
use super::rotary::RotaryTables;
use super::weights::DitBlockWeights;
use crate::ops::{Modulation, OpError, Ops, View};
use crate::tap::Tap;

/// What a block reads besides its weights and the residual stream.
pub(super) struct BlockInputs<'a, B> {
    /// Which block it is.
    pub(super) index: usize,
    /// How many of the timesteps are distinct; the others pad.
    pub(super) distinct: usize,
    /// Modulation table row of each row.
    pub(super) rows: View<'a, B>,
    /// Cosines and sines of each row.
    pub(super) rotary: &'a RotaryTables<B>,
}

impl<O: Ops> Layers<'_, O> {
    /// Runs the residual stream through one block, in place. `tap` is given for the block whose internals are compared.
    pub(super) fn block(
        &self,
        weights: &DitBlockWeights<O::Buffer>,
        inputs: &BlockInputs<'_, O::Buffer>,
        buffers: &mut DitBuffers<O::Buffer>,
        mut tap: Option<&mut (dyn Tap + '_)>,
    ) -> Result<(), OpError> {
        let (ops, eps, rows) = (self.ops, self.config.norm_eps as f32, inputs.rows);
        let DitBuffers { hidden, normed, qkv, attended, gate_up, gated, modulation, .. } = buffers;
        let table = ModulationTable::of(modulation.view().select(0, inputs.index));
        if let Some(tap) = tap.as_deref_mut() {
            see_modulation(ops, &table, inputs.distinct, tap)?;
        }
        let modulate = |shift, scale| Modulation { shift: table.chunk(shift), scale: table.chunk(scale), rows };

        let before_attention = modulate(Chunk::AttentionShift, Chunk::AttentionScale);
        ops.rms_norm_modulate(hidden.view(), weights.norm1.view(), eps, before_attention, normed.view_mut())?;
        let inner = AttentionBuffers { qkv: qkv.view_mut(), attended: attended.view_mut() };
        self.attend(&weights.attention, Some(inputs.rotary), inner, normed.view_mut())?;
        if let Some(tap) = tap.as_deref_mut() {
            tap.see("dit.block0_attn_out", normed.shape(), &|| ops.read(normed.view()))?;
        }
        ops.gated_add(normed.view(), table.chunk(Chunk::AttentionGate), Some(rows), hidden.view_mut())?;

        let before_feed_forward = modulate(Chunk::FeedForwardShift, Chunk::FeedForwardScale);
        ops.rms_norm_modulate(hidden.view(), weights.norm2.view(), eps, before_feed_forward, normed.view_mut())?;
        let inner = FeedForwardBuffers { gate_up, gated };
        self.feed_forward(&weights.feed_forward, inner, normed.view_mut())?;
        if let Some(tap) = tap.as_deref_mut() {
            tap.see("dit.block0_ff_out", normed.shape(), &|| ops.read(normed.view()))?;
        }
        ops.gated_add(normed.view(), table.chunk(Chunk::FeedForwardGate), Some(rows), hidden.view_mut())?;
        if let Some(tap) = tap {
            tap.see("dit.block0_out", hidden.shape(), &|| ops.read(hidden.view()))?;
        }
        Ok(())
    }
}

/// Shows the six parameter vectors of the distinct timesteps' rows, `[6, 3 · distinct, hidden]`.
fn see_modulation<O: Ops>(
    ops: &O,
    table: &ModulationTable<'_, O::Buffer>,
    distinct: usize,
    tap: &mut dyn Tap,
) -> Result<(), OpError> {
    const CHUNKS: [Chunk; 6] = [
        Chunk::AttentionShift,
        Chunk::AttentionScale,
        Chunk::AttentionGate,
        Chunk::FeedForwardShift,
        Chunk::FeedForwardScale,
        Chunk::FeedForwardGate,
    ];
    let rows = distinct * MODALITIES;
    let hidden = table.chunk(Chunk::AttentionShift).width();
    tap.see("dit.block0_adaln_shift_scale_gate_x2", &[CHUNKS.len(), rows, hidden], &|| {
        let mut values = Vec::new();
        for chunk in CHUNKS {
            values.extend(ops.read(table.chunk(chunk).rows(0..rows))?);
        }
        Ok(values)
    })
}
