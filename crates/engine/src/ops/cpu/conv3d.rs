//! Causal convolutions over frames, as matrix products over gathered taps.
//!
//! A chunk of output rows is one product: the weights `[c_out, k]` times the pixels under every tap `[k, outputs]`, with
//! the taps ordered by time first. Frames before the first are zeros, so the first outputs are products over the last
//! taps only: a single picture costs a third of what its zeros would.

use super::buffer::{HostBuffer, float_rows, float_rows_mut, load_all};
use super::linear::Matrix;
use crate::ops::{CausalConv3dShape, DType, KernelSize, OpError, ReflectPadding, View, ViewMut};

const OP: &str = "causal_conv3d";

/// Bytes of gathered pixels that one product holds at a time; small, since they are written and read once.
const GATHER_BYTES: usize = 4 << 20;

/// Bytes of reordered weights that are held at a time.
const WEIGHT_BYTES: usize = 64 << 20;

pub(super) fn causal_conv3d(
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    shape: CausalConv3dShape,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    causal_conv3d_in_chunks(GATHER_BYTES, WEIGHT_BYTES, w, bias, shape, x, y)
}

fn causal_conv3d_in_chunks(
    gather_bytes: usize,
    weight_bytes: usize,
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    shape: CausalConv3dShape,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let gather = Gather::new(&w, shape, &x)?;
    let (c_out, taps) = (w.len_rows(), gather.taps_per_frame());
    let [frames, height, width] = gather.output;
    y.expect_shape(OP, "y", &[c_out, frames, height, width])?;
    for (name, dtype) in [("w", w.dtype()), ("x", x.dtype()), ("y", y.dtype())] {
        if dtype != DType::F32 {
            return Err(OpError::DType { op: OP, name, actual: dtype });
        }
    }
    let bias = match bias {
        Some(bias) => {
            bias.expect_shape(OP, "bias", &[c_out])?;
            load_all(OP, "bias", &bias)?
        }
        None => vec![0.0; c_out],
    };
    let y_rows = float_rows_mut(OP, "y", &y)?;

    let channels_per_chunk = (weight_bytes / (4 * shape.kernel.time * taps).max(1)).clamp(1, c_out.max(1));
    for first_channel in (0..c_out).step_by(channels_per_chunk) {
        let channels = channels_per_chunk.min(c_out - first_channel);
        let weights = gather.weights_by_time(&w.rows(first_channel..first_channel + channels))?;
        let weights = Matrix::new(OP, weights, channels, shape.kernel.time * taps)?;
        // Output rows, counted over all frames; those of one product see equally many frames of the input.
        let mut first_row = 0;
        while first_row < frames * height {
            let frame = first_row / height;
            let seen = gather.seen(frame);
            let alike = if seen < shape.kernel.time { (frame + 1) * height } else { frames * height };
            let inputs = seen * taps;
            let most = (gather_bytes / (4 * inputs * width).max(1)).max(1);
            let rows = most.min(alike - first_row);
            let pixels = Matrix::new(OP, gather.pixels(first_row..first_row + rows, seen, &x)?, inputs, rows * width)?;
            let mut sums = weights.last_columns(OP, inputs)?.times(OP, &pixels)?;
            for (channel, sums) in sums.chunks_exact_mut(rows * width).enumerate() {
                let channel = first_channel + channel;
                sums.iter_mut().for_each(|sum| *sum += bias[channel]);
                for (row, sums) in sums.chunks_exact(width).enumerate() {
                    y.buffer.store(y_rows.offset(channel * frames * height + first_row + row), sums);
                }
            }
            first_row += rows;
        }
    }
    Ok(())
}

/// What one convolution gathers from where.
struct Gather {
    shape: CausalConv3dShape,
    c_in: usize,
    /// Input frames, rows and columns.
    input: [usize; 3],
    /// Output frames, rows and columns.
    output: [usize; 3],
}

