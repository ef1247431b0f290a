//! The encoder's weights, typed; all of them F32.

use crate::checkpoint::{Component, StoredDtype, VideoVaeConfig};
use crate::load::LoadError;
use crate::ops::{CausalConv3dShape, OpError, Ops, Tensor, View, ViewMut};
use crate::projection::Affine;

/// A convolution.
pub struct Convolution<B> {
    shape: CausalConv3dShape,
    /// `[out, in, taps]`.
    pub weight: Tensor<B>,
    /// `[out]`.
    pub bias: Tensor<B>,
}

impl<B> Convolution<B> {
    /// Returns the channels that come out.
    pub fn outputs(&self) -> usize {
        self.bias.shape()[0]
    }

    /// Returns the frames, rows and columns that come out; none where they are too few.
    pub fn output(&self, size: [usize; 3]) -> Option<[usize; 3]> {
        self.shape.output(size)
    }

    /// Convolves `x` `[in, frames, height, width]` into `y`.
    ///
    /// Errors: [`OpError`] when shapes do not fit.
    pub fn apply<O: Ops<Buffer = B>>(&self, ops: &O, x: View<'_, B>, y: ViewMut<'_, B>) -> Result<(), OpError> {
        ops.causal_conv3d(self.weight.view(), Some(self.bias.view()), self.shape, x, y)
    }
}

/// One residual block.
pub struct ResidualWeights<B> {
    /// `[in]`.
    pub norm1: Affine<B>,
    /// Input channels to the level's width.
    pub conv1: Convolution<B>,
    /// `[width]`.
    pub norm2: Affine<B>,
    /// The level's width to itself.
    pub conv2: Convolution<B>,
    /// What the input goes through where the width changes.
    pub shortcut: Option<Convolution<B>>,
}

/// One level: blocks of one width, then a smaller picture, but for the last levels.
pub struct LevelWeights<B> {
    /// The residual blocks.
    pub blocks: Vec<ResidualWeights<B>>,
    /// Halves the sides, and where it says so the frames.
    pub downsample: Option<Convolution<B>>,
}

/// Everything of the encoder outside its levels.
pub struct EncoderWeights<B> {
    /// Colours to the first width.
    pub conv_in: Convolution<B>,
    /// The norm after the levels.
    pub norm_out: Affine<B>,
    /// The last width to moments.
    pub conv_out: Convolution<B>,
    /// The projection of each moment behind it.
    pub quant_conv: Convolution<B>,
}

/// Takes tensors of the encoder.
pub(super) struct EncoderLoader<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) component: &'a Component,
    pub(super) config: &'a VideoVaeConfig,
}

impl<O: Ops> EncoderLoader<'_, O> {
    /// Takes everything outside the levels.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn frame(&self) -> Result<EncoderWeights<O::Buffer>, LoadError> {
        let moments = 2 * self.config.latent_channels;
        let (same, pointwise) = (CausalConv3dShape::SAME, CausalConv3dShape::POINTWISE);
        let last = self.width(self.config.block_out_channels.len());
        Ok(EncoderWeights {
            conv_in: self.convolution("encoder.conv_in", same, self.width(0), self.config.in_channels)?,
            norm_out: self.norm("encoder.norm_out", last)?,
            conv_out: self.convolution("encoder.conv_out", same, moments, last)?,
            quant_conv: self.convolution("quant_conv", pointwise, moments, moments)?,
        })
    }

    /// Takes level `index`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn level(&self, index: usize) -> Result<LevelWeights<O::Buffer>, LoadError> {
        let width = self.config.block_out_channels[index];
        let blocks = (0..self.config.layers_per_block)
            .map(|block| {
                let inputs = if block == 0 { self.width(index) } else { width };
                self.block(&format!("encoder.down.{index}.block.{block}"), inputs, width)
            })
            .collect::<Result<_, _>>()?;
        let halves = self.config.spatial_downsample[index] > 1;
        let shape = CausalConv3dShape::halving(self.config.temporal_downsample[index]);
        let downsample = format!("encoder.down.{index}.downsample.conv");
        let downsample = halves.then(|| self.convolution(&downsample, shape, width, width)).transpose()?;
        Ok(LevelWeights { blocks, downsample })
    }

    /// The channels that level `index` takes: what the one before it makes.
    fn width(&self, index: usize) -> usize {
        self.config.block_out_channels[index.saturating_sub(1)]
    }

    fn block(&self, name: &str, inputs: usize, width: usize) -> Result<ResidualWeights<O::Buffer>, LoadError> {
        let shortcut = format!("{name}.nin_shortcut");
        let pointwise = CausalConv3dShape::POINTWISE;
        Ok(ResidualWeights {
            norm1: self.norm(&format!("{name}.norm1"), inputs)?,
            conv1: self.convolution(&format!("{name}.conv1"), CausalConv3dShape::SAME, width, inputs)?,
            norm2: self.norm(&format!("{name}.norm2"), width)?,
            conv2: self.convolution(&format!("{name}.conv2"), CausalConv3dShape::SAME, width, width)?,
            shortcut: (inputs != width).then(|| self.convolution(&shortcut, pointwise, width, inputs)).transpose()?,
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Affine<O::Buffer>, LoadError> {
        Affine::take(name, width, |name, shape| self.tensor(name, shape, shape))
    }

    fn convolution(
        &self,
        name: &str,
        shape: CausalConv3dShape,
        outputs: usize,
        inputs: usize,
    ) -> Result<Convolution<O::Buffer>, LoadError> {
        let (time, side) = (shape.kernel.time, shape.kernel.side);
        let stored = [outputs, inputs, time, side, side];
        Ok(Convolution {
            shape,
            weight: self.tensor(&format!("{name}.weight"), &stored, &[outputs, inputs, shape.taps()])?,
            bias: self.tensor(&format!("{name}.bias"), &[outputs], &[outputs])?,
        })
    }

    /// Takes a tensor that is stored in one shape as one of another.
    fn tensor(&self, name: &str, stored: &[usize], shape: &[usize]) -> Result<Tensor<O::Buffer>, LoadError> {
        let mut tensor = self.component.expect(name, stored, &[StoredDtype::F32])?;
        tensor.shape = shape.to_vec();
        Ok(self.ops.weight(&tensor)?)
    }
}
