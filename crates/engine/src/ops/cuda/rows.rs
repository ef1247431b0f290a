//! How kernels see an operand: as rows of neighbouring elements.

use cudarc::driver::sys::CUdeviceptr;

use super::buffer::{Content, CudaBuffer, address, address_mut};
use crate::ops::{DType, OpError, View, ViewMut, Window};

/// What a kernel is told of an operand; mirrors the struct of the same name in `layout.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Rows {
    pub(super) base: CUdeviceptr,
    strides: [i64; 3],
    sizes: [u32; 2],
    pub(super) dtype: u32,
    pub(super) width: u32,
}

/// Codes of element types; mirror those of `layout.cuh`.
pub(super) fn code(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::Bf16 => 1,
        DType::F16 => 2,
        DType::U8 => 3,
        DType::U32 => unreachable!("no kernel reads indices as floats: views of them are refused before"),
    }
}

impl Rows {
    /// Takes elements of `dtype` from `base` on as the rows of `window`; the offset of the window is in the base.
    ///
    /// Errors: [`OpError::Shape`] when elements of a row are not neighbours, or sizes pass what a kernel counts in.
    pub(super) fn of(
        op: &'static str,
        name: &'static str,
        base: CUdeviceptr,
        dtype: DType,
        window: Window,
    ) -> Result<Self, OpError> {
        let (shape, strides) = (window.shape.as_slice(), window.strides.as_slice());
        let (width, outer) = shape.split_last().expect("a view has at least one dimension");
        if strides[outer.len()] != 1 {
            return Err(OpError::Shape { op, name, expected: vec![1], actual: strides.to_vec() });
        }
        let (mut sizes, mut steps) = ([1; 3], [0; 3]);
        let skip = 3 - outer.len();
        for axis in 0..outer.len() {
            sizes[skip + axis] = small(op, name, outer[axis])?;
            steps[skip + axis] = strides[axis] as i64;
        }
        // One list of rows: its only stride comes first, so that the kernel need not divide.
        if outer.len() == 1 {
            (sizes, steps) = ([sizes[2], 1, 1], [steps[2], 0, 0]);
        }
        small(op, name, outer.iter().product())?;
        let width = small(op, name, *width)?;
        Ok(Self { base, strides: steps, sizes: [sizes[1], sizes[2]], dtype: code(dtype), width })
    }

    /// Takes contiguous elements as `rows` rows of `width`; there must be memory for them.
    pub(super) fn contiguous(base: CUdeviceptr, dtype: DType, width: u32) -> Self {
        Self { base, strides: [i64::from(width), 0, 0], sizes: [1, 1], dtype: code(dtype), width }
    }

    /// Leaves out the first `rows` of one list of rows.
    pub(super) fn starting_at(&self, rows: usize) -> Self {
        debug_assert_eq!(self.sizes, [1, 1], "rows of several lists begin at several places");
        let bytes: u64 = match self.dtype {
            0 => 4,
            1 | 2 => 2,
            _ => 1,
        };
        Self { base: self.base + rows as u64 * self.strides[0] as u64 * bytes, ..*self }
    }

    /// Tells whether it is BF16 in whole groups of eight, each of which begins at 16 bytes.
    pub(super) fn is_in_eights(&self) -> bool {
        let steps = self.strides.iter().all(|step| step % 8 == 0);
        self.dtype == code(DType::Bf16) && self.base.is_multiple_of(16) && self.width.is_multiple_of(8) && steps
    }

    /// Tells whether it is BF16 in whole groups of four, each of which begins at 8 bytes.
    pub(super) fn is_in_groups_of_four(&self) -> bool {
        let steps = self.strides.iter().all(|step| step % 4 == 0);
        self.dtype == code(DType::Bf16) && self.base.is_multiple_of(8) && self.width.is_multiple_of(4) && steps
    }

    /// Stands for an operand that is not there; a kernel that is told so does not look at it.
    pub(super) fn absent() -> Self {
        Self::contiguous(0, DType::F32, 0)
    }
}

/// A size as kernels count.
///
/// Errors: [`OpError::Shape`] for more than four thousand million.
pub(super) fn small(op: &'static str, name: &'static str, size: usize) -> Result<u32, OpError> {
    u32::try_from(size).map_err(|_| OpError::Shape { op, name, expected: vec![u32::MAX as usize], actual: vec![size] })
}

/// Rows of an input of floats or bytes, and how many.
///
/// Errors: [`OpError::DType`] for indices, [`OpError::Shape`].
pub(super) fn input(op: &'static str, name: &'static str, x: &View<'_, CudaBuffer>) -> Result<(Rows, u32), OpError> {
    if x.dtype() == DType::U32 {
        return Err(OpError::DType { op, name, actual: x.dtype() });
    }
    let rows = Rows::of(op, name, address(x), x.dtype(), x.window())?;
    Ok((rows, row_count(x.window())))
}

