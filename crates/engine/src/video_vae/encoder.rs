//! The causal convolutions over one clip of one tile.

use super::encoder_weights::{Convolution, EncoderWeights, LevelWeights, ResidualWeights};
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::VideoVaeConfig;
use crate::ops::{Activation, DType, GroupNorm, OpError, Ops, Tensor, View, ViewMut};
use crate::projection::Affine;
use crate::run::{Run, RunError};
use crate::weights::WeightSource;

/// The size of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Features {
    channels: usize,
    /// Frames, rows and columns.
    size: [usize; 3],
}

impl Features {
    fn pixels(&self) -> usize {
        self.size[1] * self.size[2]
    }

    fn elements(&self) -> usize {
        [self.channels, self.size[0], self.pixels()].into_iter().fold(1, usize::saturating_mul)
    }

    fn shape(&self) -> [usize; 4] {
        let [frames, height, width] = self.size;
        [self.channels, frames, height, width]
    }

    /// The activation in front of a buffer.
    fn of<'a, B>(&self, buffer: &'a Tensor<B>) -> View<'a, B> {
        buffer.view().narrow(0, 0..self.elements()).reshape(self.shape())
    }

    /// The same, for writing.
    fn of_mut<'a, B>(&self, buffer: &'a mut Tensor<B>) -> ViewMut<'a, B> {
        buffer.view_mut().narrow(0, 0..self.elements()).reshape(self.shape())
    }
}

/// The buffers of one tile's encode: each holds one activation at a time.
pub(crate) struct EncodeBuffers<B> {
    /// The residual stream.
    hidden: Tensor<B>,
    /// A norm's result.
    normed: Tensor<B>,
    /// A branch's result.
    branch: Tensor<B>,
}

impl<B: Send + Sync> EncodeBuffers<B> {
    /// Plans the buffers for clips of `size` frames, rows and columns.
    pub(crate) fn plan(config: &VideoVaeConfig, size: [usize; 3]) -> ActivationPlan {
        let largest = largest_activation(config, size);
        let names = ["hidden", "normed", "branch"];
        ActivationPlan::new(names.map(|name| Planned::new(name, DType::F32, [largest])).to_vec())
    }

    /// Makes the buffers.
    pub(super) fn make<O: Ops<Buffer = B>>(
        ops: &O,
        config: &VideoVaeConfig,
        size: [usize; 3],
    ) -> Result<Self, OpError> {
        let plan = Self::plan(config, size);
        let make = |name| plan.make(ops, name);
        Ok(Self { hidden: make("hidden")?, normed: make("normed")?, branch: make("branch")? })
    }
}

/// How many values the largest activation has.
fn largest_activation(config: &VideoVaeConfig, size: [usize; 3]) -> usize {
    let [mut frames, mut height, mut width] = size;
    let mut channels = config.in_channels;
    let mut largest = 0;
    let strides = config.spatial_downsample.iter().zip(&config.temporal_downsample);
    for (&level, (&space, &time)) in config.block_out_channels.iter().zip(strides) {
        channels = channels.max(level);
        largest = largest.max(Features { channels, size: [frames, height, width] }.elements());
        channels = level;
        [frames, height, width] = [frames.div_ceil(time), height.div_ceil(space), width.div_ceil(space)];
    }
    channels = channels.max(2 * config.latent_channels);
    largest.max(Features { channels, size: [frames, height, width] }.elements())
}

/// How far an encode has come: obeys before each step and reports behind it.
pub(super) struct Steps<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) done: usize,
    pub(super) total: usize,
}

impl Steps<'_, '_> {
    /// How many steps one clip of one tile takes.
    pub(super) fn per_tile(config: &VideoVaeConfig) -> usize {
        let halvings = config.spatial_downsample.iter().filter(|space| **space > 1).count();
        config.block_out_channels.len() * config.layers_per_block + halvings + 2
    }

    fn take<T>(&mut self, step: impl FnOnce() -> Result<T, OpError>) -> Result<T, RunError> {
        self.run.check()?;
        let result = step()?;
        self.done += 1;
        self.run.part(self.done, self.total);
        Ok(result)
    }
}

/// One encoder over the buffers of one tile.
pub(super) struct TileEncoder<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) config: &'a VideoVaeConfig,
    pub(super) weights: &'a EncoderWeights<O::Buffer>,
    pub(super) levels: &'a dyn WeightSource<O, LevelWeights<O::Buffer>>,
}

