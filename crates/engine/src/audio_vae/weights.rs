//! The decoder's weights, and how weights of both halves are taken: weight normalisation is folded then.

use crate::checkpoint::{AudioVaeConfig, Component, StoredDtype};
use crate::load::LoadError;
use crate::ops::{AliasFreeSnake, Conv1dShape, DType, Dims, Ops, Tensor};

/// A convolution, folded.
pub(super) struct Conv<B> {
    pub(super) weight: Tensor<B>,
    pub(super) bias: Option<Tensor<B>>,
    pub(super) shape: Conv1dShape,
}

/// An alias-free periodic activation.
pub(super) struct Snake<B> {
    upsample: Tensor<B>,
    downsample: Tensor<B>,
    alpha: Tensor<B>,
    beta: Tensor<B>,
}

impl<B> Snake<B> {
    /// What the operation takes.
    pub(super) fn parameters(&self) -> AliasFreeSnake<'_, B> {
        let taps = self.upsample.shape()[2];
        AliasFreeSnake {
            upsample: self.upsample.view().reshape([taps]),
            downsample: self.downsample.view().reshape([taps]),
            alpha: self.alpha.view(),
            beta: self.beta.view(),
        }
    }
}

/// One layer of a residual block: activation, dilated convolution, activation, convolution.
pub(super) struct ResidualLayer<B> {
    pub(super) activation1: Snake<B>,
    pub(super) conv1: Conv<B>,
    pub(super) activation2: Snake<B>,
    pub(super) conv2: Conv<B>,
}

/// An upsampling convolution and the residual blocks whose mean follows it.
pub(super) struct Stage<B> {
    pub(super) upsample: Conv<B>,
    pub(super) rate: usize,
    pub(super) channels: usize,
    pub(super) blocks: Vec<Vec<ResidualLayer<B>>>,
}

/// The whole decoder.
pub(super) struct Weights<B> {
    pub(super) in_proj: Conv<B>,
    pub(super) conv_pre: Conv<B>,
    pub(super) stages: Vec<Stage<B>>,
    pub(super) activation_post: Snake<B>,
    pub(super) conv_post: Conv<B>,
}

impl<B: Send + Sync> Weights<B> {
    pub(super) fn load<O: Ops<Buffer = B>>(
        ops: &O,
        component: &Component,
        config: &AudioVaeConfig,
    ) -> Result<Self, LoadError> {
        Loader { ops, component }.decoder(config)
    }
}

/// Length of the alias-free filters: fixed in the network's code, not in any config.
const FILTER_TAPS: usize = 12;

/// Takes tensors of the component.
pub(super) struct Loader<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) component: &'a Component,
}

