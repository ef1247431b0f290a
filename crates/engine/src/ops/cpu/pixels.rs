//! From decoder tokens to RGB bytes.

use super::buffer::{HostBuffer, float_rows, float_rows_mut, round, rounded};
use crate::ops::{OpError, View, ViewMut};

pub(super) fn unpatchify(
    x: View<'_, HostBuffer>,
    grid: [usize; 3],
    first_frame: usize,
    y: ViewMut<'_, HostBuffer>,
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
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);

    let mut line = vec![0.0; width];
    for channel in 0..channels {
        for frame in 0..frames {
            let (token_frame, patch_frame) =
                ((first_frame + frame) / patch_frames, (first_frame + frame) % patch_frames);
            for row in 0..height {
                let (token_row, patch_row) = (row / patch_height, row % patch_height);
                let column = ((channel * patch_frames + patch_frame) * patch_height + patch_row) * patch_width;
                for (token_column, piece) in line.chunks_exact_mut(patch_width).enumerate() {
                    let token = (token_frame * grid_height + token_row) * grid_width + token_column;
                    x.buffer.load(x_rows.offset(token) + column, piece);
                }
                y.buffer.store(y_rows.offset((channel * frames + frame) * height + row), &line);
            }
        }
    }
    Ok(())
}

pub(super) fn cross_fade(
    x: View<'_, HostBuffer>,
    axis: usize,
    extent: usize,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "cross_fade";
    x.expect_shape(OP, "x", y.shape())?;
    let (shape, dtype) = (y.shape().to_vec(), y.dtype());
    if axis >= shape.len() || shape[axis] > extent {
        return Err(OpError::Shape { op: OP, name: "y", expected: vec![extent], actual: shape });
    }
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let mut new_weights: Vec<f32> = (0..shape[axis]).map(|k| k as f32 / extent as f32).collect();
    round(dtype, &mut new_weights);
    let mut old_weights: Vec<f32> = new_weights.iter().map(|weight| 1.0 - weight).collect();
    round(dtype, &mut old_weights);

    let innermost = axis == shape.len() - 1;
    // Rows per step along the axis, when it is not the rows' own.
    let stride: usize = if innermost { 1 } else { shape[axis + 1..shape.len() - 1].iter().product() };
    let (mut old, mut new) = (vec![0.0; x_rows.width], vec![0.0; x_rows.width]);
    for index in 0..x_rows.count {
        x.buffer.load(x_rows.offset(index), &mut old);
        y.buffer.load(y_rows.offset(index), &mut new);
        let position = if innermost { 0 } else { index / stride % shape[axis] };
        for (column, (new, old)) in new.iter_mut().zip(&old).enumerate() {
            let position = if innermost { column } else { position };
            *new = rounded(dtype, old * old_weights[position]) + rounded(dtype, *new * new_weights[position]);
        }
        y.buffer.store(y_rows.offset(index), &new);
    }
    Ok(())
}

