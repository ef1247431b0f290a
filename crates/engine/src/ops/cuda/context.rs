//! One GPU: its context, and the one stream that all work is queued on.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemPool_attribute};
use cudarc::driver::{CudaContext, CudaStream, result};

use super::error::CudaError;

/// A GPU that this process has opened.
#[derive(Debug)]
pub(super) struct Context {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Whether memory comes from the driver's pool, in the stream's order.
    pooled: bool,
}

/// What a GPU is called and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Which one, as in `cuda:0`.
    pub ordinal: usize,
    /// What the vendor calls it.
    pub name: String,
    /// Compute capability, as `9.0`.
    pub capability: (i32, i32),
    /// Its memory.
    pub memory_bytes: usize,
    /// The CUDA version that the driver serves, as `13000`.
    pub driver_version: i32,
}

/// Tells how many GPUs there are; none without a driver.
pub fn device_count() -> usize {
    if !has_driver() {
        return 0;
    }
    let count = result::init().and_then(|()| result::device::get_count());
    count.ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

fn has_driver() -> bool {
    // SAFETY: the function only tries to open the library by its usual names; without this question first, any other
    // call panics where there is none.
    unsafe { sys::is_culib_present() }
}

impl Context {
    /// Opens GPU `ordinal`.
    ///
    /// Errors: [`CudaError::NoDriver`], [`CudaError::NoDevice`], [`CudaError::TooOld`], [`CudaError::Driver`].
    pub(super) fn open(ordinal: usize) -> Result<Self, CudaError> {
        if !has_driver() {
            return Err(CudaError::NoDriver);
        }
        let count = device_count();
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let failed = CudaError::driver("opening the GPU");
        let context = CudaContext::new(ordinal).map_err(&failed)?;
        let stream = context.new_stream().map_err(&failed)?;
        let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let pooled = context.attribute(pools).map_err(&failed)? == 1;
        let opened = Self { context, stream, pooled };
        let (major, minor) = opened.context.compute_capability().map_err(&failed)?;
        if major < 8 {
            let name = opened.context.name().map_err(&failed)?;
            return Err(CudaError::TooOld { name, major, minor });
        }
        if pooled {
            opened.keep_pool(ordinal).map_err(&failed)?;
        }
        Ok(opened)
    }

    /// Lets the driver's pool keep what is freed: activations come and go in the same sizes.
    fn keep_pool(&self, ordinal: usize) -> Result<(), result::DriverError> {
        let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX))?;
        let mut keep = u64::MAX;
        // SAFETY: the device is one that the driver has just named; the attribute is a 64-bit number of bytes.
        unsafe {
            let pool = result::device::get_default_mem_pool(device)?;
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            sys::cuMemPoolSetAttribute(pool, attribute, std::ptr::from_mut(&mut keep).cast()).result()
        }
    }

    /// Makes the GPU the calling thread's.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(CudaError::driver("choosing the GPU"))
    }

    /// The stream that everything is queued on.
    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// The same, to record events on.
    pub(super) fn queue(&self) -> &CudaStream {
        &self.stream
    }

    /// Which GPU it is.
    pub(super) fn ordinal(&self) -> usize {
        self.context.ordinal()
    }

    /// Whether memory comes from the driver's pool.
    pub(super) fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// Waits until everything that was queued is done.
    ///
    /// Errors: [`CudaError::Lost`] when a kernel faulted.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(CudaError::driver("waiting for the GPU"))
    }

    /// What the GPU is called and has.
    pub(super) fn describe(&self) -> Result<Gpu, CudaError> {
        let failed = CudaError::driver("describing the GPU");
        let mut driver_version = 0;
        // SAFETY: writes one number.
        unsafe { sys::cuDriverGetVersion(&raw mut driver_version) }.result().map_err(&failed)?;
        Ok(Gpu {
            ordinal: self.ordinal(),
            name: self.context.name().map_err(&failed)?,
            capability: self.context.compute_capability().map_err(&failed)?,
            memory_bytes: self.context.total_mem().map_err(&failed)?,
            driver_version,
        })
    }
}
