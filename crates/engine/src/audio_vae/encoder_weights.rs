//! The encoder's weights.

use super::weights::{Conv, Loader};
use crate::checkpoint::{AudioVaeConfig, Component, StoredDtype};
use crate::load::LoadError;
use crate::ops::{Conv1dShape, DType, Ops, Tensor, View};
use crate::projection::{Affine, Linear};

/// A periodic activation; its frequencies are stored as `[1, channels, 1]`.
pub(super) struct Snake<B>(Tensor<B>);

impl<B> Snake<B> {
    /// Frequencies `[channels]`.
    pub(super) fn alpha(&self) -> View<'_, B> {
        self.0.view().reshape([self.0.shape()[1]])
    }
}

/// Activation, dilated convolution, activation, convolution of one tap; added to what went in.
pub(super) struct ResidualUnit<B> {
    pub(super) snake1: Snake<B>,
    pub(super) conv1: Conv<B>,
    pub(super) snake2: Snake<B>,
    pub(super) conv2: Conv<B>,
}

/// Residual units and the convolution that shortens by the stride and doubles the channels.
pub(super) struct EncoderBlock<B> {
    pub(super) units: Vec<ResidualUnit<B>>,
    pub(super) snake: Snake<B>,
    pub(super) downsample: Conv<B>,
    /// Channels after the block.
    pub(super) channels: usize,
}

/// The causal attention that narrows rows to the latents' width, and the gated feed-forward after it.
pub(super) struct PreBlock<B> {
    pub(super) attention_norm: Affine<B>,
    /// Query, key and value after one another; the key's bias is the checkpoint's zeros.
    pub(super) qkv: Linear<B>,
    /// Mean over heads, then over neighbouring channels of a head, as a matrix `[latent channels, width]`.
    pub(super) pool: Tensor<B>,
    pub(super) attention_out: Linear<B>,
    pub(super) skip_norm: Affine<B>,
    pub(super) skip: Linear<B>,
    pub(super) norm: Affine<B>,
    pub(super) inner_norm: Affine<B>,
    pub(super) gate: Linear<B>,
    pub(super) up: Linear<B>,
    pub(super) down: Linear<B>,
}

/// The whole encoder.
pub(super) struct EncoderWeights<B> {
    pub(super) conv_first: Conv<B>,
    pub(super) blocks: Vec<EncoderBlock<B>>,
    pub(super) snake_last: Snake<B>,
    pub(super) conv_last: Conv<B>,
    pub(super) pre_block: PreBlock<B>,
    /// The head that gives the posterior's mean.
    pub(super) mean: Linear<B>,
}

impl<B: Send + Sync> EncoderWeights<B> {
    pub(super) fn load<O: Ops<Buffer = B>>(
        ops: &O,
        component: &Component,
        config: &AudioVaeConfig,
    ) -> Result<Self, LoadError> {
        Loader { ops, component }.encoder(config)
    }
}

/// Fixed in the network's code, not in any config.
const DILATIONS: [usize; 3] = [1, 3, 9];
const UNIT_KERNEL: usize = 7;
/// Width of the feed-forward over that of the latents.
const FEED_FORWARD_RATIO: usize = 2;

