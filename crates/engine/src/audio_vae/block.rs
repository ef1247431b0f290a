//! Residual blocks and the convolutions around them.

use super::weights::{Conv, ResidualLayer};
use crate::ops::{OpError, Ops, Tensor, View, ViewMut};
use crate::tap::Tap;

/// Runs `hidden` through a residual block, in place; `bent` and `branch` are scratch of its shape.
///
/// `tap` is given for the block whose internals are compared.
pub(super) fn residual_block<O: Ops>(
    ops: &O,
    layers: &[ResidualLayer<O::Buffer>],
    hidden: &mut Tensor<O::Buffer>,
    bent: &mut Tensor<O::Buffer>,
    branch: &mut Tensor<O::Buffer>,
    mut tap: Option<&mut dyn Tap>,
) -> Result<(), OpError> {
    for (index, layer) in layers.iter().enumerate() {
        ops.alias_free_snake(layer.activation1.parameters(), hidden.view(), bent.view_mut())?;
        if index == 0
            && let Some(tap) = tap.as_deref_mut()
        {
            tap.see("audio_vae.resblock0_act0", bent.shape(), &|| ops.read(bent.view()))?;
        }
        convolve(ops, &layer.conv1, bent.view(), branch.view_mut())?;
        ops.alias_free_snake(layer.activation2.parameters(), branch.view(), bent.view_mut())?;
        convolve(ops, &layer.conv2, bent.view(), branch.view_mut())?;
        ops.add(branch.view(), hidden.view_mut())?;
    }
    if let Some(tap) = tap {
        tap.see("audio_vae.resblock0", hidden.shape(), &|| ops.read(hidden.view()))?;
    }
    Ok(())
}

/// A convolution with its bias.
pub(super) fn convolve<O: Ops>(
    ops: &O,
    conv: &Conv<O::Buffer>,
    x: View<'_, O::Buffer>,
    y: ViewMut<'_, O::Buffer>,
) -> Result<(), OpError> {
    ops.conv1d(conv.weight.view(), conv.bias.as_ref().map(Tensor::view), conv.shape, x, y)
}