pub(super) fn pixels_to_rgb8(
    x: View<'_, HostBuffer>,
    mean: [f32; 3],
    std: [f32; 3],
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "pixels_to_rgb8";
    let &[frames, height, width, channels] = y.shape() else {
        return Err(OpError::Shape { op: OP, name: "y", expected: vec![0, 0, 0, 3], actual: y.shape().to_vec() });
    };
    y.expect_shape(OP, "y", &[frames, height, width, mean.len()])?;
    x.expect_shape(OP, "x", &[channels, frames, height, width])?;
    let x_rows = float_rows(OP, "x", &x)?;
    let window = y.window();
    let actual = y.dtype();
    let HostBuffer::U8(bytes) = y.buffer else {
        return Err(OpError::DType { op: OP, name: "y", actual });
    };
    if !window.is_contiguous() {
        return Err(OpError::Shape {
            op: OP,
            name: "y",
            expected: vec![1],
            actual: window.strides.as_slice().to_vec(),
        });
    }
    let mut line = vec![0.0; width];
    for channel in 0..channels {
        for row in 0..frames * height {
            x.buffer.load(x_rows.offset(channel * frames * height + row), &mut line);
            if line.iter().any(|v| !v.is_finite()) {
                return Err(OpError::NotFinite { op: OP, name: "x" });
            }
            let start = window.offset + row * width * channels + channel;
            let pixels = bytes[start..].iter_mut().step_by(channels);
            for (byte, v) in pixels.zip(&line) {
                let level = (v * std[channel] + mean[channel]).clamp(0.0, 1.0) * 255.0;
                // In range by the clamp.
                *byte = level.round_ties_even() as u8;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::cpu::Cpu;
    use crate::ops::{DType, OpError, Ops};

    const CPU: Cpu = Cpu { attention_scratch_bytes: 1 << 20 };

    #[test]
    fn unpatchify_puts_every_patch_pixel_in_its_place() {
        // Two latent frames of 1 x 2 tokens; patches of 1 channel, 2 frames, 1 row, 2 columns.
        let mut x = CPU.alloc(DType::F32, [4, 4].into()).unwrap();
        let values: Vec<f32> = (0..16).map(|v| v as f32).collect();
        CPU.write(&values, x.view_mut()).unwrap();
        let mut y = CPU.alloc(DType::F32, [1, 3, 1, 4].into()).unwrap();
        CPU.unpatchify(x.view(), [2, 1, 2], 1, y.view_mut()).unwrap();
        assert_eq!(CPU.read(y.view()).unwrap(), [2.0, 3.0, 6.0, 7.0, 8.0, 9.0, 12.0, 13.0, 10.0, 11.0, 14.0, 15.0]);
        let error = CPU.unpatchify(x.view(), [2, 1, 2], 2, y.view_mut()).unwrap_err();
        assert!(matches!(error, OpError::Shape { name: "y", .. }), "{error}");
    }

    #[test]
    fn a_cross_fade_begins_with_the_old_values() {
        for axis in 0..2 {
            let shape = if axis == 0 { [4, 1] } else { [1, 4] };
            let mut old = CPU.alloc(DType::F32, shape.into()).unwrap();
            let mut new = CPU.alloc(DType::F32, shape.into()).unwrap();
            CPU.write(&[0.0; 4], old.view_mut()).unwrap();
            CPU.write(&[8.0; 4], new.view_mut()).unwrap();
            CPU.cross_fade(old.view(), axis, 4, new.view_mut()).unwrap();
            assert_eq!(CPU.read(new.view()).unwrap(), [0.0, 2.0, 4.0, 6.0]);
        }
    }

    #[test]
    fn a_cross_fade_rounds_its_weights_to_the_pixels_type() {
        let mut old = CPU.alloc(DType::F16, [5, 1].into()).unwrap();
        let mut new = CPU.alloc(DType::F16, [5, 1].into()).unwrap();
        CPU.write(&[1.0; 5], old.view_mut()).unwrap();
        CPU.write(&[0.0; 5], new.view_mut()).unwrap();
        CPU.cross_fade(old.view(), 0, 5, new.view_mut()).unwrap();
        let fifth = half::f16::from_f32(0.2).to_f32();
        assert_eq!(CPU.read(new.view()).unwrap()[1], half::f16::from_f32(1.0 - fifth).to_f32());
    }

    #[test]
    fn pixels_are_clamped_and_rounded_half_to_even() {
        let mut x = CPU.alloc(DType::F32, [3, 1, 1, 2].into()).unwrap();
        let half_level = |level: f32| level / 255.0;
        CPU.write(&[half_level(0.5), half_level(1.5), -3.0, 7.0, half_level(2.5), 0.0], x.view_mut()).unwrap();
        let mut y = CPU.alloc(DType::U8, [1, 1, 2, 3].into()).unwrap();
        CPU.pixels_to_rgb8(x.view(), [0.0; 3], [1.0; 3], y.view_mut()).unwrap();
        assert_eq!(CPU.read_bytes(y.view()).unwrap(), [0, 0, 2, 2, 255, 0]);
    }

    #[test]
    fn pixels_that_are_not_finite_are_refused() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = CPU.alloc(dtype, [3, 1, 1, 2].into()).unwrap();
                CPU.write(&[0.0, 0.0, 0.0, 0.0, 0.0, value], x.view_mut()).unwrap();
                let mut y = CPU.alloc(DType::U8, [1, 1, 2, 3].into()).unwrap();
                let error = CPU.pixels_to_rgb8(x.view(), [0.0; 3], [1.0; 3], y.view_mut()).unwrap_err();
                assert_eq!(error.to_string(), "pixels_to_rgb8: x holds values that are not finite");
            }
        }
    }
}
