//! Rows and elements that move.

use std::collections::HashSet;

use super::Cuda;
use super::buffer::{CudaBuffer, picks};
use super::kernels::{Grid, argument};
use super::rows::{input, output, small};
use crate::ops::{OpError, View, ViewMut};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

/// Tells whether no index is there twice.
fn are_distinct(indices: &[u32]) -> bool {
    let mut seen = HashSet::new();
    indices.iter().all(|index| seen.insert(*index))
}

impl Cuda {
    pub(super) fn gather_rows_of(&self, table: X<'_>, indices: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "gather_rows";
        let pick = picks(OP, "indices", &indices, table.len_rows())?;
        y.expect_shape(OP, "y", &[pick.host.len(), table.width()])?;
        let (from, _) = input(OP, "table", &table)?;
        let (to, count) = output(OP, "y", &y)?;
        let arguments = [argument(&from), argument(&pick.address), argument(&to), argument(&count)];
        self.each(OP, "gather_rows", (to, count), &arguments)
    }

    pub(super) fn scatter_rows_of(&self, x: X<'_>, indices: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "scatter_rows";
        let place = picks(OP, "indices", &indices, y.len_rows())?;
        x.expect_shape(OP, "x", &[place.host.len(), y.width()])?;
        debug_assert!(are_distinct(place.host), "rows are written in no order: which of two is left is chance");
        let (from, count) = input(OP, "x", &x)?;
        let (to, _) = output(OP, "y", &y)?;
        let arguments = [argument(&from), argument(&place.address), argument(&to), argument(&count)];
        self.each(OP, "scatter_rows", (to, count), &arguments)
    }

    pub(super) fn mix_rows_of(&self, table: X<'_>, indices: X<'_>, weights: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "mix_rows";
        let (rows, taps) = (weights.len_rows(), weights.width());
        weights.expect_shape(OP, "weights", &[rows, taps.max(1)])?;
        indices.expect_shape(OP, "indices", &[rows * taps])?;
        y.expect_shape(OP, "y", &[rows, table.width()])?;
        let pick = picks(OP, "indices", &indices, table.len_rows())?;
        small(OP, "indices", rows * taps)?;
        let ((from, _), (weights, _)) = (input(OP, "table", &table)?, input(OP, "weights", &weights)?);
        let (to, count) = output(OP, "y", &y)?;
        let arguments = [argument(&from), argument(&pick.address), argument(&weights), argument(&to), argument(&count)];
        self.each(OP, "mix_rows", (to, count), &arguments)
    }

    pub(super) fn transpose_of(&self, x: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "transpose";
        let &[rows, columns] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0], actual: x.shape().to_vec() });
        };
        y.expect_shape(OP, "y", &[columns, rows])?;
        let (from, count) = input(OP, "x", &x)?;
        let (to, _) = output(OP, "y", &y)?;
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let blocks = (from.width.div_ceil(32), count.div_ceil(32).min(65_535));
        let grid = Grid { blocks, threads: (32, 8), shared_bytes: 0 };
        self.launch(OP, "transpose", grid, &[argument(&from), argument(&to), argument(&count)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_is_there_twice_is_found() {
        assert!(are_distinct(&[]) && are_distinct(&[3, 1, 2]));
        assert!(!are_distinct(&[3, 1, 3]));
    }
}
