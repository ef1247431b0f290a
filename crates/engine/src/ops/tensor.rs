//! Typed buffers and the views that operations take.

use std::fmt;

use super::OpError;

/// The element types that tensors hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit IEEE float.
    F32,
    /// 16-bit brain float.
    Bf16,
    /// 16-bit IEEE float.
    F16,
    /// Unsigned byte.
    U8,
    /// 32-bit unsigned integer: row indices and token ids.
    U32,
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::F32 | DType::U32 => 4,
            DType::Bf16 | DType::F16 => 2,
            DType::U8 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "F32",
            DType::Bf16 => "BF16",
            DType::F16 => "F16",
            DType::U8 => "U8",
            DType::U32 => "U32",
        })
    }
}

/// Up to four sizes or strides, in elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    len: usize,
    dims: [usize; Dims::MOST],
}

impl Dims {
    /// The most dimensions a tensor has: `(channels, frames, height, width)`.
    pub const MOST: usize = 4;

    /// Holds `dims`, outermost first.
    ///
    /// Panics: When there are none or more than four: shapes are the engine's own, never input.
    pub fn new(dims: &[usize]) -> Self {
        let most = Self::MOST;
        assert!((1..=most).contains(&dims.len()), "a tensor has 1 to {most} dimensions, not {}", dims.len());
        let mut held = [0; Self::MOST];
        held[..dims.len()].copy_from_slice(dims);
        Self { len: dims.len(), dims: held }
    }

    /// Returns the sizes, outermost first.
    pub fn as_slice(&self) -> &[usize] {
        &self.dims[..self.len]
    }

    /// How many elements a tensor of this shape has; more than memory could hold saturates.
    pub fn elements(&self) -> usize {
        self.as_slice().iter().fold(1, |elements, size| elements.saturating_mul(*size))
    }

    /// Row-major strides of a contiguous tensor of this shape.
    pub fn contiguous_strides(&self) -> Dims {
        let mut strides = *self;
        let mut step = 1;
        for axis in (0..self.len).rev() {
            strides.dims[axis] = step;
            step *= self.dims[axis];
        }
        strides
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_slice())
    }
}

impl From<&[usize]> for Dims {
    fn from(dims: &[usize]) -> Self {
        Dims::new(dims)
    }
}

impl<const N: usize> From<[usize; N]> for Dims {
    fn from(dims: [usize; N]) -> Self {
        Dims::new(&dims)
    }
}

/// A contiguous tensor that owns its device buffer `B`.
#[derive(Debug)]
pub struct Tensor<B> {
    pub(crate) buffer: B,
    dtype: DType,
    shape: Dims,
}

impl<B> Tensor<B> {
    /// Wraps a buffer that holds exactly `shape` elements of `dtype`.
    pub(crate) fn from_buffer(buffer: B, dtype: DType, shape: Dims) -> Self {
        Self { buffer, dtype, shape }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    /// Borrows the whole tensor, for reading.
    pub fn view(&self) -> View<'_, B> {
        View { buffer: &self.buffer, dtype: self.dtype, window: Window::whole(self.shape) }
    }

    /// Borrows the whole tensor, for writing.
    pub fn view_mut(&mut self) -> ViewMut<'_, B> {
        ViewMut { buffer: &mut self.buffer, dtype: self.dtype, window: Window::whole(self.shape) }
    }

    /// Rows `range` of the outermost dimension, for reading.
    pub fn rows(&self, range: std::ops::Range<usize>) -> View<'_, B> {
        self.view().rows(range)
    }

    /// Rows `range` of the outermost dimension, for writing.
    pub fn rows_mut(&mut self, range: std::ops::Range<usize>) -> ViewMut<'_, B> {
        self.view_mut().rows(range)
    }
}

/// Where in a buffer a view lies; the same arithmetic serves reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First element, counted from the start of the buffer.
    pub offset: usize,
    /// Sizes, outermost first.
    pub shape: Dims,
    /// Elements between neighbours along each axis.
    pub strides: Dims,
}

impl Window {
    fn whole(shape: Dims) -> Self {
        Self { offset: 0, shape, strides: shape.contiguous_strides() }
    }

    /// Tells whether the elements follow one another without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.strides == self.shape.contiguous_strides()
    }

    fn narrow(mut self, axis: usize, range: std::ops::Range<usize>) -> Self {
        let size = self.shape.as_slice()[axis];
        assert!(
            range.start <= range.end && range.end <= size,
            "range {range:?} is outside axis {axis} of {:?}",
            self.shape
        );
        self.offset += range.start * self.strides.as_slice()[axis];
        self.shape.dims[axis] = range.end - range.start;
        self
    }

    fn split(self, axis: usize, inner: &[usize]) -> Self {
        let size = self.shape.as_slice()[axis];
        assert_eq!(
            size,
            inner.iter().product::<usize>(),
            "axis {axis} of {:?} does not split into {inner:?}",
            self.shape
        );
        let mut shape = self.shape.as_slice()[..axis].to_vec();
        let mut strides = self.strides.as_slice()[..axis].to_vec();
        let mut step = size * self.strides.as_slice()[axis];
        for &dim in inner {
            step /= dim;
            shape.push(dim);
            strides.push(step);
        }
        shape.extend_from_slice(&self.shape.as_slice()[axis + 1..]);
        strides.extend_from_slice(&self.strides.as_slice()[axis + 1..]);
        Self { offset: self.offset, shape: Dims::new(&shape), strides: Dims::new(&strides) }
    }

    fn select(self, axis: usize, index: usize) -> Self {
        let narrowed = self.narrow(axis, index..index + 1);
        let drop_axis = |dims: &Dims| {
            let mut kept = dims.as_slice().to_vec();
            kept.remove(axis);
            Dims::new(&kept)
        };
        Self { offset: narrowed.offset, shape: drop_axis(&narrowed.shape), strides: drop_axis(&narrowed.strides) }
    }

    fn reshape(self, shape: Dims) -> Self {
        assert!(self.is_contiguous(), "only contiguous views reshape, this one has strides {:?}", self.strides);
        assert_eq!(self.shape.elements(), shape.elements(), "{:?} does not reshape into {shape:?}", self.shape);
        Self { offset: self.offset, shape, strides: shape.contiguous_strides() }
    }
}

