//! Convolutions: matrix products over gathered taps, and transposed ones directly.

use cudarc::driver::sys::CUdeviceptr;

use super::Cuda;
use super::buffer::{CudaBuffer, address_mut};
use super::kernels::{Grid, Parameter, argument};
use super::memory::DeviceMemory;
use super::rows::{Rows, input, output, small};
use crate::ops::{CausalConv3dShape, Conv1dShape, DType, OpError, View, ViewMut};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

/// Bytes of gathered taps that one product holds at a time.
pub(crate) const GATHER_BYTES: usize = 256 << 20;

/// What a causal convolution over frames looks at; mirrors the struct of the same name in `conv.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Conv3d {
    kernel: [u32; 2],
    stride: [u32; 2],
    before: u32,
    input: [u32; 3],
    output: [u32; 3],
}

// SAFETY: `repr(C)`, of plain numbers.
unsafe impl Parameter for Conv3d {}

/// How many outputs one product computes, when each has `taps` taps.
fn outputs_at_a_time(taps: usize, outputs: usize) -> usize {
    // Whole groups of 32, so that every chunk but the last begins at an aligned address.
    (GATHER_BYTES / (4 * taps.max(1)) / 32 * 32).clamp(32, outputs.max(32))
}

/// Blocks that gather `outputs` for each of `taps`.
fn gathering(outputs: u32, taps: u32) -> Grid {
    Grid { blocks: (outputs.div_ceil(256), taps.min(65_535)), threads: (256, 1), shared_bytes: 0 }
}

/// Where a convolution's rows of outputs go: one row a channel.
struct Outputs {
    address: CUdeviceptr,
    /// Elements from channel to channel.
    step: usize,
    /// What holds them when they are not written in place.
    scratch: Option<DeviceMemory>,
}

impl Cuda {
    /// Outputs `[channels, …]` of `y`, in place when each channel's are neighbours of F32.
    fn channel_rows(&self, op: &'static str, y: &Y<'_>) -> Result<Outputs, OpError> {
        let window = y.window();
        let (shape, strides) = (window.shape.as_slice(), window.strides.as_slice());
        let each: usize = shape[1..].iter().product();
        let whole = crate::ops::Dims::new(&shape[1..]).contiguous_strides();
        if y.dtype() == DType::F32 && strides[1..] == *whole.as_slice() && strides[0] >= each {
            return Ok(Outputs { address: address_mut(y), step: strides[0], scratch: None });
        }
        let memory = self.scratch(op, shape[0] * each * 4)?;
        Ok(Outputs { address: memory.address(), step: each, scratch: Some(memory) })
    }

    /// Copies outputs that were not written in place, and adds the bias.
    fn finish(&self, op: &'static str, outputs: Outputs, bias: Option<X<'_>>, y: &Y<'_>) -> Result<(), OpError> {
        let (to, count) = output(op, "y", y)?;
        if let Some(memory) = &outputs.scratch {
            let from = Rows::contiguous(memory.address(), DType::F32, to.width);
            self.each(op, "cast_rows", (to, count), &[argument(&from), argument(&to), argument(&count)])?;
        }
        match bias {
            Some(bias) => self.add_channel_bias(op, bias, y),
            None => Ok(()),
        }
    }

    /// Adds `bias[channel]` to `y` `[channels, …]`, or to `[batch, channels, samples]`.
    fn add_channel_bias(&self, op: &'static str, bias: X<'_>, y: &Y<'_>) -> Result<(), OpError> {
        let (to, count) = output(op, "y", y)?;
        let (from, _) = input(op, "bias", &bias)?;
        let shape = y.shape();
        let channels = bias.width();
        let of_channel = if shape.len() == 4 { shape[1] * shape[2] } else { 1 };
        let (per_channel, channels) = (small(op, "y", of_channel.max(1))?, small(op, "y", channels.max(1))?);
        let arguments = [argument(&from), argument(&to), argument(&count), argument(&per_channel), argument(&channels)];
        self.each(op, "add_channel_bias", (to, count), &arguments)
    }

