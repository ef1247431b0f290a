//! Host memory that CPU tensors live in.

use std::collections::TryReserveError;

use half::{bf16, f16};

use super::lent::Lease;
use crate::checkpoint::RawTensor;
use crate::ops::{DType, OpError, View, ViewMut};

/// Elements in host memory: owned, or a checkpoint's mapped pages.
#[derive(Debug)]
pub enum HostBuffer {
    /// Owned F32.
    F32(Vec<f32>),
    /// Owned BF16.
    Bf16(Vec<bf16>),
    /// Owned F16.
    F16(Vec<f16>),
    /// Owned bytes.
    U8(Vec<u8>),
    /// Owned indices.
    U32(Vec<u32>),
    /// A weight read in place from its mapped file.
    Mapped {
        /// The file's tensors, one after another.
        pieces: Vec<RawTensor>,
        /// Their element type, one of the floats.
        dtype: DType,
        /// Until when they may be read; always without.
        lease: Option<Lease>,
    },
}

/// Rounds `values` to what `dtype` can hold.
pub(super) fn round(dtype: DType, values: &mut [f32]) {
    match dtype {
        DType::Bf16 => values.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
        DType::F16 => values.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        DType::F32 | DType::U8 | DType::U32 => {}
    }
}

/// Rounds one value to what `dtype` can hold.
#[inline]
pub(super) fn rounded(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::Bf16 => bf16::from_f32(value).to_f32(),
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::F32 | DType::U8 | DType::U32 => value,
    }
}

impl HostBuffer {
    /// Makes zeros, or says why the system has no room for so many.
    pub(super) fn zeroed(dtype: DType, elements: usize) -> Result<Self, TryReserveError> {
        Ok(match dtype {
            DType::F32 => HostBuffer::F32(zeros(elements, 0.0)?),
            DType::Bf16 => HostBuffer::Bf16(zeros(elements, bf16::ZERO)?),
            DType::F16 => HostBuffer::F16(zeros(elements, f16::ZERO)?),
            DType::U8 => HostBuffer::U8(zeros(elements, 0)?),
            DType::U32 => HostBuffer::U32(zeros(elements, 0)?),
        })
    }

    /// Widens `out.len()` floats from `offset` on.
    pub(super) fn load(&self, offset: usize, out: &mut [f32]) {
        let range = offset..offset + out.len();
        match self {
            HostBuffer::F32(v) => out.copy_from_slice(&v[range]),
            HostBuffer::Bf16(v) => widen(&v[range], out, |x| x.to_f32()),
            HostBuffer::F16(v) => widen(&v[range], out, |x| x.to_f32()),
            HostBuffer::U8(v) => widen(&v[range], out, |x| f32::from(*x)),
            HostBuffer::U32(_) => unreachable!("float_rows refuses indices before any element is read"),
            HostBuffer::Mapped { pieces, dtype, lease } => {
                lease.iter().for_each(Lease::check);
                load_mapped(pieces, *dtype, offset, out);
            }
        }
    }

    /// Rounds `values` into the buffer from `offset` on.
    pub(super) fn store(&mut self, offset: usize, values: &[f32]) {
        let range = offset..offset + values.len();
        match self {
            HostBuffer::F32(v) => v[range].copy_from_slice(values),
            HostBuffer::Bf16(v) => narrow(values, &mut v[range], bf16::from_f32),
            HostBuffer::F16(v) => narrow(values, &mut v[range], f16::from_f32),
            HostBuffer::U8(_) | HostBuffer::U32(_) | HostBuffer::Mapped { .. } => {
                unreachable!("float_rows_mut refuses outputs that hold no owned floats")
            }
        }
    }
}

/// `vec![zero; elements]` ends the process when memory runs out, so room is asked for first; unlike filling what was
/// reserved, it leaves pages untouched until they are written.
fn zeros<T: Clone>(elements: usize, zero: T) -> Result<Vec<T>, TryReserveError> {
    Vec::<T>::new().try_reserve_exact(elements)?;
    Ok(vec![zero; elements])
}

/// Widens floats of mapped `pieces` that follow one another, from element `offset` on.
fn load_mapped(pieces: &[RawTensor], dtype: DType, offset: usize, out: &mut [f32]) {
    let size = dtype.size();
    let (mut skip, mut out) = (offset * size, out);
    for piece in pieces {
        let bytes = piece.bytes();
        if skip >= bytes.len() {
            skip -= bytes.len();
            continue;
        }
        let bytes = &bytes[skip..];
        let (now, later) = out.split_at_mut((bytes.len() / size).min(out.len()));
        widen_bytes(dtype, &bytes[..now.len() * size], now);
        skip = 0;
        out = later;
        if out.is_empty() {
            return;
        }
    }
    assert!(out.is_empty(), "a view of a mapped weight ends inside it");
}

