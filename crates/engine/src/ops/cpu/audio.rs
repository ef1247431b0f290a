//! Operations of the audio VAE.

use super::buffer::{HostBuffer, float_rows, float_rows_mut, load_all};
use crate::ops::{AliasFreeSnake, DType, OpError, View, ViewMut};

pub(super) fn scale(factor: f32, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    let rows = float_rows_mut("scale", "y", &y)?;
    let mut row = vec![0.0; rows.width];
    for index in 0..rows.count {
        y.buffer.load(rows.offset(index), &mut row);
        row.iter_mut().for_each(|v| *v *= factor);
        y.buffer.store(rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn snake(
    alpha: View<'_, HostBuffer>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "snake";
    let &[batch, channels, samples] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
    };
    y.expect_shape(OP, "y", &[batch, channels, samples])?;
    alpha.expect_shape(OP, "alpha", &[channels])?;
    for (name, dtype) in [("x", x.dtype()), ("y", y.dtype())] {
        if dtype != DType::F32 {
            return Err(OpError::DType { op: OP, name, actual: dtype });
        }
    }
    let alpha = load_all(OP, "alpha", &alpha)?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let mut row = vec![0.0; samples];
    for index in 0..batch * channels {
        let frequency = alpha[index % channels];
        let magnitude = 1.0 / (frequency + 1e-9);
        x.buffer.load(x_rows.offset(index), &mut row);
        for v in &mut row {
            let sine = (frequency * *v).sin();
            *v += magnitude * (sine * sine);
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn transpose(x: View<'_, HostBuffer>, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    const OP: &str = "transpose";
    let &[rows, columns] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0], actual: x.shape().to_vec() });
    };
    y.expect_shape(OP, "y", &[columns, rows])?;
    let values = load_all(OP, "x", &x)?;
    let y_rows = float_rows_mut(OP, "y", &y)?;
    let mut row = vec![0.0; rows];
    for column in 0..columns {
        for (v, x) in row.iter_mut().zip(values.iter().skip(column).step_by(columns)) {
            *v = *x;
        }
        y.buffer.store(y_rows.offset(column), &row);
    }
    Ok(())
}

pub(super) fn alias_free_snake(
    snake: AliasFreeSnake<'_, HostBuffer>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "alias_free_snake";
    let &[batch, channels, samples] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
    };
    y.expect_shape(OP, "y", &[batch, channels, samples])?;
    for (name, dtype) in [("x", x.dtype()), ("y", y.dtype())] {
        if dtype != DType::F32 {
            return Err(OpError::DType { op: OP, name, actual: dtype });
        }
    }
    let taps = snake.upsample.width();
    if taps == 0 || !taps.is_multiple_of(4) || samples == 0 {
        return Err(OpError::Shape { op: OP, name: "upsample", expected: vec![12], actual: vec![taps] });
    }
    snake.upsample.expect_shape(OP, "upsample", &[taps])?;
    snake.downsample.expect_shape(OP, "downsample", &[taps])?;
    snake.alpha.expect_shape(OP, "alpha", &[channels])?;
    snake.beta.expect_shape(OP, "beta", &[channels])?;
    let upsample = load_all(OP, "upsample", &snake.upsample)?;
    let downsample = load_all(OP, "downsample", &snake.downsample)?;
    let alpha = load_all(OP, "alpha", &snake.alpha)?;
    let beta = load_all(OP, "beta", &snake.beta)?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);

    let [even, odd] = phases(&upsample);
    // Replicated margins, so that the filters never look past an end.
    let (reach, ahead) = (taps / 4, taps / 2 - 1);
    let mut input = vec![0.0; samples + 2 * reach];
    let mut doubled = vec![0.0; 2 * samples + taps - 1];
    let mut output = vec![0.0; samples];
    for index in 0..batch * channels {
        let channel = index % channels;
        x.buffer.load(x_rows.offset(index), &mut input[reach..reach + samples]);
        replicate_ends(&mut input, reach, samples);
        let windows = input.windows(2 * reach + 1);
        for (pair, window) in doubled[ahead..].chunks_exact_mut(2).zip(windows) {
            pair[0] = 2.0 * dot(&even, &window[..2 * reach]);
            pair[1] = 2.0 * dot(&odd, &window[1..]);
        }
        let (frequency, magnitude) = (alpha[channel].exp(), 1.0 / (beta[channel].exp() + 1e-9));
        for v in &mut doubled[ahead..ahead + 2 * samples] {
            let sine = (frequency * *v).sin();
            *v += magnitude * (sine * sine);
        }
        replicate_ends(&mut doubled, ahead, 2 * samples);

        for (out, window) in output.iter_mut().zip(doubled.windows(taps).step_by(2)) {
            *out = dot(&downsample, window);
        }
        y.buffer.store(y_rows.offset(index), &output);
    }
    Ok(())
}