    pub(super) fn causal_conv3d_of(
        &self,
        w: X<'_>,
        bias: Option<X<'_>>,
        shape: CausalConv3dShape,
        x: X<'_>,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "causal_conv3d";
        let &[c_in, frames, height, width] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0; 4], actual: x.shape().to_vec() });
        };
        let c_out = w.len_rows();
        w.expect_shape(OP, "w", &[c_out, c_in, shape.taps()])?;
        let Some(sizes) = shape.output([frames, height, width]).filter(|_| c_in > 0) else {
            let least = shape.padding.before.max(shape.padding.after) + 1;
            let expected = vec![c_in.max(1), frames.max(1), height.max(least), width.max(least)];
            return Err(OpError::Shape { op: OP, name: "x", expected, actual: x.shape().to_vec() });
        };
        let [out_frames, out_height, out_width] = sizes;
        y.expect_shape(OP, "y", &[c_out, out_frames, out_height, out_width])?;
        for (name, dtype) in [("w", w.dtype()), ("x", x.dtype()), ("y", y.dtype())] {
            if dtype != DType::F32 {
                return Err(OpError::DType { op: OP, name, actual: dtype });
            }
        }
        if let Some(bias) = &bias {
            bias.expect_shape(OP, "bias", &[c_out])?;
        }
        if !w.window().is_contiguous() {
            let actual = w.window().strides.as_slice().to_vec();
            return Err(OpError::Shape {
                op: OP,
                name: "w",
                expected: vec![c_in * shape.taps(), shape.taps(), 1],
                actual,
            });
        }
        let (from, _) = input(OP, "x", &x)?;
        output(OP, "y", &y)?;
        let (taps, outputs) = (c_in * shape.taps(), out_frames * out_height * out_width);
        let count = |size| small(OP, "x", size);
        let description = Conv3d {
            kernel: [count(shape.kernel.time)?, count(shape.kernel.side)?],
            stride: [count(shape.stride.time)?, count(shape.stride.side)?],
            before: count(shape.padding.before)?,
            input: [count(frames)?, count(height)?, count(width)?],
            output: [count(out_frames)?, count(out_height)?, count(out_width)?],
        };
        let (all_taps, _) = (count(taps)?, count(outputs)?);
        if c_out == 0 {
            return Ok(());
        }
        let places = self.channel_rows(OP, &y)?;
        let weights = self.converted(OP, "w", &w, DType::F32)?;
        let chunk = outputs_at_a_time(taps, outputs);
        let columns = self.scratch(OP, taps * chunk.min(outputs) * 4)?;
        for start in (0..outputs).step_by(chunk) {
            let now = chunk.min(outputs - start);
            let (to, first, several) = (columns.address(), start as u32, now as u32);
            let arguments = [
                argument(&from),
                argument(&description),
                argument(&to),
                argument(&all_taps),
                argument(&first),
                argument(&several),
            ];
            self.launch(OP, "gather_taps_3d", gathering(several, all_taps), &arguments)?;
            let at = places.address + 4 * start as CUdeviceptr;
            self.product_rows(OP, [c_out, taps, now], weights.address, to, at, places.step)?;
        }
        self.finish(OP, places, bias, &y)
    }

    pub(super) fn conv1d_of(
        &self,
        w: X<'_>,
        bias: Option<X<'_>>,
        shape: Conv1dShape,
        x: X<'_>,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "conv1d";
        let (&[batch, c_in, n], &[c_out, _, taps]) = (x.shape(), w.shape()) else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
        };
        w.expect_shape(OP, "w", &[c_out, c_in, taps])?;
        let Conv1dShape { padding, stride, dilation } = shape;
        let reach = dilation * taps.saturating_sub(1) + 1;
        let outputs = (n + 2 * padding).checked_sub(reach).map_or(0, |room| room / stride.max(1) + 1);
        y.expect_shape(OP, "y", &[batch, c_out, outputs])?;
        if let Some(bias) = &bias {
            bias.expect_shape(OP, "bias", &[c_out])?;
        }
        let (from, _) = input(OP, "x", &x)?;
        output(OP, "y", &y)?;
        let all_taps = c_in * taps;
        if !w.window().is_contiguous() {
            let actual = w.window().strides.as_slice().to_vec();
            return Err(OpError::Shape { op: OP, name: "w", expected: vec![all_taps, taps, 1], actual });
        }
        let count = |size| small(OP, "x", size);
        let (tap_count, kernel, step, gap, zeros) =
            (count(all_taps)?, count(taps)?, count(stride)?, count(dilation)?, count(padding)?);
        if outputs == 0 || c_out == 0 || all_taps == 0 {
            return Ok(());
        }
        let weights = self.converted(OP, "w", &w, DType::F32)?;
        let chunk = outputs_at_a_time(all_taps, outputs);
        let columns = self.scratch(OP, all_taps * chunk.min(outputs) * 4)?;
        let mut y = y;
        for item in 0..batch {
            let item_y = y.reborrow().select(0, item);
            let places = self.channel_rows(OP, &item_y)?;
            let first_row = count(item * c_in)?;
            for start in (0..outputs).step_by(chunk) {
                let now = chunk.min(outputs - start);
                let (to, first, several) = (columns.address(), count(start)?, count(now)?);
                let arguments = [
                    argument(&from),
                    argument(&first_row),
                    argument(&to),
                    argument(&tap_count),
                    argument(&kernel),
                    argument(&step),
                    argument(&gap),
                    argument(&zeros),
                    argument(&first),
                    argument(&several),
                ];
                self.launch(OP, "gather_taps_1d", gathering(several, tap_count), &arguments)?;
                let at = places.address + 4 * start as CUdeviceptr;
                self.product_rows(OP, [c_out, all_taps, now], weights.address, to, at, places.step)?;
            }
            self.finish(OP, places, bias, &item_y)?;
        }
        Ok(())
    }

    pub(super) fn conv_transpose1d_of(
        &self,
        w: X<'_>,
        bias: Option<X<'_>>,
        shape: Conv1dShape,
        x: X<'_>,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "conv_transpose1d";
        let (&[batch, c_in, n], &[_, c_out, taps]) = (x.shape(), w.shape()) else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
        };
        w.expect_shape(OP, "w", &[c_in, c_out, taps])?;
        let Conv1dShape { padding, stride, dilation } = shape;
        let spread = n.saturating_sub(1) * stride + dilation * taps.saturating_sub(1) + 1;
        y.expect_shape(OP, "y", &[batch, c_out, spread.saturating_sub(2 * padding)])?;
        if let Some(bias) = &bias {
            bias.expect_shape(OP, "bias", &[c_out])?;
        }
        let ((weights, _), (from, _)) = (input(OP, "w", &w)?, input(OP, "x", &x)?);
        let (to, count) = output(OP, "y", &y)?;
        let small = |size| small(OP, "w", size);
        let (c_in, c_out, taps) = (small(c_in)?, small(c_out)?, small(taps)?);
        let (stride, dilation, padding) = (small(stride.max(1))?, small(dilation)?, small(padding)?);
        let arguments = [
            argument(&weights),
            argument(&from),
            argument(&to),
            argument(&count),
            argument(&c_in),
            argument(&c_out),
            argument(&taps),
            argument(&stride),
            argument(&dilation),
            argument(&padding),
        ];
        self.each(OP, "conv_transpose_1d", (to, count), &arguments)?;
        match bias {
            Some(bias) => self.add_channel_bias(OP, bias, &y),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_taps_stay_below_their_bytes_in_whole_groups() {
        for taps in [1, 27, 512 * 27, 1024 * 27] {
            let outputs = outputs_at_a_time(taps, 1 << 40);
            assert!(outputs.is_multiple_of(32) && 4 * taps * outputs <= GATHER_BYTES, "{taps}");
        }
        assert_eq!(outputs_at_a_time(27, 5), 32);
        assert_eq!(size_of::<Conv3d>(), 44);
    }
}