fn widen_bytes(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        DType::Bf16 => {
            for (out, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                *out = bf16::from_le_bytes([b[0], b[1]]).to_f32();
            }
        }
        DType::F16 => {
            for (out, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                *out = f16::from_le_bytes([b[0], b[1]]).to_f32();
            }
        }
        DType::F32 | DType::U8 | DType::U32 => {
            for (out, b) in out.iter_mut().zip(bytes.chunks_exact(4)) {
                *out = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            }
        }
    }
}

fn widen<T>(from: &[T], to: &mut [f32], convert: impl Fn(&T) -> f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = convert(from);
    }
}

fn narrow<T>(from: &[f32], to: &mut [T], convert: impl Fn(f32) -> T) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = convert(*from);
    }
}

/// A view as rows of contiguous floats: every axis but the innermost is iterated over.
pub(super) struct Rows {
    outer: Vec<(usize, usize)>,
    offset: usize,
    pub(super) width: usize,
    pub(super) count: usize,
}

impl Rows {
    fn of(op: &'static str, name: &'static str, window: crate::ops::Window) -> Result<Self, OpError> {
        let (shape, strides) = (window.shape.as_slice(), window.strides.as_slice());
        let (width, outer) = shape.split_last().expect("a view has at least one dimension");
        if strides[outer.len()] != 1 {
            return Err(OpError::Shape { op, name, expected: vec![1], actual: strides.to_vec() });
        }
        Ok(Self {
            outer: outer.iter().copied().zip(strides.iter().copied()).collect(),
            offset: window.offset,
            width: *width,
            count: outer.iter().product(),
        })
    }

    /// Where row `index` starts in its buffer.
    pub(super) fn offset(&self, index: usize) -> usize {
        let mut rest = index;
        let mut offset = self.offset;
        for &(size, stride) in self.outer.iter().rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        offset
    }
}

/// Rows of a float view.
pub(super) fn float_rows(op: &'static str, name: &'static str, x: &View<'_, HostBuffer>) -> Result<Rows, OpError> {
    if matches!(x.dtype(), DType::U32) {
        return Err(OpError::DType { op, name, actual: x.dtype() });
    }
    Rows::of(op, name, x.window())
}

/// Rows of a float output.
pub(super) fn float_rows_mut(
    op: &'static str,
    name: &'static str,
    y: &ViewMut<'_, HostBuffer>,
) -> Result<Rows, OpError> {
    if matches!(y.dtype(), DType::U32 | DType::U8) || matches!(y.buffer, HostBuffer::Mapped { .. }) {
        return Err(OpError::DType { op, name, actual: y.dtype() });
    }
    Rows::of(op, name, y.window())
}

/// All floats of a view, in row-major order.
pub(super) fn load_all(op: &'static str, name: &'static str, x: &View<'_, HostBuffer>) -> Result<Vec<f32>, OpError> {
    let rows = float_rows(op, name, x)?;
    let mut values = vec![0.0; rows.count * rows.width];
    if rows.width > 0 {
        for (index, row) in values.chunks_exact_mut(rows.width).enumerate() {
            x.buffer.load(rows.offset(index), row);
        }
    }
    Ok(values)
}

/// Stores row-major floats into a view, rounding to its dtype.
pub(super) fn store_all(
    op: &'static str,
    name: &'static str,
    values: &[f32],
    y: &mut ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    let rows = float_rows_mut(op, name, y)?;
    if values.len() != rows.count * rows.width {
        return Err(OpError::Shape { op, name, expected: vec![rows.count * rows.width], actual: vec![values.len()] });
    }
    if rows.width > 0 {
        for (index, row) in values.chunks_exact(rows.width).enumerate() {
            y.buffer.store(rows.offset(index), row);
        }
    }
    Ok(())
}

/// Returns the indices of a contiguous U32 view.
pub(super) fn index_slice<'a>(
    op: &'static str,
    name: &'static str,
    x: &View<'a, HostBuffer>,
) -> Result<&'a [u32], OpError> {
    let window = x.window();
    match x.buffer {
        HostBuffer::U32(values) if window.is_contiguous() => {
            Ok(&values[window.offset..window.offset + window.shape.elements()])
        }
        _ => Err(OpError::DType { op, name, actual: x.dtype() }),
    }
}
