//! One GPU: its context, and the one stream that all work is queued on.

use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute, CUevent_flags, CUmemPool_attribute, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};

use super::error::CudaError;

/// A GPU that this process has opened.
#[derive(Debug)]
pub(super) struct Context {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Whether memory comes from the driver's pool, in the stream's order.
    pooled: bool,
    /// The CUDA version that the driver serves.
    driver_version: i32,
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

impl Gpu {
    /// The CUDA version that the driver serves, as people say it.
    pub fn cuda_version(&self) -> String {
        format!("CUDA {}.{}", self.driver_version / 1000, self.driver_version % 1000 / 10)
    }
}

/// The CUDA version that a driver has to serve: the kernels' own, as `13000`.
const NEEDED_DRIVER: i32 = 13_000;

/// Tells how many GPUs there are; none without a driver.
///
/// Errors: [`CudaError::NoAnswer`] when there is a driver that does not work, which is not the same as no GPU.
pub fn device_count() -> Result<usize, CudaError> {
    if !has_driver() {
        return Ok(0);
    }
    count_of(result::init().and_then(|()| result::device::get_count()))
}

/// Tells how much memory GPU `ordinal` has, in bytes.
///
/// Errors: [`CudaError::NoDriver`], [`CudaError::NoAnswer`], [`CudaError::NoDevice`], [`CudaError::Driver`].
pub(crate) fn memory_of(ordinal: usize) -> Result<u64, CudaError> {
    if !has_driver() {
        return Err(CudaError::NoDriver);
    }
    let count = device_count()?;
    let number =
        i32::try_from(ordinal).ok().filter(|_| ordinal < count).ok_or(CudaError::NoDevice { ordinal, count })?;
    let failed = CudaError::driver("asking for a GPU's memory");
    let device = result::device::get(number).map_err(failed)?;
    // SAFETY: the device is one that the driver has just named.
    let bytes = unsafe { result::device::total_mem(device) }.map_err(failed)?;
    Ok(bytes as u64)
}

/// Only a driver that says so has no GPUs.
fn count_of(answer: Result<i32, DriverError>) -> Result<usize, CudaError> {
    match answer {
        Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
        Err(error) if error.0 == CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
        Err(error) => Err(CudaError::no_answer(error)),
    }
}

/// Tells whether the driver's library can be opened.
pub(super) fn has_driver() -> bool {
    // SAFETY: the function only tries to open the library by its usual names; without this question first, any other
    // call panics where there is none.
    unsafe { sys::is_culib_present() }
}

/// Refuses a driver that lacks functions which are called later: calling one that is not there is a panic.
fn check_driver(found: i32) -> Result<i32, CudaError> {
    if found < NEEDED_DRIVER { Err(CudaError::OldDriver { found, needed: NEEDED_DRIVER }) } else { Ok(found) }
}

impl Context {
    /// Opens GPU `ordinal`.
    ///
    /// Errors: [`CudaError::NoDriver`], [`CudaError::NoAnswer`], [`CudaError::OldDriver`], [`CudaError::NoDevice`],
    /// [`CudaError::TooOld`], [`CudaError::Driver`].
    pub(super) fn open(ordinal: usize) -> Result<Self, CudaError> {
        if !has_driver() {
            return Err(CudaError::NoDriver);
        }
        let failed = CudaError::driver("opening the GPU");
        let mut driver_version = 0;
        // SAFETY: writes one number; every driver has the function, and answers before it is initialised.
        unsafe { sys::cuDriverGetVersion(&raw mut driver_version) }.result().map_err(failed)?;
        let driver_version = check_driver(driver_version)?;
        let count = device_count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(failed)?;
        let stream = context.new_stream().map_err(failed)?;
        let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let pooled = context.attribute(pools).map_err(failed)? == 1;
        let opened = Self { context, stream, pooled, driver_version };
        let (major, minor) = opened.context.compute_capability().map_err(failed)?;
        if major < 8 {
            let name = opened.context.name().map_err(failed)?;
            return Err(CudaError::TooOld { name, major, minor });
        }
        if pooled {
            opened.keep_pool(ordinal).map_err(failed)?;
        }
        Ok(opened)
    }

    /// Lets the driver's pool keep what is freed: activations come and go in the same sizes.
    fn keep_pool(&self, ordinal: usize) -> Result<(), DriverError> {
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

    /// Makes another stream, for copies beside what is computed.
    pub(super) fn new_stream(&self) -> Result<Arc<CudaStream>, CudaError> {
        self.context.new_stream().map_err(CudaError::driver("making a stream"))
    }

    /// Makes a mark, which is behind nothing yet. Whoever waits for it sleeps.
    pub(super) fn new_event(&self) -> Result<CudaEvent, CudaError> {
        self.context
            .new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC))
            .map_err(CudaError::driver("making an event"))
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

    /// Finds who is to blame for a library's error: a kernel that faulted before shows at whatever is called next, and a
    /// library has no word for it.
    pub(super) fn blame(&self, error: CudaError) -> CudaError {
        match self.bind().and_then(|()| self.wait()) {
            Err(lost @ CudaError::Lost { .. }) => lost,
            _ => error,
        }
    }

    /// What the GPU is called and has.
    pub(super) fn describe(&self) -> Result<Gpu, CudaError> {
        let failed = CudaError::driver("describing the GPU");
        Ok(Gpu {
            ordinal: self.ordinal(),
            name: self.context.name().map_err(failed)?,
            capability: self.context.compute_capability().map_err(failed)?,
            memory_bytes: self.context.total_mem().map_err(failed)?,
            driver_version: self.driver_version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_driver_that_says_so_has_no_gpus() {
        let failed = |status| count_of(Err(DriverError(status)));
        assert_eq!(count_of(Ok(8)).unwrap(), 8);
        assert_eq!(failed(CUresult::CUDA_ERROR_NO_DEVICE).unwrap(), 0);
        for status in [
            CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
            CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            let error = failed(status).unwrap_err();
            assert!(error.to_string().contains(&format!("{status:?}")), "{error}");
        }
    }

    #[test]
    fn a_driver_of_an_older_cuda_is_refused_by_its_version() {
        assert_eq!(check_driver(13_010).unwrap(), 13_010);
        assert_eq!(check_driver(NEEDED_DRIVER).unwrap(), NEEDED_DRIVER);
        let error = check_driver(12_090).unwrap_err();
        assert!(matches!(error, CudaError::OldDriver { found: 12_090, .. }), "{error}");
    }
}
