//! What a tensor on a GPU lives in.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;

use super::context::Context;
use super::error::CudaError;
use super::memory::DeviceMemory;
use super::stream::SlotMemory;
use crate::ops::{OpError, View, ViewMut};

/// Elements in a GPU's memory.
#[derive(Debug)]
pub struct CudaBuffer {
    pub(super) memory: Memory,
    pub(super) content: Content,
}

/// Whose memory it is.
#[derive(Debug)]
pub(super) enum Memory {
    /// The tensor's own.
    Own(DeviceMemory),
    /// A slot's, from this byte on.
    Slot(Arc<SlotMemory>, usize),
}

impl Memory {
    /// Where it begins.
    pub(super) fn address(&self) -> CUdeviceptr {
        match self {
            Self::Own(memory) => memory.address(),
            Self::Slot(slot, offset) => slot.device().address() + *offset as CUdeviceptr,
        }
    }

    /// The GPU and the stream that it is used on.
    pub(super) fn context(&self) -> &Arc<Context> {
        match self {
            Self::Own(memory) => memory.context(),
            Self::Slot(slot, _) => slot.context(),
        }
    }

    /// Copies `bytes` to `offset`, after what was queued before, and waits until they are there.
    ///
    /// Panics: When they do not fit.
    pub(super) fn upload(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        match self {
            Self::Own(memory) => memory.upload(offset, bytes),
            Self::Slot(slot, start) => slot.device().upload(start + offset, bytes),
        }
    }

    /// Waits for everything that was queued and copies `out.len()` bytes from `offset`.
    ///
    /// Panics: When there are not so many.
    pub(super) fn download(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        match self {
            Self::Own(memory) => memory.download(offset, out),
            Self::Slot(slot, start) => slot.device().download(start + offset, out),
        }
    }
}

/// What the elements are.
#[derive(Debug)]
pub(super) enum Content {
    /// Floats or bytes that operations write.
    Activations,
    /// Row indices, of which the host keeps a copy to check them by.
    Indices(Vec<u32>),
    /// A checkpoint's tensor, which never changes.
    Weight,
}

impl CudaBuffer {
    /// Wraps memory that operations write.
    pub(super) fn activations(memory: DeviceMemory) -> Self {
        Self { memory: Memory::Own(memory), content: Content::Activations }
    }
}

/// Where the first element of a view lies.
pub(super) fn address(x: &View<'_, CudaBuffer>) -> CUdeviceptr {
    x.buffer.memory.address() + (x.window().offset * x.dtype().size()) as CUdeviceptr
}

/// Where the first element of an output lies.
pub(super) fn address_mut(y: &ViewMut<'_, CudaBuffer>) -> CUdeviceptr {
    y.buffer.memory.address() + (y.window().offset * y.dtype().size()) as CUdeviceptr
}

/// The indices of a contiguous U32 view: the host's copy of them, and where they lie on the GPU.
pub(super) struct Picks<'a> {
    pub(super) host: &'a [u32],
    pub(super) address: CUdeviceptr,
}

/// Takes a view as indices, each a row of a table of `rows`.
///
/// Errors: [`OpError::DType`] for other views, [`OpError::Index`] for an index outside the table.
pub(super) fn picks<'a>(
    op: &'static str,
    name: &'static str,
    x: &View<'a, CudaBuffer>,
    rows: usize,
) -> Result<Picks<'a>, OpError> {
    let window = x.window();
    let host = match &x.buffer.content {
        Content::Indices(values) if window.is_contiguous() => {
            &values[window.offset..window.offset + window.shape.elements()]
        }
        _ => return Err(OpError::DType { op, name, actual: x.dtype() }),
    };
    match host.iter().find(|index| **index as usize >= rows) {
        Some(index) => Err(OpError::Index { op, index: *index as usize, rows }),
        None => Ok(Picks { host, address: address(x) }),
    }
}
