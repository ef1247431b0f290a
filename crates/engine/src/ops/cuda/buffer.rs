//! What a tensor on a GPU lives in.

use cudarc::driver::sys::CUdeviceptr;

use super::memory::DeviceMemory;
use crate::ops::{OpError, View, ViewMut};

/// Elements in a GPU's memory.
#[derive(Debug)]
pub struct CudaBuffer {
    pub(super) memory: DeviceMemory,
    pub(super) content: Content,
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
        Self { memory, content: Content::Activations }
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
