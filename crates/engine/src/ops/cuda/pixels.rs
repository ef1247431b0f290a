//! From decoder tokens to RGB bytes.

use super::Cuda;
use super::buffer::{CudaBuffer, address, address_mut};
use super::error::CudaError;
use super::kernels::argument;
use super::memory::DeviceMemory;
use super::rows::{input, output, small};
use crate::ops::{DType, OpError, View, ViewMut};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

impl Cuda {
    pub(super) fn unpatchify_of(
        &self,
        x: X<'_>,
        grid: [usize; 3],
        first_frame: usize,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "unpatchify";
        let [grid_frames, grid_height, grid_width] = grid;
        let &[channels, frames, height, width] = y.shape() else {
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![0, 0, 0, 0], actual: y.shape().to_vec() });
        };
        let (patch_height, patch_width) = (height / grid_height.max(1), width / grid_width.max(1));
        let patch_frames = x.width() / (channels * patch_height * patch_width).max(1);
        let patch = channels * patch_frames * patch_height * patch_width;
        x.expect_shape(OP, "x", &[grid_frames * grid_height * grid_width, patch])?;
        let most_frames = (grid_frames * patch_frames).saturating_sub(first_frame).min(frames);
        y.expect_shape(OP, "y", &[channels, most_frames, grid_height * patch_height, grid_width * patch_width])?;
        let ((from, _), (to, count)) = (input(OP, "x", &x)?, output(OP, "y", &y)?);
        let sizes = [frames, height, first_frame, patch_frames, patch_height, patch_width, grid_height, grid_width];
        let sizes = sizes.map(|size| small(OP, "y", size));
        let mut arguments = vec![argument(&from), argument(&to), argument(&count)];
        for size in &sizes {
            match size {
                Ok(size) => arguments.push(argument(size)),
                Err(_) => return small(OP, "y", usize::MAX).map(|_| ()),
            }
        }
        self.each(OP, "unpatchify", (to, count), &arguments)
    }

    pub(super) fn cross_fade_of(&self, x: X<'_>, axis: usize, extent: usize, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "cross_fade";
        x.expect_shape(OP, "x", y.shape())?;
        let shape = y.shape().to_vec();
        if axis >= shape.len() || shape[axis] > extent {
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![extent], actual: shape });
        }
        let innermost = axis == shape.len() - 1;
        let stride: usize = if innermost { 1 } else { shape[axis + 1..shape.len() - 1].iter().product() };
        let ((from, _), (to, count)) = (input(OP, "x", &x)?, output(OP, "y", &y)?);
        let (by_column, stride, length) =
            (u32::from(innermost), small(OP, "y", stride.max(1))?, small(OP, "y", shape[axis].max(1))?);
        let extent = extent as f32;
        let arguments = [
            argument(&from),
            argument(&to),
            argument(&count),
            argument(&by_column),
            argument(&stride),
            argument(&length),
            argument(&extent),
        ];
        self.each(OP, "cross_fade", (to, count), &arguments)
    }

    pub(super) fn pixels_to_rgb8_of(&self, x: X<'_>, mean: [f32; 3], std: [f32; 3], y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "pixels_to_rgb8";
        let &[frames, height, width, channels] = y.shape() else {
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![0, 0, 0, 3], actual: y.shape().to_vec() });
        };
        y.expect_shape(OP, "y", &[frames, height, width, mean.len()])?;
        x.expect_shape(OP, "x", &[channels, frames, height, width])?;
        let (from, _) = input(OP, "x", &x)?;
        if y.dtype() != DType::U8 {
            return Err(OpError::DType { op: OP, name: "y", actual: y.dtype() });
        }
        if !y.window().is_contiguous() {
            let actual = y.window().strides.as_slice().to_vec();
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![1], actual });
        }
        let bad = DeviceMemory::zeroed(&self.context, 4).map_err(CudaError::of(OP))?;
        let (to, flag, lines) = (address_mut(&y), bad.address(), small(OP, "x", frames * height)?);
        let mut arguments = vec![argument(&from), argument(&to), argument(&lines)];
        arguments.extend(mean.iter().chain(&std).map(argument));
        arguments.push(argument(&flag));
        self.each(OP, "pixels_to_rgb8", (from, lines), &arguments)?;
        let mut found = [0; 4];
        bad.download(0, &mut found).map_err(CudaError::of(OP))?;
        if found == [0; 4] { Ok(()) } else { Err(OpError::NotFinite { op: OP, name: "x" }) }
    }

    pub(super) fn read_bytes_of(&self, x: X<'_>) -> Result<Vec<u8>, OpError> {
        const OP: &str = "read_bytes";
        let window = x.window();
        if x.dtype() != DType::U8 {
            return Err(OpError::DType { op: OP, name: "x", actual: x.dtype() });
        }
        if !window.is_contiguous() {
            return Err(OpError::Shape {
                op: OP,
                name: "x",
                expected: window.shape.contiguous_strides().as_slice().to_vec(),
                actual: window.strides.as_slice().to_vec(),
            });
        }
        let mut bytes = vec![0; window.shape.elements()];
        x.buffer.memory.download(window.offset, &mut bytes).map_err(CudaError::of(OP))?;
        Ok(bytes)
    }

    /// Downloads a float view as F32, in row-major order.
    pub(super) fn read_of(&self, x: X<'_>) -> Result<Vec<f32>, OpError> {
        const OP: &str = "read";
        let (from, count) = input(OP, "x", &x)?;
        let window = x.window();
        let mut bytes = vec![0; window.shape.elements() * 4];
        if x.dtype() == DType::F32 && window.is_contiguous() {
            let offset = (address(&x) - x.buffer.memory.address()) as usize;
            x.buffer.memory.download(offset, &mut bytes).map_err(CudaError::of(OP))?;
        } else {
            let memory = self.scratch(OP, bytes.len())?;
            let to = super::rows::Rows::contiguous(memory.address(), DType::F32, from.width);
            self.each(OP, "cast_rows", (to, count), &[argument(&from), argument(&to), argument(&count)])?;
            memory.download(0, &mut bytes).map_err(CudaError::of(OP))?;
        }
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Uploads F32 values, rounding them to `y`'s dtype.
    pub(super) fn write_of(&self, values: &[f32], y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "write";
        let (to, count) = output(OP, "y", &y)?;
        let window = y.window();
        let elements = window.shape.elements();
        if values.len() != elements {
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![elements], actual: vec![values.len()] });
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        if y.dtype() == DType::F32 && window.is_contiguous() {
            return y.buffer.memory.upload(window.offset * 4, &bytes).map_err(CudaError::of(OP));
        }
        let memory = self.scratch(OP, bytes.len())?;
        memory.upload(0, &bytes).map_err(CudaError::of(OP))?;
        let from = super::rows::Rows::contiguous(memory.address(), DType::F32, to.width);
        self.each(OP, "cast_rows", (to, count), &[argument(&from), argument(&to), argument(&count)])
    }
}
