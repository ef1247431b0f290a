//! Matrix products of views.

use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUdeviceptr;

use super::Cuda;
use super::blas::{Matrix, Product};
use super::buffer::{Content, CudaBuffer, address, address_mut};
use super::error::CudaError;
use super::kernels::{Grid, argument};
use super::memory::DeviceMemory;
use super::rows::{Rows, input, output, small};
use crate::ops::{DType, OpError, View, ViewMut};

const OP: &str = "linear";

/// Elements that one copy rounds at a time.
const MOST_COPIED: usize = 1 << 31;

/// Bytes of F32 sums that are held beside a result at a time.
const SUM_BYTES: usize = 32 << 20;

/// How many rows of F32 sums are held at a time: groups of 64, so that every chunk but the last is made alike.
fn rows_of_sums(width: usize) -> usize {
    (SUM_BYTES / (4 * width.max(1)) / 64 * 64).max(64)
}

/// An operand in another type, and what keeps it there.
pub(super) struct Converted {
    pub(super) address: CUdeviceptr,
    /// Elements from row to row.
    pub(super) step: usize,
    _kept: Option<DeviceMemory>,
}

impl Cuda {
    /// Returns rows of `x` in `dtype`: as they are, or from a copy made now. A weight is loaded in the type that it is used
    /// in, so that none has to be copied at each use.
    pub(super) fn converted(
        &self,
        op: &'static str,
        name: &'static str,
        x: &View<'_, CudaBuffer>,
        dtype: DType,
    ) -> Result<Converted, OpError> {
        let window = x.window();
        let steps = window.strides.as_slice();
        let step = if steps.len() > 1 { steps[steps.len() - 2] } else { window.shape.elements() };
        if x.dtype() == dtype {
            return Ok(Converted { address: address(x), step, _kept: None });
        }
        if matches!(x.buffer.content, Content::Weight) && !self.told_of_casts.swap(true, Ordering::Relaxed) {
            tracing::warn!(op, shape = ?x.shape(), from = %x.dtype(), to = %dtype, "a weight is converted at every use");
        }
        let (rows, count) = input(op, name, x)?;
        let memory = self.scratch(op, window.shape.elements() * dtype.size())?;
        let to = Rows::contiguous(memory.address(), dtype, rows.width);
        let grid = Grid::over(u64::from(count) * u64::from(rows.width));
        self.launch(op, "cast_rows", grid, &[argument(&rows), argument(&to), argument(&count)])?;
        Ok(Converted { address: memory.address(), step: rows.width as usize, _kept: Some(memory) })
    }

    /// Copies `elements` neighbours, rounding them to another type.
    pub(super) fn copy_of(
        &self,
        op: &'static str,
        from: &DeviceMemory,
        dtype: DType,
        elements: usize,
        to: DType,
    ) -> Result<DeviceMemory, OpError> {
        let memory = self.scratch(op, elements * to.size())?;
        // One element a row, as many rows at a time as kernels count.
        for start in (0..elements).step_by(MOST_COPIED) {
            let count = small(op, "w", MOST_COPIED.min(elements - start))?;
            let (x, y) =
                (from.address() + (start * dtype.size()) as u64, memory.address() + (start * to.size()) as u64);
            let (x, y) = (Rows::contiguous(x, dtype, 1), Rows::contiguous(y, to, 1));
            let grid = Grid::over(u64::from(count));
            self.launch(op, "cast_rows", grid, &[argument(&x), argument(&y), argument(&count)])?;
        }
        Ok(memory)
    }

