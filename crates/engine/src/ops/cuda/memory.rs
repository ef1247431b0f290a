//! Memory of a GPU.

use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{CUdeviceptr, CUresult};

use super::context::Context;
use super::error::CudaError;

/// Bytes on a GPU, given back when dropped. What was queued before the drop still finds them: memory of the pool is
/// freed in the stream's order, and other memory only when the GPU is idle.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// Takes `bytes` of memory with whatever it holds.
    ///
    /// Errors: [`CudaError::OutOfMemory`] with what is free, [`CudaError::Lost`].
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        context.bind()?;
        let room = bytes.max(1);
        // SAFETY: the context is current and the stream its own; the memory is used on that stream alone: `Cuda::owns` keeps
        // it from the operations of any other.
        let taken = unsafe {
            if context.is_pooled() { result::malloc_async(context.stream(), room) } else { result::malloc_sync(room) }
        };
        match taken {
            Ok(address) => Ok(Self { context: Arc::clone(context), address, bytes }),
            Err(error) if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, total) = result::mem_get_info().unwrap_or_default();
                Err(CudaError::OutOfMemory { bytes, free, total })
            }
            Err(error) => Err(CudaError::driver("taking memory")(error)),
        }
    }

    /// Takes `bytes` of zeros.
    ///
    /// Errors: those of [`DeviceMemory::new`].
    pub(super) fn zeroed(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let memory = Self::new(context, bytes)?;
        // SAFETY: the range is the memory's own and nothing else knows of it yet.
        unsafe { result::memset_d8_async(memory.address, 0, bytes.max(1), context.stream()) }
            .map_err(CudaError::driver("clearing memory"))?;
        Ok(memory)
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Where `bytes` bytes from `offset` on lie.
    ///
    /// Panics: When they are not inside it.
    pub(super) fn place(&self, offset: usize, bytes: usize) -> CUdeviceptr {
        assert!(offset + bytes <= self.bytes, "{bytes} bytes at {offset} of {}", self.bytes);
        self.address + offset as CUdeviceptr
    }

    /// Where it begins.
    pub(super) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// The GPU and the stream that it is used on.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Copies `bytes` to `offset`, after what was queued before, and waits until they are there.
    ///
    /// Panics: When they do not fit.
    pub(super) fn upload(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        let address = self.place(offset, bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the range lies inside the memory, and the wait below is over before `bytes` can change or go: a GPU may
        // read ordinary memory of the host itself, and later than the call returns.
        let queued = unsafe { result::memcpy_htod_async(address, bytes, self.context.stream()) }
            .map_err(CudaError::driver("copying to the GPU"));
        self.context.wait().and(queued)
    }

    /// Waits for everything that was queued and copies `out.len()` bytes from `offset`.
    ///
    /// Panics: When there are not so many.
    pub(super) fn download(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        let address = self.place(offset, out.len());
        if out.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the range lies inside the memory, and `out` is not touched until the wait below is over.
        let queued = unsafe { result::memcpy_dtoh_async(out, address, self.context.stream()) }
            .map_err(CudaError::driver("copying from the GPU"));
        self.context.wait().and(queued)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let freed = self.context.bind().and_then(|()| {
            // SAFETY: the memory was taken by the same means and is freed once; no address of it is kept.
            unsafe {
                if self.context.is_pooled() {
                    result::free_async(self.address, self.context.stream())
                } else {
                    result::free_sync(self.address)
                }
            }
            .map_err(CudaError::driver("giving memory back"))
        });
        if let Err(error) = freed {
            // A lost device has been told of already, by whoever lost it.
            tracing::debug!(%error, bytes = self.bytes, "memory of the GPU was not given back");
        }
    }
}
