//! One decoder block: scaled attention, then a scaled feed-forward layer.

use super::buffers::TileBuffers;
use super::weights::VitBlockWeights;
use crate::checkpoint::VideoVaeConfig;
use crate::ops::{NormRounding, OpError, Ops, Rotary};
use crate::projection::{Part, heads_of, heads_of_mut};
use crate::tap::Tap;

/// Runs the residual stream through one block, in place. `tap` is given for the block whose internals are compared.
pub(super) fn block<O: Ops>(
    ops: &O,
    config: &VideoVaeConfig,
    weights: &VitBlockWeights<O::Buffer>,
    buffers: &mut TileBuffers<O::Buffer>,
    mut tap: Option<&mut dyn Tap>,
) -> Result<(), OpError> {
    let eps = config.decoder_norm_eps as f32;
    let (heads, head_dim) = (config.decoder_num_heads, config.decoder_head_dim);
    let dim = config.decoder_dim();
    let TileBuffers { hidden, normed, qkv, attended, branch, gate_up, gated, rope_cos, rope_sin, .. } = buffers;

    ops.rms_norm(hidden.view(), weights.norm1.view(), eps, NormRounding::Once, normed.view_mut())?;
    weights.qkv.apply(ops, normed.view(), qkv.view_mut())?;
    if let Some(tap) = tap.as_deref_mut() {
        tap.see("vae.block0_norm1", normed.shape(), &|| ops.read(normed.view()))?;
        let rows = qkv.shape()[0];
        tap.see("vae.block0_to_q", &[rows, dim], &|| {
            ops.read(heads_of(qkv.view(), weights.qkv_rows, heads, head_dim, Part::Query))
        })?;
    }
    for part in [Part::Query, Part::Key] {
        let turned = heads_of_mut(qkv.view_mut(), weights.qkv_rows, heads, head_dim, part);
        let rotary = Rotary { cos: rope_cos.view(), sin: rope_sin.view() };
        ops.norm_rotate_heads(None, eps, NormRounding::Once, Some(rotary), turned)?;
    }
    let scale = 1.0 / (head_dim as f32).sqrt();
    let [q, k, v] =
        [Part::Query, Part::Key, Part::Value].map(|part| heads_of(qkv.view(), weights.qkv_rows, heads, head_dim, part));
    ops.attention(q, k, v, scale, false, attended.view_mut())?;
    weights.out.apply(ops, attended.view(), branch.view_mut())?;
    if let Some(tap) = tap.as_deref_mut() {
        tap.see("vae.block0_attn_out", branch.shape(), &|| ops.read(branch.view()))?;
    }
    ops.gated_add(branch.view(), weights.scale1.view().reshape([1, dim]), None, hidden.view_mut())?;

    ops.rms_norm(hidden.view(), weights.norm2.view(), eps, NormRounding::Once, normed.view_mut())?;
    weights.w1.apply(ops, normed.view(), gate_up.view_mut())?;
    ops.swiglu(gate_up.view(), weights.gate_order, gated.view_mut())?;
    weights.w2.apply(ops, gated.view(), branch.view_mut())?;
    if let Some(tap) = tap.as_deref_mut() {
        tap.see("vae.block0_ff_out", branch.shape(), &|| ops.read(branch.view()))?;
    }
    ops.gated_add(branch.view(), weights.scale2.view().reshape([1, dim]), None, hidden.view_mut())?;
    if let Some(tap) = tap {
        tap.see("vae.block0_out", hidden.shape(), &|| ops.read(hidden.view()))?;
    }
    Ok(())
}
