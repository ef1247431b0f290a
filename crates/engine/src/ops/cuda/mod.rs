//! The operations on an NVIDIA GPU: own kernels in an embedded fatbin, matrix products by cuBLASLt, attention by cuDNN or
//! by own kernels.
//!
//! Every library is opened at run time, so that one binary serves machines with and without a GPU. All work is queued on
//! one stream, in which memory also comes and goes: an operation returns before it has run, and a fault in a kernel
//! shows at a later wait. Indices are checked by the host's copy of them, before anything is queued.

mod attention;
mod audio;
mod blas;
mod buffer;
mod clock;
mod context;
mod conv;
mod cudnn;
mod elementwise;
mod error;
mod gather;
mod kernels;
mod libraries;
mod linear;
mod memory;
mod norm;
mod operations;
mod pixels;
mod rows;
mod stream;
mod transfer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use attention::AttentionChoice;
pub(crate) use blas::WORKSPACE_BYTES;
pub use buffer::CudaBuffer;
pub(crate) use context::memory_of;
pub use context::{Gpu, device_count};
pub(crate) use conv::GATHER_BYTES;
pub(crate) use cudnn::log_sum_bytes;
pub use error::{CudaError, Fault, fault};
pub use libraries::open_libraries_in;
pub use stream::CudaSlot;

use self::attention::Told;
use self::blas::Blas;
use self::context::Context;
use self::cudnn::Cudnn;
use self::kernels::{Argument, Grid, Kernels};
use self::memory::DeviceMemory;
use self::stream::Streams;
use super::OpError;

/// Runs operations on one GPU.
pub struct Cuda {
    context: Arc<Context>,
    kernels: Kernels,
    blas: Blas,
    /// Opened for [`AttentionChoice::Cudnn`] and, where it is there, for [`AttentionChoice::Auto`].
    cudnn: Option<Cudnn>,
    attention: AttentionChoice,
    gpu: Gpu,
    /// Attention that the log has told of.
    told: Told,
    /// Whether the log has told of a weight that is converted at every use.
    told_of_casts: AtomicBool,
    streams: Streams,
}

impl Cuda {
    /// Opens GPU `ordinal` with its libraries and loads the kernels. Of weights that stream again and again, at most
    /// `masters_bytes` are kept in the host's memory for it to copy from.
    ///
    /// Errors: [`CudaError`] naming what is missing and how to get it.
    pub fn open(ordinal: usize, attention: AttentionChoice, masters_bytes: usize) -> Result<Self, CudaError> {
        let context = Arc::new(Context::open(ordinal)?);
        let gpu = context.describe()?;
        let kernels = Kernels::load(&context)?;
        let blas = Blas::open(&context)?;
        let cudnn = match attention {
            AttentionChoice::Native => None,
            AttentionChoice::Cudnn => Some(Cudnn::open(&context)?),
            AttentionChoice::Auto => Cudnn::open_if_useful(&context)?,
        };
        let (told, told_of_casts, streams) = (Told::default(), false.into(), Streams::new(masters_bytes));
        let opened = Self { context, kernels, blas, cudnn, attention, gpu, told, told_of_casts, streams };
        tracing::info!(
            gpu = %opened.gpu.name,
            capability = %format_args!("{}.{}", opened.gpu.capability.0, opened.gpu.capability.1),
            driver = %opened.gpu.cuda_version(),
            cublas = opened.blas.version(),
            cudnn = opened.cudnn.as_ref().map(Cudnn::version),
            attention = opened.attention_plan(),
            files = ?libraries::in_use(),
            "computing on cuda:{ordinal}",
        );
        Ok(opened)
    }

    /// What the GPU is called and has.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The versions of the libraries that compute, by name.
    pub fn libraries(&self) -> Vec<(&'static str, usize)> {
        let mut libraries = vec![("cublasLt", self.blas.version())];
        libraries.extend(self.cudnn.as_ref().map(|cudnn| ("cudnn", cudnn.version())));
        libraries
    }

    /// Says what computes attention.
    pub fn attention_plan(&self) -> &'static str {
        match (self.attention, &self.cudnn) {
            (AttentionChoice::Cudnn, _) => "cuDNN alone, but for the language model's",
            (_, Some(_)) => "cuDNN where it has a plan, own kernels elsewhere",
            (_, None) => "own kernels",
        }
    }

    /// Names everything that a result depends on to the last bit: the kind of GPU, the driver, which compiles for cards
    /// that are newer than the kernels, the kernels, the libraries, the attention.
    pub fn describe(&self) -> String {
        let (major, minor) = self.gpu.capability;
        let libraries: Vec<String> =
            self.libraries().iter().map(|(name, version)| format!("{name} {version}")).collect();
        format!(
            "{} {major}.{minor}, driver of {}, kernels {}, {}, attention by {}",
            self.gpu.name,
            self.gpu.cuda_version(),
            &Kernels::checksum()[..16],
            libraries.join(", "),
            self.attention_plan()
        )
    }

    fn scratch(&self, op: &'static str, bytes: usize) -> Result<DeviceMemory, OpError> {
        DeviceMemory::new(&self.context, bytes).map_err(CudaError::of(op))
    }

    fn launch(
        &self,
        op: &'static str,
        kernel: &'static str,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), OpError> {
        self.kernels.launch(kernel, grid, arguments).map_err(CudaError::of(op))
    }
}
