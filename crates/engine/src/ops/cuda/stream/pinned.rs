//! Host memory that the GPU copies from by itself.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, result, sys};

use crate::ops::cuda::context::Context;
use crate::ops::cuda::error::CudaError;

/// A pinned buffer, and the mark behind the last copy from it.
pub(super) struct PinnedBuffer {
    context: Arc<Context>,
    start: NonNull<u8>,
    bytes: usize,
    read: CudaEvent,
}

// SAFETY: the memory belongs to the buffer alone, and the driver lets any thread use it.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// Takes `bytes` of pinned memory.
    ///
    /// Errors: [`CudaError::NoRoom`] when the system does not let so much be pinned.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let failed = CudaError::driver("pinning host memory");
        context.bind()?;
        // SAFETY: a GPU is current; nothing is known of the memory yet.
        let start = unsafe { result::malloc_host(bytes, 0) }.map_err(failed)?;
        let start = NonNull::new(start.cast()).expect("the driver gives memory or an error");
        let (context, read) = (Arc::clone(context), context.new_event()?);
        let buffer = Self { context, start, bytes, read };
        // SAFETY: the range is the buffer's own, and zeros are bytes.
        unsafe { buffer.start.write_bytes(0, bytes) };
        Ok(buffer)
    }

    /// The mark behind the last copy from it.
    pub(super) fn read(&self) -> &CudaEvent {
        &self.read
    }

    /// Waits until nothing is copied from it any more.
    pub(super) fn settle(&self) -> Result<(), CudaError> {
        self.read.synchronize().map_err(CudaError::driver("waiting for a copy to the GPU"))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: all of it was written when it was made; a copy from it only reads.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Waits until nothing is copied from it any more, and lends it.
    pub(super) fn writable(&mut self) -> Result<&mut [u8], CudaError> {
        self.settle()?;
        // SAFETY: all of it was written when it was made, and no copy reads it any more.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let freed = self.settle().and_then(|()| self.context.bind()).and_then(|()| {
            // SAFETY: it was taken by `malloc_host`, is freed once, and no copy reads it any more.
            unsafe { result::free_host(self.start.as_ptr().cast::<c_void>()) }
                .map_err(CudaError::driver("giving pinned memory back"))
        });
        if let Err(error) = freed {
            tracing::debug!(%error, "pinned memory was not given back");
        }
    }
}

/// Pages of somebody's memory that the GPU may copy from as they lie.
pub(super) struct Registered {
    context: Arc<Context>,
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the pages are only read, and the driver lets any thread unregister them.
unsafe impl Send for Registered {}

impl Registered {
    /// Has the driver keep `pages` in memory.
    ///
    /// Errors: [`CudaError::Driver`] for pages that it cannot keep: of a filesystem without real memory behind it, beyond
    /// what a process may lock.
    ///
    /// # Safety
    ///
    /// The pages stay mapped until this is dropped.
    pub(super) unsafe fn new(context: &Arc<Context>, pages: &[u8]) -> Result<Self, CudaError> {
        context.bind()?;
        let (start, bytes) = (pages.as_ptr().cast_mut().cast::<c_void>(), pages.len());
        // SAFETY: the range is mapped, as the caller promises, and the flag has the GPU only read it.
        unsafe { sys::cuMemHostRegister_v2(start, bytes, sys::CU_MEMHOSTREGISTER_READ_ONLY) }
            .result()
            .map_err(CudaError::driver("keeping weights in memory"))?;
        Ok(Self { context: Arc::clone(context), start, bytes })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let dropped = self.context.bind().and_then(|()| {
            // SAFETY: the range was registered and is unregistered once; slots wait for their copies before they go.
            unsafe { sys::cuMemHostUnregister(self.start) }
                .result()
                .map_err(CudaError::driver("letting weights leave memory"))
        });
        if let Err(error) = dropped {
            tracing::debug!(%error, "pages of weights were not unregistered");
        }
    }
}
