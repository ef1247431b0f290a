//! From decoder tokens to RGB bytes.

use super::Cuda;
use super::buffer::{CudaBuffer, address_mut};
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
        let sizes = sizes.iter().map(|size| small(OP, "y", *size)).collect::<Result<Vec<u32>, OpError>>()?;
        let mut arguments = vec![argument(&from), argument(&to), argument(&count)];
        arguments.extend(sizes.iter().map(argument));
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
}
