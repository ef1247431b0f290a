//! From the trunk's rows to latent width: causal attention whose heads are averaged, and a gated feed-forward.

use super::encoder_weights::PreBlock;
use crate::ops::{Activation, DType, OpError, Ops, Tensor, View};
use crate::projection::{Affine, Linear};
use crate::tap::Tap;

/// Fixed in the network's code.
const EPS: f32 = 1e-5;

/// The shape of what is narrowed.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Stereo channels, which do not see each other.
    pub(super) batch: usize,
    /// Latents of one channel.
    pub(super) latents: usize,
    /// Attention heads.
    pub(super) heads: usize,
}

/// Narrows `x` `[batch · latents, width]` to `[batch · latents, latent channels]`.
pub(super) fn narrow<O: Ops>(
    ops: &O,
    weights: &PreBlock<O::Buffer>,
    rows: Rows,
    x: View<'_, O::Buffer>,
    tap: &mut dyn Tap,
) -> Result<Tensor<O::Buffer>, OpError> {
    let attended = attend(ops, weights, rows, x)?;
    let shape = [rows.batch, rows.latents, attended.shape()[1]];
    tap.see("audio_vae.enc.pre_block_attn", &shape, &|| ops.read(attended.view()))?;
    let normed = layer_norm(ops, &weights.skip_norm, x)?;
    let mut hidden = linear(ops, &weights.skip, normed.view())?;
    ops.add(attended.view(), hidden.view_mut())?;
    let branch = feed_forward(ops, weights, hidden.view())?;
    ops.add(branch.view(), hidden.view_mut())?;
    tap.see("audio_vae.enc.pre_block", &shape, &|| ops.read(hidden.view()))?;
    Ok(hidden)
}

fn attend<O: Ops>(
    ops: &O,
    weights: &PreBlock<O::Buffer>,
    rows: Rows,
    x: View<'_, O::Buffer>,
) -> Result<Tensor<O::Buffer>, OpError> {
    let width = x.width();
    let head_dim = width / rows.heads;
    let normed = layer_norm(ops, &weights.attention_norm, x)?;
    let qkv = linear(ops, &weights.qkv, normed.view())?;
    let mut mixed = ops.alloc(DType::F32, [x.len_rows(), width].into())?;
    for channel in 0..rows.batch {
        let range = channel * rows.latents..(channel + 1) * rows.latents;
        // [latents, 3, heads, head_dim]
        let parts = qkv.rows(range.clone()).split(1, &[3, rows.heads, head_dim]);
        let [q, k, v] = [0, 1, 2].map(|part| parts.select(1, part));
        ops.attention(q, k, v, 1.0 / (head_dim as f32).sqrt(), true, mixed.rows_mut(range))?;
    }
    let mut pooled = ops.alloc(DType::F32, [x.len_rows(), weights.pool.shape()[0]].into())?;
    ops.linear(weights.pool.view(), None, mixed.view(), pooled.view_mut())?;
    linear(ops, &weights.attention_out, pooled.view())
}

/// `down(gelu(gate x) · up x)` after two norms.
fn feed_forward<O: Ops>(
    ops: &O,
    weights: &PreBlock<O::Buffer>,
    x: View<'_, O::Buffer>,
) -> Result<Tensor<O::Buffer>, OpError> {
    let normed = layer_norm(ops, &weights.norm, x)?;
    let normed = layer_norm(ops, &weights.inner_norm, normed.view())?;
    let gate = linear(ops, &weights.gate, normed.view())?;
    let up = linear(ops, &weights.up, normed.view())?;
    let mut bent = ops.alloc(DType::F32, gate.shape().into())?;
    ops.activate(Activation::GeluTanh, gate.view(), bent.view_mut())?;
    ops.multiply(up.view(), bent.view_mut())?;
    linear(ops, &weights.down, bent.view())
}

/// A layer norm into a tensor of its own.
fn layer_norm<O: Ops>(ops: &O, norm: &Affine<O::Buffer>, x: View<'_, O::Buffer>) -> Result<Tensor<O::Buffer>, OpError> {
    let mut y = ops.alloc(DType::F32, x.shape().into())?;
    norm.layer_norm(ops, x, EPS, y.view_mut())?;
    Ok(y)
}

/// A linear layer into a tensor of its own.
pub(super) fn linear<O: Ops>(
    ops: &O,
    linear: &Linear<O::Buffer>,
    x: View<'_, O::Buffer>,
) -> Result<Tensor<O::Buffer>, OpError> {
    let mut y = ops.alloc(DType::F32, [x.len_rows(), linear.bias.shape()[0]].into())?;
    linear.apply(ops, x, y.view_mut())?;
    Ok(y)
}
