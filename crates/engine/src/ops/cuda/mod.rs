//! The operations on an NVIDIA GPU: own kernels in an embedded fatbin, matrix products by cuBLASLt, attention by cuDNN or
//! by own kernels.
//!
//! Every library is opened at run time, so that one binary serves machines with and without a GPU. All work is queued on
//! one stream, in which memory also comes and goes: an operation returns before it has run, and a fault in a kernel
//! shows at a later wait. Indices are checked by the host's copy of them, before anything is queued.
//!
//! Scattered rows must be distinct: the GPU writes them in no order.

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
mod kernels;
mod libraries;
mod linear;
mod memory;
mod norm;
mod pixels;
mod rows;

use std::sync::{Arc, Mutex};

pub use attention::AttentionChoice;
pub use buffer::CudaBuffer;
pub use context::{Gpu, device_count};
pub use error::{CudaError, is_device_lost};
pub use libraries::open_libraries_in;

use self::blas::Blas;
use self::buffer::Content;
use self::context::Context;
use self::cudnn::Cudnn;
use self::kernels::{Argument, Grid, Kernels};
use self::memory::DeviceMemory;
use super::{
    Activation, AliasFreeSnake, CausalConv3dShape, Conv1dShape, DType, Dims, GateOrder, GroupNorm, Modulation,
    NormRounding, OpError, Ops, Rotary, Tensor, View, ViewMut,
};
use crate::checkpoint::{Stored, StoredDtype};

type Buf = CudaBuffer;

/// Runs operations on one GPU.
pub struct Cuda {
    context: Arc<Context>,
    kernels: Kernels,
    blas: Blas,
    /// Opened for [`AttentionChoice::Cudnn`] and, where it is there, for [`AttentionChoice::Auto`].
    cudnn: Option<Cudnn>,
    attention: AttentionChoice,
    gpu: Gpu,
}