    pub(super) fn linear_of(
        &self,
        w: View<'_, CudaBuffer>,
        bias: Option<View<'_, CudaBuffer>>,
        x: View<'_, CudaBuffer>,
        y: ViewMut<'_, CudaBuffer>,
    ) -> Result<(), OpError> {
        let (m, n, k) = (x.len_rows(), w.len_rows(), w.width());
        w.expect_shape(OP, "w", &[n, k])?;
        x.expect_shape(OP, "x", &[m, k])?;
        y.expect_shape(OP, "y", &[m, n])?;
        if let Some(bias) = &bias {
            bias.expect_shape(OP, "bias", &[n])?;
        }
        let compute = x.dtype();
        if matches!(compute, DType::U8) {
            return Err(OpError::DType { op: OP, name: "x", actual: compute });
        }
        let (w_rows, _) = input(OP, "w", &w)?;
        let (x_rows, _) = input(OP, "x", &x)?;
        let (y_rows, count) = output(OP, "y", &y)?;
        let bias_rows = match &bias {
            Some(bias) => input(OP, "bias", bias)?.0,
            None => Rows::absent(),
        };
        if m == 0 || n == 0 {
            return Ok(());
        }
        let weights = self.converted(OP, "w", &w, compute)?;
        let step = |rows: usize, step: usize, width: usize| if rows > 1 { step } else { width } as i64;
        let row_step = |view: crate::ops::Window| view.strides.as_slice()[0];
        let (to, y_step) = (address_mut(&y), step(m, row_step(y.window()), n));
        let a = Matrix { address: weights.address, rows: k as u64, columns: n as u64, step: step(n, weights.step, k) };
        let x_step = step(m, row_step(x.window()), k);
        let b = Matrix { address: address(&x), rows: k as u64, columns: m as u64, step: x_step };
        let d = Matrix { address: to, rows: n as u64, columns: m as u64, step: y_step };
        let product = |d: Matrix, bias, result| Product { a, a_transposed: true, b, d, bias, factors: compute, result };
        let usable = k > 0 && [a, b, d].iter().all(|matrix| matrix.step >= matrix.rows as i64);

        // The library adds a bias of the result's own type, before it rounds.
        let fused = match &bias {
            Some(bias) if y.dtype() == compute => Some(self.converted(OP, "bias", bias, compute)?),
            _ => None,
        };
        let aligned = fused.as_ref().is_none_or(|bias| bias.address.is_multiple_of(16));
        let multiply = |product: Product| self.blas.multiply(&product).map_err(CudaError::of(OP));
        if usable && y.dtype() == compute && aligned {
            let at = fused.as_ref().map(|bias| bias.address);
            if multiply(product(d, at, compute))? {
                return Ok(());
            }
        } else if usable {
            // F32 sums, in place where the result is F32 anyway; then the bias, and one rounding.
            let has_sums = if y.dtype() == DType::F32 {
                let done = multiply(product(d, None, DType::F32))?;
                if done && bias.is_some() {
                    self.add_bias(y_rows, Some(bias_rows), compute, y_rows, count)?;
                }
                done
            } else {
                let bias = bias.is_some().then_some(bias_rows);
                self.rounded_sums(product(d, None, DType::F32), bias, y_rows)?
            };
            if has_sums {
                return Ok(());
            }
        }
        let has_bias = u32::from(bias.is_some());
        let grid = Grid::over(u64::from(count) * u64::from(y_rows.width));
        let arguments =
            [argument(&w_rows), argument(&bias_rows), argument(&has_bias), argument(&x_rows), argument(&y_rows)];
        self.launch(OP, "linear_plain", grid, &[&arguments[..], &[argument(&count)]].concat())
    }

    /// Computes a product of F32 sums beside its result and rounds them into `y` with the bias, a bounded number of rows at
    /// a time; false when the library has no algorithm, whatever is in `y` then.
    fn rounded_sums(&self, product: Product, bias: Option<Rows>, y: Rows) -> Result<bool, OpError> {
        let (width, rows) = (product.d.rows as usize, product.d.columns as usize);
        let chunk = rows_of_sums(width).min(rows);
        let memory = self.scratch(OP, width * chunk * 4)?;
        for start in (0..rows).step_by(chunk) {
            let now = chunk.min(rows - start);
            let before = (start as i64 * product.b.step) as u64 * product.factors.size() as u64;
            let b = Matrix { address: product.b.address + before, columns: now as u64, ..product.b };
            let d = Matrix { address: memory.address(), columns: now as u64, step: width as i64, ..product.d };
            if !self.blas.multiply(&Product { b, d, ..product }).map_err(CudaError::of(OP))? {
                return Ok(false);
            }
            let sums = Rows::contiguous(memory.address(), DType::F32, y.width);
            self.add_bias(sums, bias, product.factors, y.starting_at(start), small(OP, "y", now)?)?;
        }
        Ok(true)
    }

    /// `y = round(x + bias)`, the bias as `dtype` holds it.
    fn add_bias(&self, x: Rows, bias: Option<Rows>, dtype: DType, y: Rows, count: u32) -> Result<(), OpError> {
        let (has_bias, rounding) = (u32::from(bias.is_some()), super::rows::code(dtype));
        let bias = bias.unwrap_or_else(Rows::absent);
        let grid = Grid::over(u64::from(count) * u64::from(y.width));
        let arguments =
            [argument(&x), argument(&bias), argument(&has_bias), argument(&rounding), argument(&y), argument(&count)];
        self.launch(OP, "add_bias", grid, &arguments)
    }

    /// `y = a · b` of row-major F32 matrices `[n, k]` and `[k, m]`, rows of `y` `step` elements apart.
    pub(super) fn product_rows(
        &self,
        op: &'static str,
        [n, k, m]: [usize; 3],
        a: CUdeviceptr,
        b: CUdeviceptr,
        y: CUdeviceptr,
        step: usize,
    ) -> Result<(), OpError> {
        // As the library counts, every matrix is its own transpose: yᵀ = bᵀ · aᵀ.
        let product = Product {
            a: Matrix { address: b, rows: m as u64, columns: k as u64, step: m as i64 },
            a_transposed: false,
            b: Matrix { address: a, rows: k as u64, columns: n as u64, step: k as i64 },
            d: Matrix { address: y, rows: m as u64, columns: n as u64, step: step as i64 },
            bias: None,
            factors: DType::F32,
            result: DType::F32,
        };
        if self.blas.multiply(&product).map_err(CudaError::of(op))? {
            return Ok(());
        }
        Err(OpError::Backend { op, source: format!("cuBLASLt multiplies no [{n}, {k}] by [{k}, {m}]").into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beside_a_result_stay_below_their_bytes_in_whole_groups() {
        for width in [1, 5, 5376, 28_672, 131_072] {
            let rows = rows_of_sums(width);
            assert!(rows.is_multiple_of(64) && 4 * width * rows <= SUM_BYTES, "{width}");
        }
        assert_eq!(rows_of_sums(1 << 30), 64);
    }
}
