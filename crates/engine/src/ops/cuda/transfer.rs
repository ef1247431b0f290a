//! What comes from the host and goes to it: new tensors, weights, values and indices.

use super::Cuda;
use super::buffer::{Content, CudaBuffer, Memory, address};
use super::error::CudaError;
use super::kernels::argument;
use super::memory::DeviceMemory;
use super::rows::{Rows, input, output};
use crate::checkpoint::Stored;
use crate::ops::slot::floats_of;
use crate::ops::{DType, Dims, OpError, Tensor, View, ViewMut, Window};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

impl Cuda {
    pub(super) fn alloc_of(&self, dtype: DType, shape: Dims) -> Result<Tensor<CudaBuffer>, OpError> {
        let bytes = shape.elements().saturating_mul(dtype.size());
        let memory = DeviceMemory::zeroed(&self.context, bytes).map_err(CudaError::of("alloc"))?;
        Ok(Tensor::from_buffer(CudaBuffer::activations(memory), dtype, shape))
    }

    /// Uploads a weight and rounds it to `dtype`, or leaves it in the type that it is stored in. Only one of the two stays.
    pub(super) fn weight_of(&self, stored: &Stored, dtype: Option<DType>) -> Result<Tensor<CudaBuffer>, OpError> {
        const OP: &str = "weight";
        let (from, shape) = floats_of(OP, stored)?;
        let uploaded = self.scratch(OP, shape.elements() * from.size())?;
        let mut offset = 0;
        for piece in &stored.pieces {
            uploaded.upload(offset, piece.bytes()).map_err(CudaError::of(OP))?;
            offset += piece.bytes().len();
        }
        let dtype = dtype.unwrap_or(from);
        let memory = if dtype == from { uploaded } else { self.copy_of(OP, &uploaded, from, shape.elements(), dtype)? };
        Ok(Tensor::from_buffer(CudaBuffer { memory: Memory::Own(memory), content: Content::Weight }, dtype, shape))
    }

    pub(super) fn indices_of(&self, values: &[u32]) -> Result<Tensor<CudaBuffer>, OpError> {
        const OP: &str = "indices";
        let memory = self.scratch(OP, values.len() * 4)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        memory.upload(0, &bytes).map_err(CudaError::of(OP))?;
        let content = Content::Indices(values.to_vec());
        Ok(Tensor::from_buffer(
            CudaBuffer { memory: Memory::Own(memory), content },
            DType::U32,
            Dims::new(&[values.len()]),
        ))
    }

    /// Downloads the elements of a view as they are.
    pub(super) fn read_bytes_of(&self, x: X<'_>) -> Result<Vec<u8>, OpError> {
        const OP: &str = "read_bytes";
        let range = bytes_of(OP, "x", x.dtype(), x.window())?;
        let mut bytes = vec![0; range.len()];
        x.buffer.memory.download(range.start, &mut bytes).map_err(CudaError::of(OP))?;
        Ok(bytes)
    }

    /// Uploads elements as they are.
    pub(super) fn write_bytes_of(&self, bytes: &[u8], y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "write_bytes";
        if !matches!(y.buffer.content, Content::Activations) {
            return Err(OpError::DType { op: OP, name: "y", actual: y.dtype() });
        }
        let range = bytes_of(OP, "y", y.dtype(), y.window())?;
        if bytes.len() != range.len() {
            let (expected, actual) = (vec![range.len()], vec![bytes.len()]);
            return Err(OpError::Shape { op: OP, name: "bytes", expected, actual });
        }
        y.buffer.memory.upload(range.start, bytes).map_err(CudaError::of(OP))
    }

    /// Downloads a float view as F32, in row-major order.
    pub(super) fn read_of(&self, x: X<'_>) -> Result<Vec<f32>, OpError> {
        const OP: &str = "read";
        let (from, count) = input(OP, "x", &x)?;
        let window = x.window();
        let mut bytes = vec![0; window.shape.elements() * 4];
        if x.dtype() == DType::F32 && window.is_contiguous() {
            let offset = (address(&x) - x.buffer.memory.address()) as usize;
            x.buffer.memory.download(offset, &mut bytes).map_err(CudaError::of(OP))?;
        } else {
            let memory = self.scratch(OP, bytes.len())?;
            let to = Rows::contiguous(memory.address(), DType::F32, from.width);
            self.each(OP, "cast_rows", (to, count), &[argument(&from), argument(&to), argument(&count)])?;
            memory.download(0, &mut bytes).map_err(CudaError::of(OP))?;
        }
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Uploads F32 values, rounding them to `y`'s dtype.
    pub(super) fn write_of(&self, values: &[f32], y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "write";
        let (to, count) = output(OP, "y", &y)?;
        let window = y.window();
        let elements = window.shape.elements();
        if values.len() != elements {
            return Err(OpError::Shape { op: OP, name: "y", expected: vec![elements], actual: vec![values.len()] });
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        if y.dtype() == DType::F32 && window.is_contiguous() {
            return y.buffer.memory.upload(window.offset * 4, &bytes).map_err(CudaError::of(OP));
        }
        let memory = self.scratch(OP, bytes.len())?;
        memory.upload(0, &bytes).map_err(CudaError::of(OP))?;
        let from = Rows::contiguous(memory.address(), DType::F32, to.width);
        self.each(OP, "cast_rows", (to, count), &[argument(&from), argument(&to), argument(&count)])
    }
}

/// Where the elements of a view without gaps lie in their memory.
fn bytes_of(
    op: &'static str,
    name: &'static str,
    dtype: DType,
    window: Window,
) -> Result<std::ops::Range<usize>, OpError> {
    if dtype == DType::U32 {
        return Err(OpError::DType { op, name, actual: dtype });
    }
    if !window.is_contiguous() {
        let expected = window.shape.contiguous_strides().as_slice().to_vec();
        return Err(OpError::Shape { op, name, expected, actual: window.strides.as_slice().to_vec() });
    }
    let start = window.offset * dtype.size();
    Ok(start..start + window.shape.elements() * dtype.size())
}
