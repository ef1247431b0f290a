//! Tensors of the video VAE.

use super::{List, TensorUse};
use crate::checkpoint::config::VideoVaeConfig;

/// A token of the training objective, without use in decoding.
pub(super) const MASK_TOKEN: &str = "decoder.mask_token";

pub(super) fn list(config: &VideoVaeConfig, list: &mut List) {
    encoder(config, list);
    let moments = 2 * config.latent_channels;
    list.with_bias("quant_conv", &[moments, moments, 1, 1, 1]);
    list.with_bias("post_quant_conv", &[config.latent_channels, config.latent_channels, 1, 1, 1]);
    decoder(config, list);
}

fn encoder(config: &VideoVaeConfig, list: &mut List) {
    let widths = &config.block_out_channels;
    let first = widths.first().copied().unwrap_or(1);
    let last = widths.last().copied().unwrap_or(1);
    list.with_bias("encoder.conv_in", &[first, config.in_channels, 3, 3, 3]);
    let mut width_in = first;
    let strides = config.spatial_downsample.iter().zip(&config.temporal_downsample);
    for (i, (&width, (&space, &time))) in widths.iter().zip(strides).enumerate() {
        for j in 0..config.layers_per_block {
            let scope = format!("encoder.down.{i}.block.{j}");
            list.with_bias(&format!("{scope}.norm1"), &[width_in]);
            list.with_bias(&format!("{scope}.conv1"), &[width, width_in, 3, 3, 3]);
            list.with_bias(&format!("{scope}.norm2"), &[width]);
            list.with_bias(&format!("{scope}.conv2"), &[width, width, 3, 3, 3]);
            if width_in != width {
                list.with_bias(&format!("{scope}.nin_shortcut"), &[width, width_in, 1, 1, 1]);
            }
            width_in = width;
        }
        if space * time > 1 {
            list.with_bias(&format!("encoder.down.{i}.downsample.conv"), &[width, width, 3, 3, 3]);
        }
    }
    list.with_bias("encoder.norm_out", &[last]);
    list.with_bias("encoder.conv_out", &[2 * config.latent_channels, last, 3, 3, 3]);
}

fn decoder(config: &VideoVaeConfig, list: &mut List) {
    let (dim, inner) = (config.decoder_dim(), config.decoder_ffn_dim());
    list.with_bias("decoder.x_embedder", &[dim, config.latent_channels]);
    list.add("decoder.register_tokens", &[1, config.decoder_num_register_tokens, dim]);
    list.marked(TensorUse::Unread, |list| list.add(MASK_TOKEN, &[1, 1, dim]));
    for i in 0..config.decoder_num_layers {
        let scope = format!("decoder.transformer_blocks.{i}");
        list.add(format!("{scope}.norm1.weight"), &[dim]);
        list.with_bias(&format!("{scope}.attn.to_qkv"), &[3 * dim, dim]);
        list.with_bias(&format!("{scope}.attn.to_out"), &[dim, dim]);
        list.add(format!("{scope}.scale1"), &[dim]);
        list.add(format!("{scope}.norm2.weight"), &[dim]);
        list.with_bias(&format!("{scope}.ff.w1"), &[2 * inner, dim]);
        list.with_bias(&format!("{scope}.ff.w2"), &[dim, inner]);
        list.add(format!("{scope}.scale2"), &[dim]);
    }
    list.with_bias("decoder.norm_out", &[dim]);
    let side = config.spatial_compression();
    let voxel = config.out_channels * config.temporal_compression() * side * side;
    list.with_bias("decoder.proj_out", &[voxel, dim]);
}