macro_rules! view_methods {
    () => {
        /// Returns the element type.
        pub fn dtype(&self) -> DType {
            self.dtype
        }

        /// Sizes, outermost first.
        pub fn shape(&self) -> &[usize] {
            self.window.shape.as_slice()
        }

        /// Where the view lies in its buffer.
        pub fn window(&self) -> Window {
            self.window
        }

        /// Size of the outermost dimension.
        pub fn len_rows(&self) -> usize {
            self.shape()[0]
        }

        /// Size of the innermost dimension.
        pub fn width(&self) -> usize {
            *self.shape().last().expect("a view has at least one dimension")
        }

        /// Keeps `range` of the outermost dimension.
        #[must_use]
        pub fn rows(self, range: std::ops::Range<usize>) -> Self {
            self.narrow(0, range)
        }

        /// Keeps `range` of `axis`.
        #[must_use]
        pub fn narrow(mut self, axis: usize, range: std::ops::Range<usize>) -> Self {
            self.window = self.window.narrow(axis, range);
            self
        }

        /// Splits `axis` into `inner` axes, outermost first.
        #[must_use]
        pub fn split(mut self, axis: usize, inner: &[usize]) -> Self {
            self.window = self.window.split(axis, inner);
            self
        }

        /// Keeps entry `index` of `axis` and drops the axis.
        #[must_use]
        pub fn select(mut self, axis: usize, index: usize) -> Self {
            self.window = self.window.select(axis, index);
            self
        }

        /// Gives a contiguous view another shape of as many elements.
        #[must_use]
        pub fn reshape(mut self, shape: impl Into<Dims>) -> Self {
            self.window = self.window.reshape(shape.into());
            self
        }

        /// Checks the shape against what operation `op` needs for argument `name`.
        ///
        /// Errors: [`OpError::Shape`] with both shapes.
        pub fn expect_shape(&self, op: &'static str, name: &'static str, expected: &[usize]) -> Result<(), OpError> {
            if self.shape() == expected {
                return Ok(());
            }
            Err(OpError::Shape { op, name, expected: expected.to_vec(), actual: self.shape().to_vec() })
        }
    };
}

/// A strided window into a buffer, for reading.
#[derive(Debug)]
pub struct View<'a, B> {
    pub(crate) buffer: &'a B,
    dtype: DType,
    window: Window,
}

impl<B> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for View<'_, B> {}

impl<B> View<'_, B> {
    view_methods!();
}

/// A strided window into a buffer, for writing.
#[derive(Debug)]
pub struct ViewMut<'a, B> {
    pub(crate) buffer: &'a mut B,
    dtype: DType,
    window: Window,
}

impl<B> ViewMut<'_, B> {
    view_methods!();

    /// Reads what this view may write.
    pub fn as_view(&self) -> View<'_, B> {
        View { buffer: self.buffer, dtype: self.dtype, window: self.window }
    }

    /// Lends the view for one operation.
    pub fn reborrow(&mut self) -> ViewMut<'_, B> {
        ViewMut { buffer: self.buffer, dtype: self.dtype, window: self.window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(shape: &[usize]) -> Window {
        Window::whole(Dims::new(shape))
    }

    #[test]
    fn per_head_rows_of_one_projection_are_strided_views() {
        // [rows, heads * 3 * head_dim] in per-head order: q of head h starts at h * 3 * head_dim.
        let qkv = window(&[5, 24]).split(1, &[2, 3, 4]);
        let key = qkv.select(2, 1);
        assert_eq!(key.shape.as_slice(), [5, 2, 4]);
        assert_eq!(key.strides.as_slice(), [24, 12, 1]);
        assert_eq!(key.offset, 4);
    }

    #[test]
    fn narrowing_rows_moves_the_offset() {
        let rows = window(&[6, 8]).narrow(0, 2..5);
        assert_eq!((rows.offset, rows.shape.as_slice()), (16, &[3, 8][..]));
        assert!(rows.is_contiguous());
        assert!(!window(&[6, 8]).narrow(1, 0..4).is_contiguous());
    }

    #[test]
    #[should_panic(expected = "outside axis")]
    fn a_range_beyond_the_axis_is_refused() {
        let _ = window(&[6, 8]).narrow(0, 2..7);
    }
}