impl<O: Ops> Loader<'_, O> {
    fn encoder(&self, config: &AudioVaeConfig) -> Result<EncoderWeights<O::Buffer>, LoadError> {
        let (first, last) = (config.encoder_dim, config.encoder_dim << config.encoder_rates.len());
        let same = |kernel: usize| Conv1dShape { padding: kernel / 2, stride: 1, dilation: 1 };
        let blocks = config
            .encoder_rates
            .iter()
            .enumerate()
            .map(|(index, stride)| self.encoder_block(&format!("encoder.block.{}", index + 1), first << index, *stride))
            .collect::<Result<_, _>>()?;
        let after = config.encoder_rates.len() + 1;
        let latents = config.latent_channels;
        Ok(EncoderWeights {
            conv_first: self.conv("encoder.block.0", [first, 1, 7], true, same(7))?,
            blocks,
            snake_last: self.channel_snake(&format!("encoder.block.{after}"), last)?,
            conv_last: self.conv(
                &format!("encoder.block.{}", after + 1),
                [config.latent_dim, last, 3],
                true,
                same(3),
            )?,
            pre_block: self.pre_block(config)?,
            mean: self.pointwise("mean_proj", latents, latents)?,
        })
    }

    fn encoder_block(&self, name: &str, channels: usize, stride: usize) -> Result<EncoderBlock<O::Buffer>, LoadError> {
        let units = DILATIONS
            .iter()
            .enumerate()
            .map(|(index, dilation)| {
                let unit = format!("{name}.block.{index}.block");
                let padding = (UNIT_KERNEL - 1) * dilation / 2;
                let dilated = Conv1dShape { padding, stride: 1, dilation: *dilation };
                let pointwise = Conv1dShape { padding: 0, stride: 1, dilation: 1 };
                Ok(ResidualUnit {
                    snake1: self.channel_snake(&format!("{unit}.0"), channels)?,
                    conv1: self.conv(&format!("{unit}.1"), [channels, channels, UNIT_KERNEL], true, dilated)?,
                    snake2: self.channel_snake(&format!("{unit}.2"), channels)?,
                    conv2: self.conv(&format!("{unit}.3"), [channels, channels, 1], true, pointwise)?,
                })
            })
            .collect::<Result<_, LoadError>>()?;
        let strided = Conv1dShape { padding: stride.div_ceil(2), stride, dilation: 1 };
        Ok(EncoderBlock {
            units,
            snake: self.channel_snake(&format!("{name}.block.3"), channels)?,
            downsample: self.conv(&format!("{name}.block.4"), [2 * channels, channels, 2 * stride], true, strided)?,
            channels: 2 * channels,
        })
    }

    fn channel_snake(&self, name: &str, channels: usize) -> Result<Snake<O::Buffer>, LoadError> {
        Ok(Snake(self.tensor(&format!("{name}.alpha"), &[1, channels, 1])?))
    }

    fn pre_block(&self, config: &AudioVaeConfig) -> Result<PreBlock<O::Buffer>, LoadError> {
        let (width, latents) = (config.latent_dim, config.latent_channels);
        let inner = FEED_FORWARD_RATIO * latents;
        let heads = config.num_attention_heads;
        Ok(PreBlock {
            attention_norm: self.norm("pre_block.norm1", width)?,
            qkv: Linear {
                weight: self.tensor("pre_block.attn.qkv.weight", &[3 * width, width])?,
                bias: self.qkv_bias(width)?,
            },
            pool: self.upload(&pooling(heads, width / heads, latents), &[latents, width])?,
            attention_out: self.linear("pre_block.attn.proj", latents, latents)?,
            skip_norm: self.norm("pre_block.norm3", width)?,
            skip: self.linear("pre_block.proj", latents, width)?,
            norm: self.norm("pre_block.norm2", latents)?,
            inner_norm: self.norm("pre_block.mlp.norm", latents)?,
            gate: self.linear("pre_block.mlp.w0", inner, latents)?,
            up: self.linear("pre_block.mlp.w1", inner, latents)?,
            down: self.linear("pre_block.mlp.w2", latents, inner)?,
        })
    }

    /// Joins the three biases, which are stored apart.
    fn qkv_bias(&self, width: usize) -> Result<Tensor<O::Buffer>, LoadError> {
        let mut bias = Vec::with_capacity(3 * width);
        for name in ["q_bias", "zero_k_bias", "v_bias"] {
            bias.extend(self.component.expect_values(&format!("pre_block.attn.{name}"), &[width])?);
        }
        self.upload(&bias, &[3 * width])
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear<O::Buffer>, LoadError> {
        Linear::take(name, [outputs, inputs], |name, shape| self.tensor(name, shape))
    }

    /// A convolution of one tap, as a projection.
    fn pointwise(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear<O::Buffer>, LoadError> {
        let kernel = [outputs, inputs, 1];
        let mut stored = self.component.expect(&format!("{name}.weight"), &kernel, &[StoredDtype::F32])?;
        stored.shape = vec![outputs, inputs];
        Ok(Linear { weight: self.ops.weight(&stored)?, bias: self.tensor(&format!("{name}.bias"), &[outputs])? })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Affine<O::Buffer>, LoadError> {
        Affine::take(name, width, |name, shape| self.tensor(name, shape))
    }

    fn upload(&self, values: &[f32], shape: &[usize]) -> Result<Tensor<O::Buffer>, LoadError> {
        let mut tensor = self.ops.alloc(DType::F32, shape.into())?;
        self.ops.write(values, tensor.view_mut())?;
        Ok(tensor)
    }
}

/// Returns the matrix `[outputs, heads · head_dim]` that takes the mean over heads and pools a head's channels.
///
/// Adaptive average pooling: output `o` is the mean of channels `⌊o·d/n⌋ .. ⌈(o+1)·d/n⌉`, which overlap where `n` does
/// not divide `d`.
fn pooling(heads: usize, head_dim: usize, outputs: usize) -> Vec<f32> {
    let mut matrix = vec![0.0; outputs * heads * head_dim];
    for (output, row) in matrix.chunks_exact_mut(heads * head_dim).enumerate() {
        let channels = output * head_dim / outputs..((output + 1) * head_dim).div_ceil(outputs);
        let share = 1.0 / (channels.len() * heads) as f32;
        row.chunks_exact_mut(head_dim).for_each(|head| head[channels.clone()].fill(share));
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_takes_equal_groups_of_every_head() {
        assert_eq!(
            pooling(2, 4, 2),
            [0.25, 0.25, 0.0, 0.0, 0.25, 0.25, 0.0, 0.0]
                .into_iter()
                .chain([0.0, 0.0, 0.25, 0.25, 0.0, 0.0, 0.25, 0.25,])
                .collect::<Vec<f32>>()
        );
    }

    #[test]
    fn pooling_overlaps_where_it_does_not_divide() {
        // torch: adaptive_avg_pool1d of 5 channels to 3 takes 0..2, 1..4, 3..5.
        let third = 1.0 / 3.0;
        let expected = [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, third, third, third, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5];
        assert_eq!(pooling(1, 5, 3), expected);
    }

    #[test]
    fn pooling_widens_by_repeating() {
        assert_eq!(pooling(1, 2, 4), [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    }
}
