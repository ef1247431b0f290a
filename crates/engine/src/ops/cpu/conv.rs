//! One-dimensional convolutions, by candle-core.

use candle_core::{Device, Tensor as Candle};

use super::buffer::{HostBuffer, load_all, store_all};
use super::linear::backend;
use crate::ops::{Conv1dShape, OpError, View, ViewMut};

pub(super) fn conv1d(
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    shape: Conv1dShape,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    convolve("conv1d", w, bias, x, y, |x, w| x.conv1d(w, shape.padding, shape.stride, shape.dilation, 1))
}

pub(super) fn conv_transpose1d(
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    shape: Conv1dShape,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    convolve("conv_transpose1d", w, bias, x, y, |x, w| {
        x.conv_transpose1d(w, shape.padding, 0, shape.stride, shape.dilation, 1)
    })
}

fn convolve(
    op: &'static str,
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    x: View<'_, HostBuffer>,
    mut y: ViewMut<'_, HostBuffer>,
    run: impl Fn(&Candle, &Candle) -> candle_core::Result<Candle>,
) -> Result<(), OpError> {
    let candle = |name: &'static str, view: &View<'_, HostBuffer>| -> Result<Candle, OpError> {
        Candle::from_vec(load_all(op, name, view)?, view.shape(), &Device::Cpu).map_err(backend(op))
    };
    let mut out = run(&candle("x", &x)?, &candle("w", &w)?).map_err(backend(op))?;
    y.expect_shape(op, "y", out.dims())?;
    if let Some(bias) = bias {
        bias.expect_shape(op, "bias", &[out.dims()[1]])?;
        let bias = candle("bias", &bias)?.reshape((1, (), 1)).map_err(backend(op))?;
        out = out.broadcast_add(&bias).map_err(backend(op))?;
    }
    let values = out.flatten_all().and_then(|out| out.to_vec1()).map_err(backend(op))?;
    store_all(op, "y", &values, &mut y)
}