impl Cuda {
    /// Opens GPU `ordinal` with its libraries and loads the kernels.
    ///
    /// Errors: [`CudaError`] naming what is missing and how to get it.
    pub fn open(ordinal: usize, attention: AttentionChoice) -> Result<Self, CudaError> {
        let context = Arc::new(Context::open(ordinal)?);
        let kernels = Kernels::load(&context)?;
        let blas = Blas::open(&context)?;
        let cudnn = match attention {
            AttentionChoice::Native => None,
            AttentionChoice::Cudnn => Some(Cudnn::open(&context)?),
            AttentionChoice::Auto => match Cudnn::open(&context) {
                Ok(cudnn) => Some(cudnn),
                Err(error) => {
                    tracing::info!(%error, "attention is computed by the engine's own kernels");
                    None
                }
            },
        };
        let gpu = context.describe()?;
        tracing::info!(
            gpu = %gpu.name,
            capability = %format_args!("{}.{}", gpu.capability.0, gpu.capability.1),
            driver = gpu.driver_version,
            cublas = blas.version(),
            cudnn = cudnn.as_ref().map(Cudnn::version),
            "computing on cuda:{}",
            gpu.ordinal
        );
        Ok(Self { context, kernels, blas, cudnn, attention, gpu })
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

    /// Names everything that a result depends on to the last bit: the kind of GPU, the libraries, the attention.
    pub fn describe(&self) -> String {
        let (major, minor) = self.gpu.capability;
        let libraries: Vec<String> =
            self.libraries().iter().map(|(name, version)| format!("{name} {version}")).collect();
        format!("{} {major}.{minor}, {}, attention {:?}", self.gpu.name, libraries.join(", "), self.attention)
    }

    /// Waits until everything that was queued is done.
    ///
    /// Errors: [`CudaError::Lost`] when a kernel faulted.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.context.bind()?;
        self.context.wait()
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

impl Ops for Cuda {
    type Buffer = CudaBuffer;

    fn alloc(&self, dtype: DType, shape: Dims) -> Result<Tensor<Buf>, OpError> {
        let bytes = shape.elements().saturating_mul(dtype.size());
        let memory = DeviceMemory::zeroed(&self.context, bytes).map_err(CudaError::of("alloc"))?;
        Ok(Tensor::from_buffer(CudaBuffer::activations(memory), dtype, shape))
    }

    fn weight(&self, stored: &Stored) -> Result<Tensor<Buf>, OpError> {
        const OP: &str = "weight";
        let shape = match stored.shape.as_slice() {
            [] => Dims::new(&[1]),
            shape if shape.len() <= Dims::MOST => Dims::new(shape),
            shape => {
                let expected = vec![0; Dims::MOST];
                return Err(OpError::Shape { op: OP, name: "stored", expected, actual: shape.to_vec() });
            }
        };
        let Some(first) = stored.pieces.first() else {
            return Err(OpError::Shape { op: OP, name: "pieces", expected: vec![1], actual: vec![0] });
        };
        let dtype = match first.dtype() {
            StoredDtype::F32 => DType::F32,
            StoredDtype::BF16 => DType::Bf16,
            StoredDtype::F16 => DType::F16,
            other => {
                let source = format!("{} is {other}, expected F32, BF16 or F16", first.name()).into();
                return Err(OpError::Backend { op: OP, source });
            }
        };
        let memory = self.scratch(OP, shape.elements() * dtype.size())?;
        let mut offset = 0;
        for piece in &stored.pieces {
            memory.upload(offset, piece.bytes()).map_err(CudaError::of(OP))?;
            offset += piece.bytes().len();
        }
        let content = Content::Weight(Mutex::default());
        Ok(Tensor::from_buffer(CudaBuffer { memory, content }, dtype, shape))
    }

    fn write(&self, values: &[f32], y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.write_of(values, y)
    }

    fn indices(&self, values: &[u32]) -> Result<Tensor<Buf>, OpError> {
        const OP: &str = "indices";
        let memory = self.scratch(OP, values.len() * 4)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        memory.upload(0, &bytes).map_err(CudaError::of(OP))?;
        let content = Content::Indices(values.to_vec());
        Ok(Tensor::from_buffer(CudaBuffer { memory, content }, DType::U32, Dims::new(&[values.len()])))
    }

    fn read(&self, x: View<'_, Buf>) -> Result<Vec<f32>, OpError> {
        self.read_of(x)
    }

    fn cast(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.cast_of(x, y)
    }

    fn linear(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.linear_of(w, bias, x, y)
    }

    fn gather_rows(&self, table: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.gather_rows_of(table, indices, y)
    }

    fn scatter_rows(&self, x: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.scatter_rows_of(x, indices, y)
    }

    fn mix_rows(
        &self,
        table: View<'_, Buf>,
        indices: View<'_, Buf>,
        weights: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.mix_rows_of(table, indices, weights, y)
    }

    fn rms_norm(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        eps: f32,
        rounding: NormRounding,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.rms_norm_of(x, weight, eps, rounding, y)
    }

    fn layer_norm(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        bias: View<'_, Buf>,
        eps: f32,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.layer_norm_of(x, weight, bias, eps, y)
    }

    fn rms_norm_modulate(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        eps: f32,
        modulation: Modulation<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.rms_norm_modulate_of(x, weight, eps, modulation, y)
    }

    fn norm_rotate_heads(
        &self,
        weight: Option<View<'_, Buf>>,
        eps: f32,
        rounding: NormRounding,
        rotary: Option<Rotary<'_, Buf>>,
        x: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.norm_rotate_heads_of(weight, eps, rounding, rotary, x)
    }

    fn rotate_heads(&self, rotary: Rotary<'_, Buf>, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.rotate_heads_of(rotary, x)
    }

    fn attention(
        &self,
        q: View<'_, Buf>,
        k: View<'_, Buf>,
        v: View<'_, Buf>,
        scale: f32,
        causal: bool,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.attention_of(q, k, v, scale, causal, y)
    }

    fn swiglu(&self, x: View<'_, Buf>, order: GateOrder, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.swiglu_of(x, order, y)
    }

    fn activate(&self, activation: Activation, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.activate_of(activation, x, y)
    }

    fn add(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.add_of(x, y)
    }

    fn multiply(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.multiply_of(x, y)
    }

    fn gated_add(
        &self,
        x: View<'_, Buf>,
        gate: View<'_, Buf>,
        rows: Option<View<'_, Buf>>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.gated_add_of(x, gate, rows, y)
    }

    fn euler_step(&self, v: View<'_, Buf>, timestep: f32, ratio: f32, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.euler_step_of(v, timestep, ratio, x)
    }

    fn conv1d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: Conv1dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.conv1d_of(w, bias, shape, x, y)
    }

    fn conv_transpose1d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: Conv1dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.conv_transpose1d_of(w, bias, shape, x, y)
    }

    fn causal_conv3d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: CausalConv3dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.causal_conv3d_of(w, bias, shape, x, y)
    }

    fn group_norm(
        &self,
        norm: GroupNorm<'_, Buf>,
        activation: Option<Activation>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.group_norm_of(norm, activation, x, y)
    }

    fn scale(&self, factor: f32, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.scale_of(factor, y)
    }

    fn alias_free_snake(
        &self,
        snake: AliasFreeSnake<'_, Buf>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.alias_free_snake_of(snake, x, y)
    }

    fn snake(&self, alpha: View<'_, Buf>, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.snake_of(alpha, x, y)
    }

    fn transpose(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.transpose_of(x, y)
    }

    fn unpatchify(
        &self,
        x: View<'_, Buf>,
        grid: [usize; 3],
        first_frame: usize,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.unpatchify_of(x, grid, first_frame, y)
    }

    fn cross_fade(&self, x: View<'_, Buf>, axis: usize, extent: usize, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.cross_fade_of(x, axis, extent, y)
    }

    fn pixels_to_rgb8(
        &self,
        x: View<'_, Buf>,
        mean: [f32; 3],
        std: [f32; 3],
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.pixels_to_rgb8_of(x, mean, std, y)
    }

    fn read_bytes(&self, x: View<'_, Buf>) -> Result<Vec<u8>, OpError> {
        self.read_bytes_of(x)
    }
}
