//! Attention in row chunks under a byte bound.

use super::buffer::{HostBuffer, float_rows_mut, load_all, round};
use super::linear::Matrix;
use crate::ops::{DType, OpError, View, ViewMut};

const OP: &str = "attention";

pub(super) fn attention(
    scratch_bytes: usize,
    q: View<'_, HostBuffer>,
    k: View<'_, HostBuffer>,
    v: View<'_, HostBuffer>,
    scale: f32,
    causal: bool,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let &[rows, heads, head_dim] = q.shape() else {
        return Err(OpError::Shape { op: OP, name: "q", expected: vec![0, 0, 0], actual: q.shape().to_vec() });
    };
    let (keys, kv_heads) = (k.len_rows(), k.shape()[1]);
    k.expect_shape(OP, "k", &[keys, kv_heads, head_dim])?;
    v.expect_shape(OP, "v", &[keys, kv_heads, head_dim])?;
    y.expect_shape(OP, "y", &[rows, heads * head_dim])?;
    let shared = kv_heads > 0 && heads % kv_heads == 0;
    if !shared || keys == 0 || head_dim == 0 || (causal && rows != keys) {
        return Err(OpError::Shape {
            op: OP,
            name: "k",
            expected: vec![rows, heads, head_dim],
            actual: k.shape().to_vec(),
        });
    }
    let group = heads / kv_heads;
    let y_rows = float_rows_mut(OP, "y", &y)?;
    // Scores are held twice: by candle, and as they become weights.
    let chunk = (scratch_bytes / (2 * 4 * keys)).clamp(1, rows.max(1));

    for kv_head in 0..kv_heads {
        let head_keys = Matrix::new(OP, load_all(OP, "k", &k.select(1, kv_head))?, keys, head_dim)?;
        let head_values = Matrix::new(OP, load_all(OP, "v", &v.select(1, kv_head))?, keys, head_dim)?;
        for head in kv_head * group..(kv_head + 1) * group {
            for start in (0..rows).step_by(chunk) {
                let end = (start + chunk).min(rows);
                // A causal chunk never looks past its own last row.
                let seen = if causal { end } else { keys };
                let queries = load_all(OP, "q", &q.rows(start..end).select(1, head))?;
                let queries = Matrix::new(OP, queries, end - start, head_dim)?;
                let mut scores = queries.times_transposed(OP, &head_keys.first_rows(OP, seen)?)?;
                let mut sums = Vec::with_capacity(end - start);
                for (row, scores) in scores.chunks_exact_mut(seen).enumerate() {
                    let visible = if causal { start + row + 1 } else { seen };
                    sums.push(weigh(q.dtype(), &mut scores[..visible], scale));
                    scores[visible..].fill(0.0);
                }
                let scores = Matrix::new(OP, scores, end - start, seen)?;
                let mut mixed = scores.times(OP, &head_values.first_rows(OP, seen)?)?;
                for (row, (mixed, sum)) in mixed.chunks_exact_mut(head_dim).zip(sums).enumerate() {
                    mixed.iter_mut().for_each(|v| *v /= sum);
                    y.buffer.store(y_rows.offset(start + row) + head * head_dim, mixed);
                }
            }
        }
    }
    Ok(())
}

/// Turns scores into softmax weights that are still to be divided by their sum, which is returned.
///
/// In 16-bit types the weights are rounded to the type after they were summed, and come from [`fast_exp`]: so does
/// PyTorch 2.15's fused CPU attention, which made the BF16 goldens.
fn weigh(dtype: DType, scores: &mut [f32], scale: f32) -> f32 {
    scores.iter_mut().for_each(|score| *score *= scale);
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = if dtype == DType::F32 { (*score - max).exp() } else { fast_exp(*score - max) };
        sum += *score;
    }
    round(dtype, scores);
    sum
}

/// `eˣ` for `x <= 0` to about 13 bits: the exponent's bits from `x · log2 e`, corrected by a cubic in its fraction.
fn fast_exp(x: f32) -> f32 {
    const CUBIC: [f32; 4] = [0.000_107_034_35, 0.303_542_6, -0.224_338_36, -0.079_204_24];
    if x < -87.336_54 {
        return 0.0;
    }
    let exponent = x * std::f32::consts::LOG2_E;
    let fraction = exponent - exponent.floor();
    let correction = CUBIC.iter().rev().fold(0.0f32, |sum, c| sum.mul_add(fraction, *c));
    let bits = (exponent - correction).mul_add(8_388_608.0, 127.0 * 8_388_608.0);
    f32::from_bits(bits.round_ties_even() as u32)
}
