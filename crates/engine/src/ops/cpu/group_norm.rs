//! Group norms of pictures.

use super::buffer::{HostBuffer, float_rows, float_rows_mut, load_all};
use super::elementwise::activate_row;
use crate::ops::{Activation, GroupNorm, OpError, View, ViewMut};

const OP: &str = "group_norm";

pub(super) fn group_norm(
    norm: GroupNorm<'_, HostBuffer>,
    activation: Option<Activation>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let &[channels, frames, pixels] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0; 3], actual: x.shape().to_vec() });
    };
    y.expect_shape(OP, "y", &[channels, frames, pixels])?;
    norm.weight.expect_shape(OP, "weight", &[channels])?;
    norm.bias.expect_shape(OP, "bias", &[channels])?;
    if norm.groups == 0 || !channels.is_multiple_of(norm.groups) || pixels == 0 {
        let expected = vec![channels.next_multiple_of(norm.groups.max(1)), frames, pixels.max(1)];
        return Err(OpError::Shape { op: OP, name: "x", expected, actual: vec![channels, frames, pixels] });
    }
    let (weight, bias) = (load_all(OP, "weight", &norm.weight)?, load_all(OP, "bias", &norm.bias)?);
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let width = channels / norm.groups;
    let mut group = vec![0.0; width * pixels];
    for frame in 0..frames {
        for first in (0..channels).step_by(width) {
            for (channel, row) in (first..).zip(group.chunks_exact_mut(pixels)) {
                x.buffer.load(x_rows.offset(channel * frames + frame), row);
            }
            let (mean, inverse_std) = statistics(&group, norm.eps);
            for (channel, row) in (first..).zip(group.chunks_exact_mut(pixels)) {
                let (scale, shift) = (inverse_std * weight[channel], bias[channel]);
                row.iter_mut().for_each(|v| *v = (*v - mean) * scale + shift);
                if let Some(activation) = activation {
                    activate_row(activation, row);
                }
                y.buffer.store(y_rows.offset(channel * frames + frame), row);
            }
        }
    }
    Ok(())
}

/// Mean and inverse standard deviation. Summed in F64: a group of a large tile has half a million values.
fn statistics(values: &[f32], eps: f32) -> (f32, f32) {
    let count = values.len() as f64;
    let mean = sum(values, f64::from) / count;
    let variance = sum(values, |v| (f64::from(v) - mean) * (f64::from(v) - mean)) / count;
    (mean as f32, (1.0 / (variance + f64::from(eps)).sqrt()) as f32)
}

/// Sums `value` of every element by eight interleaved partial sums, as vector units do.
fn sum(values: &[f32], value: impl Fn(f32) -> f64) -> f64 {
    let mut partial = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|v| value(*v)).sum();
    for chunk in chunks {
        for (sum, v) in partial.iter_mut().zip(chunk) {
            *sum += value(*v);
        }
    }
    partial.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cpu::Cpu;
    use crate::ops::{DType, Ops, Tensor};

    const CPU: Cpu = Cpu { attention_scratch_bytes: 1 << 20 };

    fn tensor(shape: &[usize], values: impl Fn(usize) -> f32) -> Tensor<HostBuffer> {
        let mut tensor = CPU.alloc(DType::F32, shape.into()).unwrap();
        let values: Vec<f32> = (0..shape.iter().product()).map(values).collect();
        CPU.write(&values, tensor.view_mut()).unwrap();
        tensor
    }

    #[test]
    fn each_group_of_each_frame_is_normalised_alone() {
        let [channels, frames, pixels] = [4, 3, 11];
        // Far from zero and much louder in later frames, so that mixed statistics would show.
        let value = |i: usize| 100.0 + (i as f32 * 0.7).sin() * (1.0 + 50.0 * (i / pixels % frames) as f32);
        let x = tensor(&[channels, frames, pixels], value);
        let (weight, bias) = (tensor(&[channels], |i| 0.5 + i as f32), tensor(&[channels], |i| i as f32 - 1.0));
        let run = |activation: Option<Activation>| {
            let mut y = tensor(&[channels, frames, pixels], |_| 0.0);
            let norm = GroupNorm { weight: weight.view(), bias: bias.view(), groups: 2, eps: 1e-6 };
            CPU.group_norm(norm, activation, x.view(), y.view_mut()).unwrap();
            CPU.read(y.view()).unwrap()
        };
        let (plain, silu) = (run(None), run(Some(Activation::Silu)));
        for frame in 0..frames {
            for group in 0..2 {
                let of_group: Vec<usize> = (2 * group..2 * group + 2)
                    .flat_map(|channel| (0..pixels).map(move |pixel| (channel * frames + frame) * pixels + pixel))
                    .collect();
                let values: Vec<f64> = of_group.iter().map(|i| f64::from(value(*i))).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
                for (i, v) in of_group.iter().zip(values) {
                    let channel = (i / pixels / frames) as f64;
                    let expected = (v - mean) / (variance + 1e-6).sqrt() * (0.5 + channel) + channel - 1.0;
                    assert!((f64::from(plain[*i]) - expected).abs() < 1e-4, "{} {expected}", plain[*i]);
                    let bent = expected / (1.0 + (-expected).exp());
                    assert!((f64::from(silu[*i]) - bent).abs() < 1e-4, "{} {bent}", silu[*i]);
                }
            }
        }
    }

    #[test]
    fn channels_that_do_not_fill_their_groups_are_refused() {
        let (x, one) = (tensor(&[6, 1, 2], |_| 0.0), tensor(&[6], |_| 1.0));
        let mut y = tensor(&[6, 1, 2], |_| 0.0);
        let norm = GroupNorm { weight: one.view(), bias: one.view(), groups: 4, eps: 1e-6 };
        let error = CPU.group_norm(norm, None, x.view(), y.view_mut()).unwrap_err();
        assert_eq!(error.to_string(), "group_norm: x has shape [6, 1, 2], expected [8, 1, 2]");
    }
}