impl<O: Ops> Loader<'_, O> {
    fn decoder(&self, config: &AudioVaeConfig) -> Result<Weights<O::Buffer>, LoadError> {
        let plain = Conv1dShape { padding: 0, stride: 1, dilation: 1 };
        let wide = Conv1dShape { padding: 3, ..plain };
        let in_proj = Conv {
            weight: self.tensor("dec_in_proj.weight", &[config.latent_dim, config.latent_channels, 1])?,
            bias: Some(self.tensor("dec_in_proj.bias", &[config.latent_dim])?),
            shape: plain,
        };
        let stages =
            (0..config.decoder_rates.len()).map(|index| self.stage(config, index)).collect::<Result<_, _>>()?;
        let last = config.decoder_dim >> config.decoder_rates.len();
        Ok(Weights {
            in_proj,
            conv_pre: self.conv("decoder.conv_pre", [config.decoder_dim, config.latent_dim, 7], true, wide)?,
            stages,
            activation_post: self.snake("decoder.activation_post", last)?,
            conv_post: self.conv("decoder.conv_post", [1, last, 7], false, wide)?,
        })
    }

    fn stage(&self, config: &AudioVaeConfig, index: usize) -> Result<Stage<O::Buffer>, LoadError> {
        let (rate, kernel) = (config.decoder_rates[index], config.decoder_kernel_sizes[index]);
        let (wide, channels) = (config.decoder_dim >> index, config.decoder_dim >> (index + 1));
        let shape = Conv1dShape { padding: (kernel - rate) / 2, stride: rate, dilation: 1 };
        let upsample = self.transposed_conv(&format!("decoder.ups.{index}.0"), [wide, channels, kernel], shape)?;
        let kinds = config.resblock_kernel_sizes.iter().zip(&config.resblock_dilation_sizes);
        let blocks = kinds
            .enumerate()
            .map(|(kind, (&kernel, dilations))| {
                let prefix = format!("decoder.resblocks.{}", index * config.resblock_kernel_sizes.len() + kind);
                self.residual_block(&prefix, channels, kernel, dilations)
            })
            .collect::<Result<_, _>>()?;
        Ok(Stage { upsample, rate, channels, blocks })
    }

    fn residual_block(
        &self,
        prefix: &str,
        channels: usize,
        kernel: usize,
        dilations: &[usize],
    ) -> Result<Vec<ResidualLayer<O::Buffer>>, LoadError> {
        let conv = |group: &str, layer: usize, dilation: usize| {
            let shape = Conv1dShape { padding: (kernel - 1) * dilation / 2, stride: 1, dilation };
            self.conv(&format!("{prefix}.{group}.{layer}"), [channels, channels, kernel], true, shape)
        };
        let layers = dilations.iter().enumerate().map(|(layer, &dilation)| {
            Ok(ResidualLayer {
                activation1: self.snake(&format!("{prefix}.activations.{}", 2 * layer), channels)?,
                conv1: conv("convs1", layer, dilation)?,
                activation2: self.snake(&format!("{prefix}.activations.{}", 2 * layer + 1), channels)?,
                conv2: conv("convs2", layer, 1)?,
            })
        });
        layers.collect()
    }

    fn snake(&self, prefix: &str, channels: usize) -> Result<Snake<O::Buffer>, LoadError> {
        let filter = [1, 1, FILTER_TAPS];
        Ok(Snake {
            upsample: self.tensor(&format!("{prefix}.upsample.filter"), &filter)?,
            downsample: self.tensor(&format!("{prefix}.downsample.lowpass.filter"), &filter)?,
            alpha: self.tensor(&format!("{prefix}.act.alpha"), &[channels])?,
            beta: self.tensor(&format!("{prefix}.act.beta"), &[channels])?,
        })
    }

    /// A convolution `[outputs, inputs, taps]`.
    pub(super) fn conv(
        &self,
        name: &str,
        sizes: [usize; 3],
        biased: bool,
        shape: Conv1dShape,
    ) -> Result<Conv<O::Buffer>, LoadError> {
        let bias = if biased { Some(self.tensor(&format!("{name}.bias"), &sizes[..1])?) } else { None };
        Ok(Conv { weight: self.folded(name, sizes)?, bias, shape })
    }

    /// A transposed convolution `[inputs, outputs, taps]`; its norms go over each input's outputs and taps.
    fn transposed_conv(&self, name: &str, sizes: [usize; 3], shape: Conv1dShape) -> Result<Conv<O::Buffer>, LoadError> {
        let bias = Some(self.tensor(&format!("{name}.bias"), &sizes[1..2])?);
        Ok(Conv { weight: self.folded(name, sizes)?, bias, shape })
    }

    /// Returns the weight that a pair of length and direction stands for.
    fn folded(&self, name: &str, sizes: [usize; 3]) -> Result<Tensor<O::Buffer>, LoadError> {
        let length = self.component.expect_values(&format!("{name}.weight_g"), &[sizes[0], 1, 1])?;
        let tensor = format!("{name}.weight_v");
        let mut weight = self.component.expect_values(&tensor, &sizes)?;
        fold(&length, &mut weight).map_err(|row| LoadError::Norm { tensor, row })?;
        let mut folded = self.ops.alloc(DType::F32, Dims::new(&sizes))?;
        self.ops.write(&weight, folded.view_mut())?;
        Ok(folded)
    }

    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<O::Buffer>, LoadError> {
        Ok(self.ops.weight(&self.component.expect(name, shape, &[StoredDtype::F32])?)?)
    }
}

/// Gives each row of `direction` the length `length[row]`: `w = g · v / ‖v‖`, the norm over all axes but the first.
///
/// Errors: the row whose norm is zero or not finite.
fn fold(length: &[f32], direction: &mut [f32]) -> Result<(), usize> {
    let width = direction.len() / length.len();
    for (row, (v, g)) in direction.chunks_exact_mut(width).zip(length).enumerate() {
        let norm = v.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt() as f32;
        if !norm.is_finite() || norm <= 0.0 {
            return Err(row);
        }
        let factor = g / norm;
        v.iter_mut().for_each(|v| *v *= factor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_gives_every_row_its_length() {
        let mut weight = [3.0, 4.0, 0.0, -2.0];
        fold(&[10.0, 1.0], &mut weight).unwrap();
        assert_eq!(weight, [6.0, 8.0, 0.0, -1.0]);
        assert_eq!(fold(&[1.0, 1.0], &mut [1.0, 0.0, 0.0, 0.0]), Err(1));
        assert_eq!(fold(&[1.0], &mut [f32::NAN, 0.0]), Err(0));
    }
}
