//! Why a GPU could not be used, or was lost.

use cudarc::cublaslt::result::CublasError;
use cudarc::cublaslt::sys::cublasStatus_t;
use cudarc::cudnn::sys::cudnnStatus_t;
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
    /// The driver is there and does not work.
    #[error("the NVIDIA driver is there and does not answer: {status}{advice}; --device cpu computes without it")]
    NoAnswer {
        /// What it said.
        status: String,
        /// What to look at, after a semicolon; empty where nobody knows.
        advice: &'static str,
    },
    /// There is a GPU, none was named, and it cannot be used.
    #[error("there is a GPU and it cannot be used; put it right, or compute without it with --device cpu")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The driver is older than what the kernels are made for.
    #[error(
        "the NVIDIA driver serves CUDA {}.{} and the kernels need {}.{}: install driver 580 or later",
        found / 1000, found % 1000 / 10, needed / 1000, needed % 1000 / 10
    )]
    OldDriver {
        /// The CUDA version that it serves, as `12040`.
        found: i32,
        /// The one that is needed.
        needed: i32,
    },
    /// A library that computes is missing.
    #[error(
        "{library} is not on this machine: fill a folder by scripts/install-gpu-libs and name it with --gpu-libraries, or \
         install the {package} of CUDA 13 where the dynamic linker finds it"
    )]
    NoLibrary {
        /// Its file.
        library: &'static str,
        /// What holds it.
        package: &'static str,
    },
    /// A library that computes is older than what the engine is written for.
    #[error(
        "the {library} that the dynamic linker finds has version {found}, and {needed} or later is needed: take its \
         folder out of the linker's path, and fill another by scripts/install-gpu-libs for --gpu-libraries"
    )]
    OldLibrary {
        /// The library.
        library: &'static str,
        /// The version that is there, as it counts itself.
        found: usize,
        /// The first version that will do.
        needed: usize,
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
    /// The driver or a library found no room on the GPU.
    #[error("the GPU has no room left for {doing}: {status}")]
    NoRoom {
        /// What was being done.
        doing: &'static str,
        /// What the driver or the library said.
        status: String,
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
    #[error("a matrix product failed while {doing}: {status}")]
    Blas {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// cuDNN failed at something that it can do.
    #[error("cuDNN failed while {doing}: {status}; --attention native computes without it")]
    Cudnn {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// cuDNN says that it cannot do something, and would say so again.
    #[error("cuDNN has no way of {doing}: {status}")]
    Unsupported {
        /// What was to be done.
        doing: &'static str,
        /// What it said.
        status: String,
    },
    /// An operand lies where this backend must not touch it.
    #[error("an operand lies on another GPU, or belongs to another queue of this one")]
    Foreign,
    /// The kernels lack something that this build of the engine calls.
    #[error("the embedded kernels do not fit this engine: {problem}")]
    Kernels {
        /// What does not fit.
        problem: String,
    },
}

impl CudaError {
    /// Classes what the driver said while `doing` something.
    pub(super) fn driver(doing: &'static str) -> impl Fn(DriverError) -> Self + Copy {
        move |error| {
            let status = describe(error);
            match error.0 {
                lost if is_sticky(lost) => CudaError::Lost { doing, status },
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => CudaError::NoRoom { doing, status },
                _ => CudaError::Driver { doing, status },
            }
        }
    }

    /// Classes what the driver said when it was to load machine code: that the code is no use is not the driver's fault.
    pub(super) fn loading(error: DriverError) -> Self {
        use CUresult::*;
        match error.0 {
            CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUDA_ERROR_INVALID_IMAGE
            | CUDA_ERROR_INVALID_PTX
            | CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUDA_ERROR_JIT_COMPILATION_DISABLED => {
                CudaError::Kernels { problem: format!("they do not load: {}", describe(error)) }
            }
            _ => CudaError::driver("loading the kernels")(error),
        }
    }

    /// Classes what the driver said when it was asked for its GPUs.
    pub(super) fn no_answer(error: DriverError) -> Self {
        use CUresult::*;
        let advice = match error.0 {
            CUDA_ERROR_SYSTEM_NOT_READY => "; the GPUs of an NVSwitch machine need its fabric manager running",
            CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => "; the driver was changed since the machine started: restart it",
            CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                "; a compatibility package of CUDA stands before the driver's own library"
            }
            CUDA_ERROR_MPS_CONNECTION_FAILED | CUDA_ERROR_MPS_SERVER_NOT_READY | CUDA_ERROR_MPS_MAX_CLIENTS_REACHED => {
                "; look after the MPS server that CUDA_MPS_PIPE_DIRECTORY names"
            }
            CUDA_ERROR_STUB_LIBRARY => "; the linker finds the toolkit's stub of libcuda.so.1 before the driver's",
            _ => "; nvidia-smi and the kernel's log may tell more",
        };
        CudaError::NoAnswer { status: describe(error), advice }
    }

    /// Classes what cuBLASLt said while `doing` something.
    pub(super) fn blas(doing: &'static str) -> impl Fn(CublasError) -> Self + Copy {
        move |error| {
            let status = format!("cuBLASLt says {:?}", error.0);
            match error.0 {
                cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => CudaError::NoRoom { doing, status },
                _ => CudaError::Blas { doing, status },
            }
        }
    }

    /// Classes what cuDNN said while `doing` something, with its own `words`.
    pub(super) fn cudnn(doing: &'static str, error: cudnnStatus_t, words: &str) -> Self {
        use cudnnStatus_t::*;
        let status = format!("{error:?} {words}").trim_end().to_owned();
        match error {
            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
            | CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED => CudaError::NoRoom { doing, status },
            _ if says_unsupported(error) => CudaError::Unsupported { doing, status },
            _ => CudaError::Cudnn { doing, status },
        }
    }

    /// Makes it the error of an operation.
    pub(super) fn of(op: &'static str) -> impl Fn(Self) -> OpError {
        move |source| OpError::Backend { op, source: Box::new(source) }
    }

    /// The first error of this backend among `error` and its sources.
    fn among<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let sources = std::iter::successors(Some(error), |error| error.source());
        // The innermost tells most: others only say what it was met at.
        sources.filter_map(|error| error.downcast_ref()).last()
    }
}

/// What an error of a GPU means for whoever was computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This process has lost its GPU, and should hand its work back and end: only a new one can use the GPU again.
    Lost,
    /// The GPU has no room for what was asked.
    OutOfMemory,
    /// The driver or a library failed at what it can do, or is not as it should be.
    Failed,
}

