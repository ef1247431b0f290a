//! Why a GPU could not be used, or was lost.

use cudarc::cublaslt::result::CublasError;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;

use crate::ops::OpError;

/// Why the CUDA backend failed.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not on this machine, or a sandbox hides it.
    #[error(
        "there is no NVIDIA driver on this machine (libcuda.so.1): install driver 580 or later, in a container run it \
         with --gpus all, or compute on the CPU with --device cpu"
    )]
    NoDriver,
    /// The driver is there and sees no such GPU.
    #[error("there is no GPU cuda:{ordinal}: the driver sees {count}")]
    NoDevice {
        /// The GPU asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A library that computes is missing.
    #[error(
        "{library} is not on this machine: run scripts/install-gpu-libs, or install the {package} of CUDA 13 where the \
         dynamic linker finds it"
    )]
    NoLibrary {
        /// Its file.
        library: &'static str,
        /// What holds it.
        package: &'static str,
    },
    /// The GPU is older than any that the kernels are made for.
    #[error("{name} has compute capability {major}.{minor}: the kernels need 8.0 or later")]
    TooOld {
        /// The GPU.
        name: String,
        /// Its generation.
        major: i32,
        /// Its member of the generation.
        minor: i32,
    },
    /// The GPU's memory is full.
    #[error("the GPU has no room for {bytes} more bytes: {free} of {total} are free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// What was free then.
        free: usize,
        /// What it has.
        total: usize,
    },
    /// The process can use the GPU no more: every later call fails alike until the process is started anew.
    #[error("the GPU was lost while {doing}: {status}; this process cannot use it any more")]
    Lost {
        /// What was being done.
        doing: &'static str,
        /// What the driver said.
        status: String,
    },
    /// The driver refused something.
    #[error("the driver failed while {doing}: {status}")]
    Driver {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// A matrix product failed.
    #[error("cuBLASLt failed while {doing}: {status}")]
    Blas {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// Attention by cuDNN was asked for and cannot be had.
    #[error("cuDNN failed while {doing}: {status}")]
    Cudnn {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// The kernels lack something that this build of the engine calls.
    #[error("the embedded kernels do not fit this engine: {problem}")]
    Kernels {
        /// What does not fit.
        problem: String,
    },
}

impl CudaError {
    /// Classes what the driver said while `doing` something.
    pub(super) fn driver(doing: &'static str) -> impl Fn(DriverError) -> Self {
        move |error| {
            let status = describe(error);
            if is_sticky(error.0) { CudaError::Lost { doing, status } } else { CudaError::Driver { doing, status } }
        }
    }

    /// Names what a matrix product was doing.
    pub(super) fn blas(doing: &'static str) -> impl Fn(CublasError) -> Self {
        move |error| CudaError::Blas { doing, status: format!("{:?}", error.0) }
    }

    /// Makes it the error of an operation.
    pub(super) fn of(op: &'static str) -> impl Fn(Self) -> OpError {
        move |source| OpError::Backend { op, source: Box::new(source) }
    }
}

/// Tells whether `error` or one of its sources says that this process has lost its GPU. Such a process should hand its
/// work back and end: only a new one can use the GPU again.
pub fn is_device_lost(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if matches!(error.downcast_ref(), Some(CudaError::Lost { .. })) {
            return true;
        }
        next = error.source();
    }
    false
}

fn describe(error: DriverError) -> String {
    // Asking the driver would load it: errors are also made where there is none, in tests.
    format!("{:?}", error.0)
}

/// Errors after which every call of the same context fails.
fn is_sticky(status: CUresult) -> bool {
    use CUresult::*;
    matches!(
        status,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_UNKNOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_kernel_loses_the_device_and_a_wrong_argument_does_not() {
        let error = |status| CudaError::driver("waiting")(DriverError(status));
        let lost = error(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(matches!(lost, CudaError::Lost { .. }), "{lost}");
        let refused = error(CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(refused.to_string(), "the driver failed while waiting: CUDA_ERROR_INVALID_VALUE");
        assert!(!is_device_lost(&CudaError::of("linear")(refused)));
    }

    #[test]
    fn a_lost_device_is_found_below_other_errors() {
        let lost = CudaError::Lost { doing: "reading", status: "CUDA_ERROR_LAUNCH_FAILED".to_owned() };
        let of_operation = CudaError::of("read")(lost);
        assert!(is_device_lost(&of_operation));
        assert!(is_device_lost(&crate::run::RunError::from(of_operation)));
    }

    #[test]
    fn what_is_missing_says_how_to_get_it() {
        assert!(CudaError::NoDriver.to_string().contains("install driver 580"));
        let missing = CudaError::NoLibrary { library: "libcublasLt.so.13", package: "cuBLAS" }.to_string();
        assert!(missing.contains("scripts/install-gpu-libs") && missing.contains("libcublasLt.so.13"), "{missing}");
    }
}
