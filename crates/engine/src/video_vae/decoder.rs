//! The vision transformer over one clip of one tile.

use super::block::block;
use super::buffers::TileBuffers;
use super::chunks::ChunkGeometry;
use super::weights::{VitBlockWeights, VitWeights};
use crate::checkpoint::VideoVaeConfig;
use crate::ops::{OpError, Ops};
use crate::run::{Run, RunError};
use crate::tap::Tap;
use crate::weights::WeightSource;

/// Decodes the latents in `buffers` to head and tail frames, `buffers.pixels`.
///
/// With `tapped`, its intermediate tensors and those of block 0 are shown to the tap.
pub(super) fn decode_tile<O: Ops>(
    ops: &O,
    config: &VideoVaeConfig,
    weights: &VitWeights<O::Buffer>,
    blocks: &dyn WeightSource<O, VitBlockWeights<O::Buffer>>,
    buffers: &mut TileBuffers<O::Buffer>,
    run: &mut Run<'_>,
    tapped: bool,
) -> Result<(), RunError> {
    embed(ops, weights, buffers, tapped.then_some(&mut *run.tap))?;
    for index in 0..blocks.len() {
        run.check()?;
        let tap: Option<&mut dyn Tap> = if tapped && index == 0 { Some(&mut *run.tap) } else { None };
        block(ops, config, &*blocks.block(ops, index)?, buffers, tap)?;
    }
    let tokens = buffers.tokens();
    let TileBuffers { hidden, normed, patches, pixels, .. } = buffers;
    let eps = config.decoder_norm_eps as f32;
    weights.norm_out.layer_norm(ops, hidden.view(), eps, normed.view_mut())?;
    if tapped {
        run.tap.see("vae.norm_out", normed.shape(), &|| ops.read(normed.view()))?;
    }
    weights.proj_out.apply(ops, normed.rows(0..tokens), patches.view_mut())?;

    let geometry = ChunkGeometry::of(config);
    let (head, kept) = (geometry.head_frames(), geometry.kept_frames());
    ops.unpatchify(patches.view(), buffers.grid, geometry.head_start(), pixels.view_mut().narrow(1, 0..head))?;
    if kept > head {
        ops.unpatchify(patches.view(), buffers.grid, geometry.tail_start(), pixels.view_mut().narrow(1, head..kept))?;
    }
    Ok(())
}

/// Latent rows to the residual stream, followed by registers and the zero token.
fn embed<O: Ops>(
    ops: &O,
    weights: &VitWeights<O::Buffer>,
    buffers: &mut TileBuffers<O::Buffer>,
    tap: Option<&mut dyn Tap>,
) -> Result<(), OpError> {
    let tokens = buffers.tokens();
    let [frames, height, width] = buffers.grid;
    let TileBuffers { latents, post_quant, hidden, normed, branch, rope_cos, rope_sin, first_row, .. } = buffers;
    weights.post_quant_conv.apply(ops, latents.view(), post_quant.view_mut())?;
    // PyTorch adds the bias of this projection apart, since its input is a permuted view: the sum is rounded without
    // it, and then again with it. In 16-bit types that is the largest difference that one place makes.
    let proj_in = &weights.proj_in;
    let dim = hidden.shape()[1];
    ops.linear(proj_in.weight.view(), None, post_quant.view(), branch.rows_mut(0..tokens))?;
    ops.gather_rows(proj_in.bias.view().reshape([1, dim]), first_row.view(), normed.rows_mut(0..tokens))?;
    ops.add(branch.rows(0..tokens), normed.rows_mut(0..tokens))?;
    ops.cast(normed.rows(0..tokens), hidden.rows_mut(0..tokens))?;
    let rows = hidden.shape()[0];
    ops.cast(weights.suffix.view(), hidden.rows_mut(tokens..rows))?;
    if let Some(tap) = tap {
        let channels = post_quant.shape()[1];
        tap.see("vae.post_quant", &[channels, frames, height, width], &|| {
            let values = ops.read(post_quant.view())?;
            Ok((0..channels).flat_map(|channel| values[channel..].iter().step_by(channels)).copied().collect())
        })?;
        tap.see("vae.proj_in", &[tokens, dim], &|| ops.read(normed.rows(0..tokens)))?;
        tap.see("vae.rope_cos", rope_cos.shape(), &|| ops.read(rope_cos.view()))?;
        tap.see("vae.rope_sin", rope_sin.shape(), &|| ops.read(rope_sin.view()))?;
    }
    Ok(())
}
