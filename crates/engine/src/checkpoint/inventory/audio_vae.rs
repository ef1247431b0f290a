//! Tensors of the audio VAE.

use super::{List, TensorUse};
use crate::checkpoint::config::AudioVaeConfig;

/// Taps of the stored resampling filters.
const FILTER_TAPS: usize = 12;

/// Hidden width of the projection's feed-forward over its width.
const MLP_RATIO: usize = 2;

pub(super) fn list(config: &AudioVaeConfig, list: &mut List) {
    encoder(config, list);
    pre_block(config, list);
    let latent = config.latent_channels;
    list.with_bias("mean_proj", &[latent, latent, 1]);
    list.with_bias("logs_proj", &[latent, latent, 1]);
    list.with_bias("dec_in_proj", &[config.latent_dim, latent, 1]);
    decoder(config, list);
}

fn encoder(config: &AudioVaeConfig, list: &mut List) {
    let mut width = config.encoder_dim;
    conv(list, "encoder.block.0", [width, 1, 7], true);
    for (i, &rate) in config.encoder_rates.iter().enumerate() {
        let scope = format!("encoder.block.{}.block", i + 1);
        for unit in 0..3 {
            let unit = format!("{scope}.{unit}.block");
            list.add(format!("{unit}.0.alpha"), &[1, width, 1]);
            conv(list, &format!("{unit}.1"), [width, width, 7], true);
            list.add(format!("{unit}.2.alpha"), &[1, width, 1]);
            conv(list, &format!("{unit}.3"), [width, width, 1], true);
        }
        list.add(format!("{scope}.3.alpha"), &[1, width, 1]);
        conv(list, &format!("{scope}.4"), [2 * width, width, 2 * rate], true);
        width *= 2;
    }
    let after = config.encoder_rates.len() + 1;
    list.add(format!("encoder.block.{after}.alpha"), &[1, width, 1]);
    conv(list, &format!("encoder.block.{}", after + 1), [config.latent_dim, width, 3], true);
}

fn pre_block(config: &AudioVaeConfig, list: &mut List) {
    let (wide, narrow) = (config.latent_dim, config.latent_channels);
    list.with_bias("pre_block.norm1", &[wide]);
    list.add("pre_block.attn.qkv.weight", &[3 * wide, wide]);
    list.add("pre_block.attn.q_bias", &[wide]);
    list.add("pre_block.attn.v_bias", &[wide]);
    list.marked(TensorUse::Buffer, |list| list.add("pre_block.attn.zero_k_bias", &[wide]));
    list.with_bias("pre_block.attn.proj", &[narrow, narrow]);
    list.with_bias("pre_block.norm3", &[wide]);
    list.with_bias("pre_block.proj", &[narrow, wide]);
    list.with_bias("pre_block.norm2", &[narrow]);
    list.with_bias("pre_block.mlp.norm", &[narrow]);
    list.with_bias("pre_block.mlp.w0", &[MLP_RATIO * narrow, narrow]);
    list.with_bias("pre_block.mlp.w1", &[MLP_RATIO * narrow, narrow]);
    list.with_bias("pre_block.mlp.w2", &[narrow, MLP_RATIO * narrow]);
}

fn decoder(config: &AudioVaeConfig, list: &mut List) {
    let mut width = config.decoder_dim;
    conv(list, "decoder.conv_pre", [width, config.latent_dim, 7], true);
    let blocks = config.resblock_kernel_sizes.iter().zip(&config.resblock_dilation_sizes);
    for (i, &kernel) in config.decoder_kernel_sizes.iter().enumerate() {
        transposed_conv(list, &format!("decoder.ups.{i}.0"), [width, width / 2, kernel]);
        width /= 2;
        for (j, (&kernel, dilations)) in blocks.clone().enumerate() {
            let scope = format!("decoder.resblocks.{}", i * blocks.len() + j);
            for k in 0..dilations.len() {
                conv(list, &format!("{scope}.convs1.{k}"), [width, width, kernel], true);
                conv(list, &format!("{scope}.convs2.{k}"), [width, width, kernel], true);
                activation(list, &format!("{scope}.activations.{}", 2 * k), width);
                activation(list, &format!("{scope}.activations.{}", 2 * k + 1), width);
            }
        }
    }
    activation(list, "decoder.activation_post", width);
    conv(list, "decoder.conv_post", [1, width, 7], false);
}

/// A weight-normalised convolution `(out, in, kernel)`: the gain is per output channel.
fn conv(list: &mut List, module: &str, shape: [usize; 3], bias: bool) {
    list.add(format!("{module}.weight_g"), &[shape[0], 1, 1]);
    list.add(format!("{module}.weight_v"), &shape);
    if bias {
        list.add(format!("{module}.bias"), &shape[..1]);
    }
}

/// A weight-normalised transposed convolution `(in, out, kernel)`: the gain is per input channel.
fn transposed_conv(list: &mut List, module: &str, shape: [usize; 3]) {
    list.add(format!("{module}.weight_g"), &[shape[0], 1, 1]);
    list.add(format!("{module}.weight_v"), &shape);
    list.add(format!("{module}.bias"), &shape[1..2]);
}

/// An alias-free snake: its parameters and the two stored filters.
fn activation(list: &mut List, module: &str, width: usize) {
    list.add(format!("{module}.act.alpha"), &[width]);
    list.add(format!("{module}.act.beta"), &[width]);
    list.marked(TensorUse::Buffer, |list| {
        list.add(format!("{module}.upsample.filter"), &[1, 1, FILTER_TAPS]);
        list.add(format!("{module}.downsample.lowpass.filter"), &[1, 1, FILTER_TAPS]);
    });
}