/// Tells what `error` means, if it or one of its sources is one of a GPU's.
pub fn fault(error: &(dyn std::error::Error + 'static)) -> Option<Fault> {
    CudaError::among(error).map(|error| match error {
        CudaError::Lost { .. } => Fault::Lost,
        CudaError::OutOfMemory { .. } | CudaError::NoRoom { .. } => Fault::OutOfMemory,
        _ => Fault::Failed,
    })
}

fn describe(error: DriverError) -> String {
    // Asking the driver would load it: errors are also made where there is none, in tests.
    format!("{:?}", error.0)
}

/// Statuses by which cuDNN says that it has no engine for something. Releases before the one that knows a kind of node call
/// it a bad parameter.
fn says_unsupported(status: cudnnStatus_t) -> bool {
    let code = status as u32;
    (2000..4000).contains(&code)
}

/// Errors after which every call of the same context fails, or the GPU is not there any more.
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
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_MPS_RPC_FAILURE
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUDA_ERROR_UNKNOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadError;

    #[test]
    fn what_no_later_call_gets_past_loses_the_device_and_a_wrong_argument_does_not() {
        use CUresult::*;
        let error = |status| CudaError::driver("waiting")(DriverError(status));
        for (status, number) in [
            (CUDA_ERROR_DEINITIALIZED, 4),
            (CUDA_ERROR_DEVICE_UNAVAILABLE, 46),
            (CUDA_ERROR_ECC_UNCORRECTABLE, 214),
            (CUDA_ERROR_NVLINK_UNCORRECTABLE, 220),
            (CUDA_ERROR_CONTAINED, 226),
            (CUDA_ERROR_ILLEGAL_ADDRESS, 700),
            (CUDA_ERROR_LAUNCH_TIMEOUT, 702),
            (CUDA_ERROR_CONTEXT_IS_DESTROYED, 709),
            (CUDA_ERROR_ASSERT, 710),
            (CUDA_ERROR_HARDWARE_STACK_ERROR, 714),
            (CUDA_ERROR_ILLEGAL_INSTRUCTION, 715),
            (CUDA_ERROR_MISALIGNED_ADDRESS, 716),
            (CUDA_ERROR_INVALID_ADDRESS_SPACE, 717),
            (CUDA_ERROR_INVALID_PC, 718),
            (CUDA_ERROR_LAUNCH_FAILED, 719),
            (CUDA_ERROR_TENSOR_MEMORY_LEAK, 721),
            (CUDA_ERROR_MPS_RPC_FAILURE, 806),
            (CUDA_ERROR_MPS_CLIENT_TERMINATED, 810),
            (CUDA_ERROR_EXTERNAL_DEVICE, 911),
            (CUDA_ERROR_UNKNOWN, 999),
        ] {
            assert_eq!(status as u32, number);
            assert_eq!(fault(&error(status)), Some(Fault::Lost), "{status:?}");
        }
        assert_eq!(fault(&error(CUDA_ERROR_OUT_OF_MEMORY)), Some(Fault::OutOfMemory));
        let refused = error(CUDA_ERROR_INVALID_VALUE);
        assert_eq!(refused.to_string(), "the driver failed while waiting: CUDA_ERROR_INVALID_VALUE");
        assert_eq!(fault(&CudaError::of("linear")(refused)), Some(Fault::Failed));
    }

    #[test]
    fn the_innermost_error_of_a_gpu_is_found_below_others() {
        let lost = CudaError::Lost { doing: "reading", status: "CUDA_ERROR_LAUNCH_FAILED".to_owned() };
        let of_operation = CudaError::of("read")(lost);
        assert_eq!(fault(&of_operation), Some(Fault::Lost));
        let of_run = crate::run::RunError::from(of_operation);
        assert_eq!(fault(&crate::GenerateError::from(of_run)), Some(Fault::Lost));
        let full = CudaError::OutOfMemory { bytes: 3, free: 2, total: 9 };
        assert_eq!(fault(&CudaError::Unusable(Box::new(full))), Some(Fault::OutOfMemory));
        let lost = || CudaError::Lost { doing: "loading", status: "CUDA_ERROR_ECC_UNCORRECTABLE".to_owned() };
        for of_load in [LoadError::from(lost()), LoadError::from(CudaError::of("weight")(lost()))] {
            assert_eq!(fault(&of_load), Some(Fault::Lost), "{of_load}");
        }
        assert_eq!(fault(&OpError::NotFinite { op: "test", name: "x" }), None);
    }

    #[test]
    fn libraries_tell_no_room_and_no_way_from_a_failure() {
        use cudnnStatus_t::*;
        let cudnn = |status| CudaError::cudnn("planning attention", status, "in their words ");
        for (status, unsupported) in [
            (CUDNN_STATUS_NOT_SUPPORTED, true),
            (CUDNN_STATUS_NOT_SUPPORTED_SHAPE, true),
            (CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, true),
            (CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, true),
            (CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, false),
            (CUDNN_STATUS_INTERNAL_ERROR, false),
            (CUDNN_STATUS_EXECUTION_FAILED, false),
        ] {
            let error = cudnn(status);
            assert_eq!(matches!(error, CudaError::Unsupported { .. }), unsupported, "{error}");
            assert_eq!(fault(&error), Some(Fault::Failed));
            assert!(error.to_string().contains(&format!("{status:?} in their words")), "{error}");
        }
        let full = cudnn(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
        assert_eq!(fault(&full), Some(Fault::OutOfMemory));
        let blas = |status| CudaError::blas("multiplying")(CublasError(status));
        assert_eq!(fault(&blas(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED)), Some(Fault::OutOfMemory));
        assert_eq!(fault(&blas(cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED)), Some(Fault::Failed));
    }

    #[test]
    fn what_is_missing_or_old_says_what_to_do() {
        assert!(CudaError::NoDriver.to_string().contains("install driver 580"));
        let missing = CudaError::NoLibrary { library: "libcublasLt.so.13", package: "cuBLAS" }.to_string();
        for part in ["scripts/install-gpu-libs", "libcublasLt.so.13", "--gpu-libraries"] {
            assert!(missing.contains(part), "{missing}");
        }
        let old = CudaError::OldDriver { found: 12_040, needed: 13_000 }.to_string();
        assert_eq!(old, "the NVIDIA driver serves CUDA 12.4 and the kernels need 13.0: install driver 580 or later");
        let silent = CudaError::no_answer(DriverError(CUresult::CUDA_ERROR_SYSTEM_NOT_READY)).to_string();
        assert!(silent.contains("CUDA_ERROR_SYSTEM_NOT_READY") && silent.contains("fabric manager"), "{silent}");
    }

    #[test]
    fn code_that_does_not_load_is_told_from_a_driver_that_fails() {
        let loading = |status| CudaError::loading(DriverError(status));
        let stale = loading(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
        assert!(matches!(stale, CudaError::Kernels { .. }), "{stale}");
        assert_eq!(fault(&loading(CUresult::CUDA_ERROR_OUT_OF_MEMORY)), Some(Fault::OutOfMemory));
        assert_eq!(fault(&loading(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)), Some(Fault::Lost));
    }
}
