//! Activations of the audio VAE.

use super::Cuda;
use super::buffer::CudaBuffer;
use super::kernels::{Grid, MOST_SHARED_BYTES, argument};
use super::rows::{input, output, small};
use crate::ops::{AliasFreeSnake, DType, OpError, View, ViewMut};

/// Outputs of one block of the alias-free activation; mirrors `SNAKE_OUTPUTS` of `audio.cuh`.
const SNAKE_OUTPUTS: u32 = 256;

fn expect_f32(op: &'static str, operands: [(&'static str, DType); 2]) -> Result<(), OpError> {
    match operands.into_iter().find(|(_, dtype)| *dtype != DType::F32) {
        Some((name, actual)) => Err(OpError::DType { op, name, actual }),
        None => Ok(()),
    }
}

impl Cuda {
    pub(super) fn snake_of(
        &self,
        alpha: View<'_, CudaBuffer>,
        x: View<'_, CudaBuffer>,
        y: ViewMut<'_, CudaBuffer>,
    ) -> Result<(), OpError> {
        const OP: &str = "snake";
        let &[batch, channels, samples] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
        };
        y.expect_shape(OP, "y", &[batch, channels, samples])?;
        alpha.expect_shape(OP, "alpha", &[channels])?;
        expect_f32(OP, [("x", x.dtype()), ("y", y.dtype())])?;
        let ((alpha, _), (from, _)) = (input(OP, "alpha", &alpha)?, input(OP, "x", &x)?);
        let (to, count) = output(OP, "y", &y)?;
        let channels = small(OP, "x", channels)?;
        let arguments = [argument(&alpha), argument(&from), argument(&to), argument(&count), argument(&channels)];
        self.each(OP, "snake", (to, count), &arguments)
    }

    pub(super) fn alias_free_snake_of(
        &self,
        snake: AliasFreeSnake<'_, CudaBuffer>,
        x: View<'_, CudaBuffer>,
        y: ViewMut<'_, CudaBuffer>,
    ) -> Result<(), OpError> {
        const OP: &str = "alias_free_snake";
        let &[batch, channels, samples] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
        };
        y.expect_shape(OP, "y", &[batch, channels, samples])?;
        expect_f32(OP, [("x", x.dtype()), ("y", y.dtype())])?;
        let taps = snake.upsample.width();
        if taps == 0 || !taps.is_multiple_of(4) || samples == 0 {
            return Err(OpError::Shape { op: OP, name: "upsample", expected: vec![12], actual: vec![taps] });
        }
        snake.upsample.expect_shape(OP, "upsample", &[taps])?;
        snake.downsample.expect_shape(OP, "downsample", &[taps])?;
        snake.alpha.expect_shape(OP, "alpha", &[channels])?;
        snake.beta.expect_shape(OP, "beta", &[channels])?;
        let shared_bytes = (2 * SNAKE_OUTPUTS).saturating_add(small(OP, "upsample", taps)?).saturating_mul(4);
        // Samples are counted in signed numbers, doubled.
        if shared_bytes > MOST_SHARED_BYTES || samples > 1 << 29 {
            return Err(OpError::Shape { op: OP, name: "upsample", expected: vec![12], actual: vec![taps] });
        }
        let ((upsample, _), (downsample, _)) =
            (input(OP, "upsample", &snake.upsample)?, input(OP, "downsample", &snake.downsample)?);
        let ((alpha, _), (beta, _)) = (input(OP, "alpha", &snake.alpha)?, input(OP, "beta", &snake.beta)?);
        let ((from, _), (to, count)) = (input(OP, "x", &x)?, output(OP, "y", &y)?);
        if count == 0 {
            return Ok(());
        }
        let channels = small(OP, "x", channels)?;
        let blocks = (to.width.div_ceil(SNAKE_OUTPUTS), count.min(65_535));
        let grid = Grid { blocks, threads: (256, 1), shared_bytes };
        let arguments = [
            argument(&upsample),
            argument(&downsample),
            argument(&alpha),
            argument(&beta),
            argument(&from),
            argument(&to),
            argument(&count),
            argument(&channels),
        ];
        self.launch(OP, "alias_free_snake", grid, &arguments)
    }
}
