//! Matrix products, in chunks so that widened weights stay small.

use candle_core::{Device, Tensor as Candle};

use super::buffer::{HostBuffer, float_rows, float_rows_mut, load_all, round};
use crate::ops::{OpError, View, ViewMut};

const OP: &str = "linear";

/// Bytes of widened weights that one product holds at a time.
const WEIGHT_CHUNK_BYTES: usize = 64 << 20;

/// `a · bᵀ` for row-major F32 `a` `[m, k]` and `b` `[n, k]`, as row-major `[m, n]`.
pub(super) fn product_transposed(
    op: &'static str,
    a: Vec<f32>,
    b: Vec<f32>,
    [m, k, n]: [usize; 3],
) -> Result<Vec<f32>, OpError> {
    let run = || -> candle_core::Result<Vec<f32>> {
        let a = Candle::from_vec(a, (m, k), &Device::Cpu)?;
        let b = Candle::from_vec(b, (n, k), &Device::Cpu)?;
        a.matmul(&b.t()?)?.flatten_all()?.to_vec1()
    };
    run().map_err(|source| OpError::Backend { op, source: Box::new(source) })
}

pub(super) fn linear(
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let (n, k) = (w.shape()[0], w.width());
    let m = x.len_rows();
    w.expect_shape(OP, "w", &[n, k])?;
    x.expect_shape(OP, "x", &[m, k])?;
    y.expect_shape(OP, "y", &[m, n])?;
    if let Some(bias) = &bias {
        bias.expect_shape(OP, "bias", &[n])?;
    }
    let compute = x.dtype();
    float_rows(OP, "w", &w)?;
    let y_rows = float_rows_mut(OP, "y", &y)?;
    let inputs = load_all(OP, "x", &x)?;
    let mut bias = bias.map(|bias| load_all(OP, "bias", &bias)).transpose()?;
    if let Some(bias) = &mut bias {
        round(compute, bias);
    }

    let chunk = (WEIGHT_CHUNK_BYTES / (4 * k.max(1))).clamp(1, n.max(1));
    for start in (0..n).step_by(chunk) {
        let end = (start + chunk).min(n);
        let mut weights = load_all(OP, "w", &w.rows(start..end))?;
        round(compute, &mut weights);
        let mut sums = product_transposed(OP, inputs.clone(), weights, [m, k, end - start])?;
        for (row, sums) in sums.chunks_exact_mut(end - start).enumerate() {
            if let Some(bias) = &bias {
                for (sum, bias) in sums.iter_mut().zip(&bias[start..end]) {
                    *sum += bias;
                }
            }
            y.buffer.store(y_rows.offset(row) + start, sums);
        }
    }
    Ok(())
}
