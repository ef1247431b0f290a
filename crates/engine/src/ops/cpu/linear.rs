//! Matrix products, in chunks of rows and columns so that widened operands and results stay small.

use candle_core::{Device, Tensor as Candle};

use super::buffer::{HostBuffer, float_rows, float_rows_mut, load_all, round};
use crate::ops::{OpError, View, ViewMut};

const OP: &str = "linear";

/// Bytes of widened weights that one product holds at a time, and as many again of widened inputs and sums.
const CHUNK_BYTES: usize = 64 << 20;

/// How much of a product is computed at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunks {
    /// Rows of the weights: columns of the result.
    columns: usize,
    /// Rows of the inputs and of the result.
    rows: usize,
}

impl Chunks {
    /// Cuts `[m, k] · [n, k]ᵀ` so that weights and inputs with their sums each stay below `bytes`, at least one row
    /// each.
    fn of([m, k, n]: [usize; 3], bytes: usize) -> Self {
        let columns = (bytes / (4 * k.max(1))).clamp(1, n.max(1));
        // Sums are held twice: by candle, and as they are stored.
        let rows = (bytes / (4 * (k + 2 * columns))).clamp(1, m.max(1));
        Self { columns, rows }
    }
}

/// A row-major F32 matrix that candle multiplies.
pub(super) struct Matrix(Candle);

impl Matrix {
    /// Takes `values` as `[rows, columns]`.
    pub(super) fn new(op: &'static str, values: Vec<f32>, rows: usize, columns: usize) -> Result<Self, OpError> {
        Candle::from_vec(values, (rows, columns), &Device::Cpu).map(Self).map_err(backend(op))
    }

    /// Shares the first `rows` rows.
    pub(super) fn first_rows(&self, op: &'static str, rows: usize) -> Result<Self, OpError> {
        self.0.narrow(0, 0, rows).map(Self).map_err(backend(op))
    }

    /// Shares the last `columns` columns.
    pub(super) fn last_columns(&self, op: &'static str, columns: usize) -> Result<Self, OpError> {
        let shared = || self.0.narrow(1, self.0.dim(1)? - columns, columns);
        shared().map(Self).map_err(backend(op))
    }

    /// `self · other`, row major.
    pub(super) fn times(&self, op: &'static str, other: &Self) -> Result<Vec<f32>, OpError> {
        let product = || self.0.matmul(&other.0)?.flatten_all()?.to_vec1();
        product().map_err(backend(op))
    }

    /// `self · otherᵀ`, row major.
    pub(super) fn times_transposed(&self, op: &'static str, other: &Self) -> Result<Vec<f32>, OpError> {
        let product = || self.0.matmul(&other.0.t()?)?.flatten_all()?.to_vec1();
        product().map_err(backend(op))
    }
}

/// Names the operation in which candle failed.
pub(super) fn backend(op: &'static str) -> impl Fn(candle_core::Error) -> OpError {
    move |source| OpError::Backend { op, source: Box::new(source) }
}

pub(super) fn linear(
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let chunks = Chunks::of([x.len_rows(), w.width(), w.len_rows()], CHUNK_BYTES);
    linear_in_chunks(chunks, w, bias, x, y)
}

fn linear_in_chunks(
    chunks: Chunks,
    w: View<'_, HostBuffer>,
    bias: Option<View<'_, HostBuffer>>,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let (m, n, k) = (x.len_rows(), w.len_rows(), w.width());
    w.expect_shape(OP, "w", &[n, k])?;
    x.expect_shape(OP, "x", &[m, k])?;
    y.expect_shape(OP, "y", &[m, n])?;
    if let Some(bias) = &bias {
        bias.expect_shape(OP, "bias", &[n])?;
    }
    let compute = x.dtype();
    float_rows(OP, "w", &w)?;
    float_rows(OP, "x", &x)?;
    let y_rows = float_rows_mut(OP, "y", &y)?;
    let mut bias = bias.map(|bias| load_all(OP, "bias", &bias)).transpose()?;
    if let Some(bias) = &mut bias {
        round(compute, bias);
    }

    for first_column in (0..n).step_by(chunks.columns) {
        let end_column = (first_column + chunks.columns).min(n);
        let mut weights = load_all(OP, "w", &w.rows(first_column..end_column))?;
        round(compute, &mut weights);
        let weights = Matrix::new(OP, weights, end_column - first_column, k)?;
        for first_row in (0..m).step_by(chunks.rows) {
            let end_row = (first_row + chunks.rows).min(m);
            let inputs = load_all(OP, "x", &x.rows(first_row..end_row))?;
            let inputs = Matrix::new(OP, inputs, end_row - first_row, k)?;
            let mut sums = inputs.times_transposed(OP, &weights)?;
            for (row, sums) in sums.chunks_exact_mut(end_column - first_column).enumerate() {
                if let Some(bias) = &bias {
                    for (sum, bias) in sums.iter_mut().zip(&bias[first_column..end_column]) {
                        *sum += bias;
                    }
                }
                y.buffer.store(y_rows.offset(first_row + row) + first_column, sums);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::cpu::Cpu;
    use crate::ops::{DType, Ops, Tensor};

    const CPU: Cpu = Cpu { attention_scratch_bytes: 1 << 20 };

    fn counted(shape: [usize; 2]) -> Tensor<HostBuffer> {
        let mut tensor = CPU.alloc(DType::F32, shape.into()).unwrap();
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(|i| (i % 7) as f32 - 3.0).collect();
        CPU.write(&values, tensor.view_mut()).unwrap();
        tensor
    }

    proptest! {
        #[test]
        fn chunks_of_any_size_give_the_whole_product(
            (m, k, n) in (1usize..6, 1usize..6, 1usize..6), columns in 1usize..7, rows in 1usize..7,
        ) {
            let (x, w, bias) = (counted([m, k]), counted([n, k]), counted([1, n]));
            let product = |chunks| {
                let mut y = counted([m, n]);
                let bias = bias.view().reshape([n]);
                linear_in_chunks(chunks, w.view(), Some(bias), x.view(), y.view_mut()).unwrap();
                CPU.read(y.view()).unwrap()
            };
            // Small whole numbers, so that every order of summation is exact.
            prop_assert_eq!(product(Chunks { columns, rows }), product(Chunks { columns: n, rows: m }));
        }

        #[test]
        fn chunks_stay_below_their_bytes(m in 1usize..200_000, k in 1usize..30_000, n in 1usize..100_000) {
            let bytes = 1 << 20;
            let Chunks { columns, rows } = Chunks::of([m, k, n], bytes);
            prop_assert!(columns == 1 || 4 * columns * k <= bytes);
            prop_assert!(rows == 1 || 4 * rows * (k + 2 * columns) <= bytes);
            prop_assert!((1..=n).contains(&columns) && (1..=m).contains(&rows));
        }
    }
}