/// Rows of an output of floats, and how many.
///
/// Errors: [`OpError::DType`] for indices, bytes and weights, [`OpError::Shape`].
pub(super) fn output(
    op: &'static str,
    name: &'static str,
    y: &ViewMut<'_, CudaBuffer>,
) -> Result<(Rows, u32), OpError> {
    let floats = !matches!(y.dtype(), DType::U32 | DType::U8);
    if !floats || !matches!(y.buffer.content, Content::Activations) {
        return Err(OpError::DType { op, name, actual: y.dtype() });
    }
    let rows = Rows::of(op, name, address_mut(y), y.dtype(), y.window())?;
    Ok((rows, row_count(y.window())))
}

/// How many rows a window has, which [`Rows::of`] has found to be few enough.
fn row_count(window: Window) -> u32 {
    let shape = window.shape.as_slice();
    shape[..shape.len() - 1].iter().product::<usize>() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ops::Dims;

    impl Rows {
        /// The kernels' arithmetic.
        fn offset(&self, row: u32) -> i64 {
            let [size1, size2] = self.sizes;
            if (size1, size2) == (1, 1) {
                return i64::from(row) * self.strides[0];
            }
            let (inner, rest) = (row % size2, row / size2);
            i64::from(inner) * self.strides[2]
                + i64::from(rest % size1) * self.strides[1]
                + i64::from(rest / size1) * self.strides[0]
        }
    }

    proptest! {
        #[test]
        fn every_row_begins_where_its_window_says(
            shape in prop::collection::vec(1usize..5, 1..5), gaps in prop::collection::vec(0usize..3, 4),
        ) {
            // Strides with gaps between the rows of each axis.
            let mut strides = vec![1; shape.len()];
            for axis in (0..shape.len() - 1).rev() {
                strides[axis] = (shape[axis + 1] + gaps[axis]) * strides[axis + 1];
            }
            let window = Window { offset: 7, shape: Dims::new(&shape), strides: Dims::new(&strides) };
            let rows = Rows::of("test", "x", 0, DType::F32, window).unwrap();
            prop_assert_eq!(rows.width as usize, shape[shape.len() - 1]);
            let outer = &shape[..shape.len() - 1];
            for row in 0..outer.iter().product::<usize>() {
                let (mut rest, mut expected) = (row, 0);
                for (size, stride) in outer.iter().zip(&strides).rev() {
                    expected += rest % size * stride;
                    rest /= size;
                }
                prop_assert_eq!(rows.offset(row as u32), expected as i64);
            }
        }
    }

    #[test]
    fn elements_that_are_no_neighbours_and_sizes_beyond_32_bits_are_refused() {
        let window = |shape: &[usize], strides: &[usize]| Window {
            offset: 0,
            shape: Dims::new(shape),
            strides: Dims::new(strides),
        };
        let error = Rows::of("add", "x", 0, DType::F32, window(&[2, 2], &[1, 2])).unwrap_err();
        assert_eq!(error.to_string(), "add: x has shape [1, 2], expected [1]");
        assert!(Rows::of("add", "x", 0, DType::F32, window(&[1 << 20, 1 << 20, 1], &[1 << 20, 1, 1])).is_err());
    }

    #[test]
    fn rows_are_read_in_groups_only_where_every_one_is_aligned() {
        let rows = |base, dtype, shape: &[usize], strides: &[usize]| {
            let window = Window { offset: 0, shape: Dims::new(shape), strides: Dims::new(strides) };
            Rows::of("test", "x", base, dtype, window).unwrap()
        };
        assert!(rows(256, DType::Bf16, &[3, 16], &[24, 1]).is_in_eights());
        for other in [
            rows(256, DType::F16, &[3, 16], &[24, 1]),
            rows(264, DType::Bf16, &[3, 16], &[24, 1]),
            rows(256, DType::Bf16, &[3, 12], &[24, 1]),
            rows(256, DType::Bf16, &[3, 16], &[20, 1]),
        ] {
            assert!(!other.is_in_eights(), "{other:?}");
        }
        assert!(rows(264, DType::Bf16, &[3, 2, 12], &[24, 12, 1]).is_in_groups_of_four());
        assert!(!rows(264, DType::Bf16, &[3, 2, 12], &[26, 12, 1]).is_in_groups_of_four());
    }

    #[test]
    fn rows_that_are_left_out_are_stepped_over_with_their_gaps() {
        let window = Window { offset: 0, shape: Dims::new(&[9, 4]), strides: Dims::new(&[6, 1]) };
        for (dtype, bytes) in [(DType::F32, 4), (DType::Bf16, 2), (DType::F16, 2), (DType::U8, 1)] {
            let rows = Rows::of("test", "x", 256, dtype, window).unwrap();
            assert_eq!(rows.starting_at(5), Rows { base: 256 + 5 * 6 * bytes, ..rows });
        }
    }

    #[test]
    fn the_struct_has_the_size_of_its_twin() {
        assert_eq!(size_of::<Rows>(), 48);
    }
}