impl Gather {
    /// Checks what does not depend on the output.
    fn new(w: &View<'_, HostBuffer>, shape: CausalConv3dShape, x: &View<'_, HostBuffer>) -> Result<Self, OpError> {
        let &[c_in, frames, height, width] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0; 4], actual: x.shape().to_vec() });
        };
        w.expect_shape(OP, "w", &[w.len_rows(), c_in, shape.taps()])?;
        let input = [frames, height, width];
        let Some(output) = shape.output(input).filter(|_| c_in > 0) else {
            let least = shape.padding.before.max(shape.padding.after) + 1;
            let expected = vec![c_in.max(1), frames.max(1), height.max(least), width.max(least)];
            return Err(OpError::Shape { op: OP, name: "x", expected, actual: x.shape().to_vec() });
        };
        Ok(Self { shape, c_in, input, output })
    }

    /// Taps of one input frame: channels times pixels of the kernel.
    fn taps_per_frame(&self) -> usize {
        self.c_in * self.shape.kernel.side * self.shape.kernel.side
    }

    /// How many frames of the input output frame `frame` sees; the others are zeros.
    fn seen(&self, frame: usize) -> usize {
        (frame * self.shape.stride.time + 1).min(self.shape.kernel.time)
    }

    /// Weights `[channels, c_in, kt · kh · kw]` in the order `[channels, kt, c_in, kh · kw]`.
    fn weights_by_time(&self, w: &View<'_, HostBuffer>) -> Result<Vec<f32>, OpError> {
        let stored = load_all(OP, "w", w)?;
        let KernelSize { time: frames, side } = self.shape.kernel;
        let plane = side * side;
        let mut ordered = Vec::with_capacity(stored.len());
        for channel in stored.chunks_exact(frames * self.taps_per_frame()) {
            for time in 0..frames {
                for input in channel.chunks_exact(frames * plane) {
                    ordered.extend_from_slice(&input[time * plane..(time + 1) * plane]);
                }
            }
        }
        Ok(ordered)
    }

    /// The pixels under the taps of some output rows, `[seen · c_in · kh · kw, rows · width]`.
    fn pixels(&self, rows: std::ops::Range<usize>, seen: usize, x: &View<'_, HostBuffer>) -> Result<Vec<f32>, OpError> {
        let [frames, height, width] = self.input;
        let [_, out_height, out_width] = self.output;
        let x_rows = float_rows(OP, "x", x)?;
        let CausalConv3dShape { kernel: KernelSize { side, .. }, stride, padding } = self.shape;
        let mut padded = vec![0.0; padding.before + width + padding.after];
        let line = rows.len() * out_width;
        let mut pixels = vec![0.0; seen * self.taps_per_frame() * line];
        for (time, taps) in pixels.chunks_exact_mut(self.taps_per_frame() * line).enumerate() {
            for (channel, taps) in taps.chunks_exact_mut(side * side * line).enumerate() {
                for (kernel_row, taps) in taps.chunks_exact_mut(side * line).enumerate() {
                    for (index, row) in rows.clone().enumerate() {
                        let (out_frame, out_row) = (row / out_height, row % out_height);
                        let frame = out_frame * stride.time + 1 + time - seen;
                        let source = reflect(out_row * stride.side + kernel_row, padding.before, height);
                        let offset = x_rows.offset((channel * frames + frame) * height + source);
                        x.buffer.load(offset, &mut padded[padding.before..padding.before + width]);
                        reflect_ends(&mut padded, padding, width);
                        for (kernel_column, taps) in taps.chunks_exact_mut(line).enumerate() {
                            let to = &mut taps[index * out_width..(index + 1) * out_width];
                            let from = &padded[kernel_column..];
                            if stride.side == 1 {
                                to.copy_from_slice(&from[..out_width]);
                            } else {
                                for (to, from) in to.iter_mut().zip(from.iter().step_by(stride.side)) {
                                    *to = *from;
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(pixels)
    }
}

/// Fills what lies outside a row of `width` pixels.
fn reflect_ends(padded: &mut [f32], padding: ReflectPadding, width: usize) {
    let ReflectPadding { before, after } = padding;
    for index in 0..before {
        padded[index] = padded[2 * before - index];
    }
    let last = before + width - 1;
    for index in 1..=after {
        padded[last + index] = padded[last - index];
    }
}

/// Which of `length` pixels lies at `index`, counted from `before` pixels before the first, when both ends are mirrors.
fn reflect(index: usize, before: usize, length: usize) -> usize {
    let inside = index.abs_diff(before);
    if inside < length { inside } else { 2 * (length - 1) - inside }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::cpu::Cpu;
    use crate::ops::{Ops, Stride, Tensor};

    const CPU: Cpu = Cpu { attention_scratch_bytes: 1 << 20 };

    fn filled(shape: &[usize], step: f32) -> Tensor<HostBuffer> {
        let mut tensor = CPU.alloc(DType::F32, shape.into()).unwrap();
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| (i as f32 * step).sin()).collect();
        CPU.write(&values, tensor.view_mut()).unwrap();
        tensor
    }

    /// The definition: pad every side, then sum over all taps.
    fn by_definition(shape: CausalConv3dShape, w: &[f32], bias: &[f32], x: &[f32], input: [usize; 4]) -> Vec<f32> {
        let [c_in, frames, height, width] = input;
        let CausalConv3dShape { kernel, stride, padding } = shape;
        let mirrored = |index: i64, length: usize| -> usize {
            let length = length as i64;
            (if index < 0 { -index } else { index.min(2 * (length - 1) - index) }) as usize
        };
        let at = |channel: usize, frame: i64, row: i64, column: i64| -> f64 {
            if frame < 0 {
                return 0.0;
            }
            let (row, column) = (mirrored(row, height), mirrored(column, width));
            f64::from(x[((channel * frames + frame as usize) * height + row) * width + column])
        };
        let out = |length: usize| (length + padding.before + padding.after - kernel.side) / stride.side + 1;
        let mut y = Vec::new();
        for (c, bias) in bias.iter().enumerate() {
            for t in 0..(frames - 1) / stride.time + 1 {
                for row in 0..out(height) {
                    for column in 0..out(width) {
                        let mut sum = f64::from(*bias);
                        for i in 0..c_in {
                            for kt in 0..kernel.time {
                                for kh in 0..kernel.side {
                                    for kw in 0..kernel.side {
                                        let tap =
                                            (((c * c_in + i) * kernel.time + kt) * kernel.side + kh) * kernel.side + kw;
                                        let frame = (t * stride.time + kt) as i64 - (kernel.time as i64 - 1);
                                        let place =
                                            |at: usize, k: usize| (at * stride.side + k) as i64 - padding.before as i64;
                                        sum += f64::from(w[tap]) * at(i, frame, place(row, kh), place(column, kw));
                                    }
                                }
                            }
                        }
                        y.push(sum as f32);
                    }
                }
            }
        }
        y
    }

    proptest! {
        #[test]
        fn products_over_taps_equal_the_definition(
            (c_in, c_out) in (1usize..4, 1usize..4),
            (frames, height, width) in (1usize..7, 2usize..6, 2usize..6),
            (kernel_time, kernel_side) in (1usize..4, prop::sample::select(vec![1usize, 3])),
            (stride_time, stride_side) in (1usize..3, 1usize..3),
            (before, after) in (0usize..2, 0usize..2),
            (gather_bytes, weight_bytes) in (1usize..2000, 1usize..2000),
        ) {
            let shape = CausalConv3dShape {
                kernel: KernelSize { time: kernel_time, side: kernel_side },
                stride: Stride { time: stride_time, side: stride_side },
                padding: ReflectPadding { before, after },
            };
            prop_assume!(height.min(width) + before + after >= kernel_side);
            let x = filled(&[c_in, frames, height, width], 0.37);
            let w = filled(&[c_out, c_in, kernel_time * kernel_side * kernel_side], 0.73);
            let bias = filled(&[c_out], 1.9);
            let values = |tensor: &Tensor<HostBuffer>| CPU.read(tensor.view()).unwrap();
            let expected =
                by_definition(shape, &values(&w), &values(&bias), &values(&x), [c_in, frames, height, width]);
            let side = |length: usize| (length + before + after - kernel_side) / stride_side + 1;
            let output = [c_out, frames.div_ceil(stride_time), side(height), side(width)];
            let mut y = CPU.alloc(DType::F32, output.into()).unwrap();
            causal_conv3d_in_chunks(
                gather_bytes, weight_bytes, w.view(), Some(bias.view()), shape, x.view(), y.view_mut(),
            ).unwrap();
            for (got, expected) in values(&y).iter().zip(&expected) {
                prop_assert!((got - expected).abs() < 1e-5, "{got} {expected}");
            }
        }
    }

    #[test]
    fn the_first_frame_does_not_see_later_ones() {
        let w = filled(&[2, 3, 27], 0.3);
        let x = filled(&[3, 4, 4, 5], 0.9);
        let mut whole = CPU.alloc(DType::F32, [2, 4, 4, 5].into()).unwrap();
        CPU.causal_conv3d(w.view(), None, CausalConv3dShape::SAME, x.view(), whole.view_mut()).unwrap();
        let mut first = CPU.alloc(DType::F32, [2, 1, 4, 5].into()).unwrap();
        CPU.causal_conv3d(w.view(), None, CausalConv3dShape::SAME, x.view().narrow(1, 0..1), first.view_mut()).unwrap();
        let (whole, first) = (CPU.read(whole.view().narrow(1, 0..1)).unwrap(), CPU.read(first.view()).unwrap());
        assert!(whole.iter().zip(&first).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn what_cannot_be_reflected_and_weights_of_other_channels_are_refused() {
        let w = filled(&[2, 3, 27], 0.3);
        let mut y = CPU.alloc(DType::F32, [2, 1, 1, 5].into()).unwrap();
        let mut refused = |x: [usize; 4]| {
            let x = CPU.alloc(DType::F32, x.into()).unwrap();
            CPU.causal_conv3d(w.view(), None, CausalConv3dShape::SAME, x.view(), y.view_mut()).unwrap_err().to_string()
        };
        assert_eq!(refused([3, 1, 1, 5]), "causal_conv3d: x has shape [3, 1, 1, 5], expected [3, 1, 2, 5]");
        assert_eq!(refused([4, 1, 2, 5]), "causal_conv3d: w has shape [2, 3, 27], expected [2, 4, 27]");
        assert_eq!(refused([3, 1, 2, 5]), "causal_conv3d: y has shape [2, 1, 1, 5], expected [2, 1, 2, 5]");
        assert_eq!(refused([3, 0, 2, 5]), "causal_conv3d: x has shape [3, 0, 2, 5], expected [3, 1, 2, 5]");
    }
}