/// Returns the taps that make the even and the odd samples of a doubled signal, in the order of their inputs.
///
/// Output `u` sums `taps[u + K/2 - 1 - 2j] · x[j]`: with `K` a multiple of 4, even outputs take the odd taps.
fn phases(taps: &[f32]) -> [Vec<f32>; 2] {
    [1, 0].map(|parity| taps.iter().skip(parity).step_by(2).rev().copied().collect())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Fills everything outside `start..start + len` with the nearest value inside.
fn replicate_ends(values: &mut [f32], start: usize, len: usize) {
    let (first, last) = (values[start], values[start + len - 1]);
    values[..start].fill(first);
    values[start + len..].fill(last);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::Ops;
    use crate::ops::cpu::Cpu;

    const CPU: Cpu = Cpu { attention_scratch_bytes: 1 << 20 };

    /// Runs the operation over one channel.
    fn activated(taps: &[f32], alpha: f32, beta: f32, x: &[f32]) -> Vec<f32> {
        let tensor = |values: &[f32]| {
            let mut tensor = CPU.alloc(DType::F32, [values.len()].into()).unwrap();
            CPU.write(values, tensor.view_mut()).unwrap();
            tensor
        };
        let (filter, alpha, beta, x) = (tensor(taps), tensor(&[alpha]), tensor(&[beta]), tensor(x));
        let shape = [1, 1, x.shape()[0]];
        let mut y = CPU.alloc(DType::F32, shape.into()).unwrap();
        let snake = AliasFreeSnake {
            upsample: filter.view(),
            downsample: filter.view(),
            alpha: alpha.view(),
            beta: beta.view(),
        };
        CPU.alias_free_snake(snake, x.view().reshape(shape), y.view_mut()).unwrap();
        CPU.read(y.view()).unwrap()
    }

    /// Computes the definition, step by step: pad, spread over a doubled axis, filter, crop; snake; pad, filter, stride.
    fn by_definition(taps: &[f32], alpha: f32, beta: f32, x: &[f32]) -> Vec<f32> {
        let (k, n) = (taps.len(), x.len());
        let pad = k / 2 - 1;
        let padded: Vec<f32> = (0..n + 2 * pad).map(|i| x[i.saturating_sub(pad).min(n - 1)]).collect();
        let mut spread = vec![0.0f64; 2 * (padded.len() - 1) + k];
        for (i, v) in padded.iter().enumerate() {
            for (t, tap) in taps.iter().enumerate() {
                spread[2 * i + t] += 2.0 * f64::from(*tap) * f64::from(*v);
            }
        }
        let left = 2 * pad + (k - 2) / 2;
        let (alpha, beta) = (f64::from(alpha).exp(), f64::from(beta).exp());
        let bent: Vec<f64> =
            spread[left..left + 2 * n].iter().map(|v| v + (alpha * v).sin().powi(2) / (beta + 1e-9)).collect();
        let at = |i: usize| bent[(i.saturating_sub(k / 2 - 1)).min(2 * n - 1)];
        (0..n).map(|m| (0..k).map(|t| f64::from(taps[t]) * at(2 * m + t)).sum::<f64>() as f32).collect()
    }

    proptest! {
        #[test]
        fn the_polyphase_form_equals_the_definition(
            taps in prop::collection::vec(-1.0f32..1.0, 12),
            x in prop::collection::vec(-2.0f32..2.0, 1..40),
            alpha in -1.0f32..1.0,
            beta in -1.0f32..1.0,
        ) {
            let expected = by_definition(&taps, alpha, beta, &x);
            for (got, expected) in activated(&taps, alpha, beta, &x).iter().zip(expected) {
                prop_assert!((got - expected).abs() < 2e-4 * (1.0 + expected.abs()), "{got} {expected}");
            }
        }
    }

    fn filled(shape: &[usize], values: &[f32]) -> crate::ops::Tensor<HostBuffer> {
        let mut tensor = CPU.alloc(DType::F32, shape.into()).unwrap();
        CPU.write(values, tensor.view_mut()).unwrap();
        tensor
    }

    #[test]
    fn a_snake_bends_each_channel_by_its_own_frequency() {
        let x = filled(&[2, 2, 1], &[0.5, 0.5, -1.0, -1.0]);
        let alpha = filled(&[2], &[1.0, 2.0]);
        let mut y = CPU.alloc(DType::F32, [2, 2, 1].into()).unwrap();
        CPU.snake(alpha.view(), x.view(), y.view_mut()).unwrap();
        let bent = |x: f32, alpha: f32| x + (alpha * x).sin().powi(2) / alpha;
        let expected = [bent(0.5, 1.0), bent(0.5, 2.0), bent(-1.0, 1.0), bent(-1.0, 2.0)];
        for (got, expected) in CPU.read(y.view()).unwrap().iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
        let short = filled(&[1], &[1.0]);
        let error = CPU.snake(short.view(), x.view(), y.view_mut()).unwrap_err();
        assert!(matches!(error, OpError::Shape { name: "alpha", .. }), "{error}");
    }

    #[test]
    fn transposing_swaps_rows_and_columns_of_a_window() {
        let x = filled(&[2, 4], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let mut y = CPU.alloc(DType::F32, [3, 2].into()).unwrap();
        CPU.transpose(x.view().narrow(1, 1..4), y.view_mut()).unwrap();
        assert_eq!(CPU.read(y.view()).unwrap(), [1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
        assert!(CPU.transpose(x.view(), y.view_mut()).is_err());
    }

    #[test]
    fn filters_that_do_not_halve_twice_are_refused() {
        let filter = CPU.alloc(DType::F32, [10].into()).unwrap();
        let one = CPU.alloc(DType::F32, [1].into()).unwrap();
        let x = CPU.alloc(DType::F32, [1, 1, 4].into()).unwrap();
        let mut y = CPU.alloc(DType::F32, [1, 1, 4].into()).unwrap();
        let snake =
            AliasFreeSnake { upsample: filter.view(), downsample: filter.view(), alpha: one.view(), beta: one.view() };
        let error = CPU.alias_free_snake(snake, x.view(), y.view_mut()).unwrap_err();
        assert!(matches!(error, OpError::Shape { name: "upsample", .. }), "{error}");
    }
}