impl<O: Ops> TileEncoder<'_, O> {
    /// Encodes `pixels` `[3, frames, height, width]` of `size` to moments, which are the returned view of a buffer:
    /// `[2 · channels, latent frames, rows, columns]`.
    ///
    /// With `tapped`, its intermediate tensors are shown to the tap.
    pub(super) fn encode<'b>(
        &self,
        pixels: &[f32],
        size: [usize; 3],
        buffers: &'b mut EncodeBuffers<O::Buffer>,
        steps: &mut Steps<'_, '_>,
        tapped: bool,
    ) -> Result<View<'b, O::Buffer>, RunError> {
        let ops = self.ops;
        let input = Features { channels: self.config.in_channels, size };
        let mut features = steps.take(|| {
            ops.write(pixels, input.of_mut(&mut buffers.branch))?;
            self.convolve(&self.weights.conv_in, input, &buffers.branch, &mut buffers.hidden)
        })?;
        if tapped {
            let first_row = features.of(&buffers.hidden).select(2, 0);
            steps.run.tap.see("vae.conv_in_row0", first_row.shape(), &|| ops.read(first_row))?;
        }
        for index in 0..self.levels.len() {
            let level = self.levels.block(ops, index)?;
            for block in &level.blocks {
                features = steps.take(|| self.residual(block, features, buffers))?;
            }
            if let Some(downsample) = &level.downsample {
                features = steps.take(|| {
                    let smaller = self.convolve(downsample, features, &buffers.hidden, &mut buffers.branch)?;
                    std::mem::swap(&mut buffers.hidden, &mut buffers.branch);
                    Ok(smaller)
                })?;
            }
            if tapped {
                let out = features.of(&buffers.hidden);
                steps.run.tap.see(&format!("vae.down_{index}"), out.shape(), &|| ops.read(out))?;
            }
        }
        let moments = steps.take(|| {
            self.norm_silu(&self.weights.norm_out, features, &buffers.hidden, &mut buffers.normed)?;
            self.convolve(&self.weights.conv_out, features, &buffers.normed, &mut buffers.branch)
        })?;
        if tapped {
            let out = moments.of(&buffers.branch);
            steps.run.tap.see("vae.conv_out", out.shape(), &|| ops.read(out))?;
        }
        self.convolve(&self.weights.quant_conv, moments, &buffers.branch, &mut buffers.hidden)?;
        Ok(moments.of(&buffers.hidden))
    }

    /// Runs the residual stream through one block, in place.
    fn residual(
        &self,
        weights: &ResidualWeights<O::Buffer>,
        features: Features,
        buffers: &mut EncodeBuffers<O::Buffer>,
    ) -> Result<Features, OpError> {
        let EncodeBuffers { hidden, normed, branch } = buffers;
        self.norm_silu(&weights.norm1, features, hidden, normed)?;
        let inner = self.convolve(&weights.conv1, features, normed, branch)?;
        self.norm_silu(&weights.norm2, inner, branch, normed)?;
        let out = self.convolve(&weights.conv2, inner, normed, branch)?;
        if let Some(shortcut) = &weights.shortcut {
            self.convolve(shortcut, features, hidden, normed)?;
            std::mem::swap(hidden, normed);
        }
        self.ops.add(out.of(branch), out.of_mut(hidden))?;
        Ok(out)
    }

    fn convolve(
        &self,
        convolution: &Convolution<O::Buffer>,
        features: Features,
        x: &Tensor<O::Buffer>,
        y: &mut Tensor<O::Buffer>,
    ) -> Result<Features, OpError> {
        let size = convolution.output(features.size).ok_or_else(|| OpError::Shape {
            op: "causal_conv3d",
            name: "x",
            expected: vec![features.channels, 1, 2, 2],
            actual: features.shape().to_vec(),
        })?;
        let out = Features { channels: convolution.outputs(), size };
        convolution.apply(self.ops, features.of(x), out.of_mut(y))?;
        Ok(out)
    }

    fn norm_silu(
        &self,
        norm: &Affine<O::Buffer>,
        features: Features,
        x: &Tensor<O::Buffer>,
        y: &mut Tensor<O::Buffer>,
    ) -> Result<(), OpError> {
        let flat = [features.channels, features.size[0], features.pixels()];
        let norm = GroupNorm {
            weight: norm.weight.view(),
            bias: norm.bias.view(),
            groups: self.config.norm_num_groups,
            eps: self.config.norm_eps as f32,
        };
        let (x, y) = (features.of(x).reshape(flat), features.of_mut(y).reshape(flat));
        self.ops.group_norm(norm, Some(Activation::Silu), x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_released_tile_hold_its_first_level() {
        let config = VideoVaeConfig::released();
        assert_eq!(largest_activation(&config, [17, 256, 256]), 128 * 17 * 256 * 256);
        assert_eq!(Steps::per_tile(&config), 18);
    }
}
