//! What a GPU's work takes: time by its own clock, and memory.

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent_flags, CUmemPool_attribute, CUmemoryPool};

use super::Cuda;
use super::context::Context;
use super::error::CudaError;

impl Cuda {
    /// Queues what `work` queues between two marks of the stream and returns the seconds from one to the other.
    ///
    /// Errors: what `work` says, and [`CudaError`] made to the same by `E`.
    pub(crate) fn timed<E: From<CudaError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
        let start = self.context.mark()?;
        work()?;
        let end = self.context.mark()?;
        let millis = start.elapsed_ms(&end).map_err(CudaError::driver("reading the GPU's clock"))?;
        Ok(f64::from(millis) / 1e3)
    }

    /// Bytes of the memory pool that were in use at the most since [`Cuda::forget_peak_memory`]; none where memory does
    /// not come from a pool.
    ///
    /// Errors: [`CudaError`] when the driver refuses.
    pub(crate) fn peak_memory(&self) -> Result<Option<u64>, CudaError> {
        self.context.pool_high_water(None)
    }

    /// Starts counting the most that is in use anew.
    ///
    /// Errors: [`CudaError`] when the driver refuses.
    pub(crate) fn forget_peak_memory(&self) -> Result<(), CudaError> {
        self.context.wait()?;
        self.context.pool_high_water(Some(0)).map(|_| ())
    }
}

impl Cuda {
    /// Waits for everything that was queued and gives what the pool keeps unused back to the GPU.
    ///
    /// Errors: [`CudaError`] when the driver refuses, or a kernel faulted.
    pub(super) fn trim_pool(&self) -> Result<(), CudaError> {
        self.context.wait()?;
        if !self.context.is_pooled() {
            return Ok(());
        }
        let failed = CudaError::driver("trimming the memory pool");
        self.context.bind()?;
        let pool = self.context.pool().map_err(&failed)?;
        // SAFETY: the pool is the device's own, and what it gives back nobody holds.
        unsafe { sys::cuMemPoolTrimTo(pool, 0) }.result().map_err(failed)
    }

    /// Bytes of the GPU's memory that nobody has, of this process or another.
    ///
    /// Errors: [`CudaError`] when the driver refuses.
    pub(crate) fn free_memory(&self) -> Result<u64, CudaError> {
        self.context.bind()?;
        let (free, _) = result::mem_get_info().map_err(CudaError::driver("asking for free memory"))?;
        Ok(free as u64)
    }
}

impl Context {
    fn mark(&self) -> Result<cudarc::driver::CudaEvent, CudaError> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        self.queue().record_event(flags).map_err(CudaError::driver("marking the stream"))
    }

    /// Reads the pool's high-water mark, or sets it: 0 is the one value that the driver takes.
    fn pool_high_water(&self, set: Option<u64>) -> Result<Option<u64>, CudaError> {
        if !self.is_pooled() {
            return Ok(None);
        }
        self.bind()?;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        let failed = CudaError::driver("reading the memory pool's state");
        let pool = self.pool().map_err(&failed)?;
        let mut bytes = set.unwrap_or(0);
        let value = std::ptr::from_mut(&mut bytes).cast();
        // SAFETY: the pool is the device's own; the attribute is a 64-bit number of bytes.
        let outcome = unsafe {
            match set {
                Some(_) => sys::cuMemPoolSetAttribute(pool, attribute, value),
                None => sys::cuMemPoolGetAttribute(pool, attribute, value),
            }
        };
        outcome.result().map_err(failed)?;
        Ok(Some(bytes))
    }

    fn pool(&self) -> Result<CUmemoryPool, result::DriverError> {
        let device = result::device::get(i32::try_from(self.ordinal()).unwrap_or(i32::MAX))?;
        // SAFETY: the device is one that the driver has just named.
        unsafe { result::device::get_default_mem_pool(device) }
    }
}
