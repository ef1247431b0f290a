//! The operations that every network is written against.
//!
//! A network never names a device: it calls these operations on [`View`]s, and each one writes into an output that the
//! caller owns, so that activations can be planned before anything runs. [`cpu`] serves them over candle-core,
//! [`cuda`] on an NVIDIA GPU.
//!
//! # Rounding
//!
//! Arithmetic is F32 inside an operation. Each operation documents the points at which it rounds to the dtype of its
//! operands; those are the points at which the reference (eager PyTorch) rounds, so BF16 results follow it closely.

mod conv3d;
pub mod cpu;
pub mod cuda;
mod slot;
mod tensor;

pub use conv3d::{CausalConv3dShape, KernelSize, ReflectPadding, Stride};
pub use slot::{Masters, Passage, SLOT_ALIGNMENT, Slot};
pub use tensor::{DType, Dims, Tensor, View, ViewMut, Window};

pub use crate::checkpoint::GateOrder;
use crate::checkpoint::Stored;

/// Why an operation could not run.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// An argument does not have the shape that the operation needs.
    #[error("{op}: {name} has shape {actual:?}, expected {expected:?}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The argument.
        name: &'static str,
        /// What the operation needs.
        expected: Vec<usize>,
        /// What it was given.
        actual: Vec<usize>,
    },
    /// An argument has an element type that the operation does not take.
    #[error("{op}: {name} has element type {actual}")]
    DType {
        /// The operation.
        op: &'static str,
        /// The argument.
        name: &'static str,
        /// What it was given.
        actual: DType,
    },
    /// A row index points outside its table.
    #[error("{op}: row index {index} is outside a table of {rows} rows")]
    Index {
        /// The operation.
        op: &'static str,
        /// The index.
        index: usize,
        /// Rows of the table.
        rows: usize,
    },
    /// An argument holds a value that is no finite number, where one is needed.
    #[error("{op}: {name} holds values that are not finite")]
    NotFinite {
        /// The operation.
        op: &'static str,
        /// The argument.
        name: &'static str,
    },
    /// The backend's library failed.
    #[error("{op} failed in the backend")]
    Backend {
        /// The operation.
        op: &'static str,
        /// What the library said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Where an RMS norm rounds in 16-bit types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormRounding {
    /// Once, after the weight: `round(x·r·w)`, as `torch.nn.RMSNorm`.
    Once,
    /// Before the weight and after it: `round(round(x·r)·w)`, as transformers' Qwen norms.
    BeforeWeight,
}

/// Element-wise activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// `x · Φ(x)` by the error function.
    Gelu,
    /// The same with `Φ` approximated: `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`.
    GeluTanh,
}

/// Modulation tables that rows pick from: `scale` and `shift` are `[table_rows, width]`, `rows[i]` is row `i`'s entry.
pub struct Modulation<'a, B> {
    /// Shifts, `[table_rows, width]`.
    pub shift: View<'a, B>,
    /// Scales, `[table_rows, width]`; applied as `1 + scale`.
    pub scale: View<'a, B>,
    /// Table row of each input row, U32 `[rows]`.
    pub rows: View<'a, B>,
}

/// Rotary tables: `[rows, rotary_dim]`, the two halves equal; the leading `rotary_dim` channels of a head turn.
pub struct Rotary<'a, B> {
    /// Cosines; an operation that also norms rounds them to the rotated tensor's dtype before use.
    pub cos: View<'a, B>,
    /// Sines; rounded likewise.
    pub sin: View<'a, B>,
}

/// Padding, stride and dilation of a one-dimensional convolution, in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv1dShape {
    /// Zeros on both sides (for a transposed convolution: outputs cut from both sides).
    pub padding: usize,
    /// Step between outputs (transposed: between inputs).
    pub stride: usize,
    /// Distance between taps.
    pub dilation: usize,
}

/// The parameters of a group norm.
pub struct GroupNorm<'a, B> {
    /// `[channels]`.
    pub weight: View<'a, B>,
    /// `[channels]`.
    pub bias: View<'a, B>,
    /// Groups of neighbouring channels that share a mean and a variance.
    pub groups: usize,
    /// Added to each variance.
    pub eps: f32,
}

/// The filters and parameters of an alias-free periodic activation.
pub struct AliasFreeSnake<'a, B> {
    /// Low-pass filter of the upsampling, F32 `[taps]`; `taps` is a multiple of 4.
    pub upsample: View<'a, B>,
    /// Low-pass filter of the downsampling, F32 `[taps]`.
    pub downsample: View<'a, B>,
    /// Logarithm of each channel's frequency, F32 `[channels]`.
    pub alpha: View<'a, B>,
    /// Logarithm of each channel's inverse magnitude, F32 `[channels]`.
    pub beta: View<'a, B>,
}

/// The named operations. `Y` arguments are outputs; shapes are checked before anything is written.
pub trait Ops: Send + Sync {
    /// What a tensor's elements live in.
    type Buffer: Send + Sync;

    /// Memory that blocks of weights stream through.
    type Slot: Slot<Self::Buffer> + 'static;

    /// Makes a zeroed tensor.
    ///
    /// Errors: [`OpError::Backend`] when memory runs out.
    fn alloc(&self, dtype: DType, shape: Dims) -> Result<Tensor<Self::Buffer>, OpError>;

    /// Makes a checkpoint's tensor available to operations, in its stored dtype. The CPU reads the mapped file in
    /// place.
    ///
    /// Errors: [`OpError::Backend`] for a dtype that no operation takes, [`OpError::Shape`] for more than four axes.
    fn weight(&self, stored: &Stored) -> Result<Tensor<Self::Buffer>, OpError>;

    /// Makes a checkpoint's tensor available to products that compute in `dtype`: in it where the backend would otherwise
    /// have to round it at every use, else as stored. [`linear`](Self::linear) rounds alike either way.
    ///
    /// Errors: those of [`weight`](Self::weight).
    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<Self::Buffer>, OpError>;

    /// Makes a slot, which takes its memory when it is filled first.
    ///
    /// Errors: [`OpError::Backend`] when the device cannot copy beside what it computes.
    fn slot(&self, masters: Masters) -> Result<Self::Slot, OpError>;

    /// Gives memory that no tensor holds back to the device, before something of other sizes is brought there.
    ///
    /// Errors: [`OpError::Backend`] when something failed that was queued before.
    fn trim(&self) -> Result<(), OpError>;

    /// Uploads F32 values, rounding them to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`] when the lengths differ.
    fn write(&self, values: &[f32], y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// Uploads row indices or token ids as a U32 vector.
    ///
    /// Errors: [`OpError::Backend`] when memory runs out.
    fn indices(&self, values: &[u32]) -> Result<Tensor<Self::Buffer>, OpError>;

    /// Downloads a float view as F32, in row-major order.
    ///
    /// Errors: [`OpError::DType`] for integer views.
    fn read(&self, x: View<'_, Self::Buffer>) -> Result<Vec<f32>, OpError>;

    /// Copies `x` into `y` of the same shape, rounding to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn cast(&self, x: View<'_, Self::Buffer>, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// `y = x · wᵀ + bias`; `w` `[n, k]`, `bias` `[n]`, `x` `[m, k]`, `y` `[m, n]`.
    ///
    /// Rounds: `w` and `bias` to `x`'s dtype (as if cast at load), sums in F32, the result once to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn linear(
        &self,
        w: View<'_, Self::Buffer>,
        bias: Option<View<'_, Self::Buffer>>,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y[i] = table[indices[i]]`, rounding to `y`'s dtype.
    ///
    /// Errors: [`OpError::Index`] for an index outside the table.
    fn gather_rows(
        &self,
        table: View<'_, Self::Buffer>,
        indices: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y[indices[i]] = x[i]`, rounding to `y`'s dtype. No index may be there twice: rows are written in no order.
    ///
    /// Errors: [`OpError::Index`] for an index outside `y`.
    fn scatter_rows(
        &self,
        x: View<'_, Self::Buffer>,
        indices: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y[i] = Σ_j weights[i, j] · table[indices[i · taps + j]]`; `weights` F32 `[rows, taps]`, `indices` U32
    /// `[rows · taps]`. Sums in F32 in the order of the taps, rounds once.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`]; [`OpError::Index`] for an index outside the table.
    fn mix_rows(
        &self,
        table: View<'_, Self::Buffer>,
        indices: View<'_, Self::Buffer>,
        weights: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// RMS norm over the innermost axis: `x / √(mean x² + eps) · weight`.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn rms_norm(
        &self,
        x: View<'_, Self::Buffer>,
        weight: View<'_, Self::Buffer>,
        eps: f32,
        rounding: NormRounding,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// Layer norm over the innermost axis with weight and bias; rounds once.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn layer_norm(
        &self,
        x: View<'_, Self::Buffer>,
        weight: View<'_, Self::Buffer>,
        bias: View<'_, Self::Buffer>,
        eps: f32,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// RMS norm, then `h · (1 + scale[r]) + shift[r]` with `r = rows[i]`.
    ///
    /// Rounds to `y`'s dtype after the norm, after `1 + scale`, after the product and after the sum.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::Index`].
    fn rms_norm_modulate(
        &self,
        x: View<'_, Self::Buffer>,
        weight: View<'_, Self::Buffer>,
        eps: f32,
        modulation: Modulation<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// In place over `x` `[rows, heads, head_dim]`: RMS norm per head (no weight: plain), then rotation.
    ///
    /// Rounds after the norm, after each product with cos or sin and after their sum.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn norm_rotate_heads(
        &self,
        weight: Option<View<'_, Self::Buffer>>,
        eps: f32,
        rounding: NormRounding,
        rotary: Option<Rotary<'_, Self::Buffer>>,
        x: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// In place over `x` `[rows, heads, head_dim]`: rotation without a norm, cosines and sines as they are; rounds once.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn rotate_heads(&self, rotary: Rotary<'_, Self::Buffer>, x: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// `softmax(q·kᵀ · scale) · v` per head; `q` `[rows, heads, head_dim]`, `k`, `v` `[keys, kv_heads, head_dim]`,
    /// `y` `[rows, heads · head_dim]`. Heads share key heads in equal groups. `causal` hides keys after a row's own
    /// index.
    ///
    /// Scores are made in row chunks under a byte bound. Rounds the weights `exp(score − max)` to `q`'s dtype after
    /// they were summed, and the result once; fused kernels multiply such weights with `v` and divide by the sum last.
    ///
    /// Errors: [`OpError::Shape`].
    fn attention(
        &self,
        q: View<'_, Self::Buffer>,
        k: View<'_, Self::Buffer>,
        v: View<'_, Self::Buffer>,
        scale: f32,
        causal: bool,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y = silu(gate) · up` from `x` `[rows, 2 · width]`; rounds after silu and after the product.
    ///
    /// Errors: [`OpError::Shape`].
    fn swiglu(&self, x: View<'_, Self::Buffer>, order: GateOrder, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// `y = f(x)`; computed in F32, rounded once to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`].
    fn activate(
        &self,
        activation: Activation,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y = y + x`; rounds once.
    ///
    /// Errors: [`OpError::Shape`].
    fn add(&self, x: View<'_, Self::Buffer>, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// `y = y · x`, element by element; rounds once.
    ///
    /// Errors: [`OpError::Shape`].
    fn multiply(&self, x: View<'_, Self::Buffer>, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// `y = y + gate[rows[i]] · x`; without `rows`, every row takes gate row 0. Rounds the product to `x`'s dtype
    /// widened by `gate`'s (F32 if either is), then the sum to `y`'s.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::Index`].
    fn gated_add(
        &self,
        x: View<'_, Self::Buffer>,
        gate: View<'_, Self::Buffer>,
        rows: Option<View<'_, Self::Buffer>>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// One flow-matching Euler step in place over F32 `x`: `x0 = x + (1 − t)·v`, then `x = r·x + (1 − r)·x0`.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn euler_step(
        &self,
        v: View<'_, Self::Buffer>,
        timestep: f32,
        ratio: f32,
        x: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y = conv1d(x, w) + bias`, F32; `x` `[batch, c_in, n]`, `w` `[c_out, c_in, taps]`, `y` `[batch, c_out, n_out]`.
    ///
    /// Errors: [`OpError::Shape`].
    fn conv1d(
        &self,
        w: View<'_, Self::Buffer>,
        bias: Option<View<'_, Self::Buffer>>,
        shape: Conv1dShape,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y = conv_transpose1d(x, w) + bias`, F32; `w` `[c_in, c_out, taps]`.
    ///
    /// Errors: [`OpError::Shape`].
    fn conv_transpose1d(
        &self,
        w: View<'_, Self::Buffer>,
        bias: Option<View<'_, Self::Buffer>>,
        shape: Conv1dShape,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// Convolves frames `x` `[c_in, frames, height, width]`, F32, into `y` `[c_out, frames, height, width]` of the sizes
    /// that [`CausalConv3dShape::output`] says; `w` `[c_out, c_in, kt · kh · kw]`.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn causal_conv3d(
        &self,
        w: View<'_, Self::Buffer>,
        bias: Option<View<'_, Self::Buffer>>,
        shape: CausalConv3dShape,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// Group norm of `x` `[channels, frames, pixels]` over each group's channels and pixels, frame by frame, with weight
    /// and bias; then the activation, if one is given. Rounds once, to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`], also when the channels do not fill their groups; [`OpError::DType`].
    fn group_norm(
        &self,
        norm: GroupNorm<'_, Self::Buffer>,
        activation: Option<Activation>,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y = factor · y`; rounds once.
    ///
    /// Errors: [`OpError::DType`].
    fn scale(&self, factor: f32, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// A periodic activation at twice the sampling rate, F32; `x`, `y` `[batch, channels, samples]`.
    ///
    /// Upsamples by 2 (ends replicated, zeros between samples, `2 · upsample`), bends each value to
    /// `v + sin²(e^alpha · v) / (e^beta + 1e-9)`, and downsamples by 2 (ends replicated, `downsample`): output `m` is
    /// centred on input `m`, between the middle taps.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn alias_free_snake(
        &self,
        snake: AliasFreeSnake<'_, Self::Buffer>,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// A periodic activation channel by channel, F32: `x + sin²(alpha · x) / (alpha + 1e-9)`; `x`, `y`
    /// `[batch, channels, samples]`, `alpha` `[channels]`.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn snake(
        &self,
        alpha: View<'_, Self::Buffer>,
        x: View<'_, Self::Buffer>,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y[j, i] = x[i, j]`, rounding to `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`].
    fn transpose(&self, x: View<'_, Self::Buffer>, y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;

    /// Lays tokens out as pixels. `grid` `[t, h, w]` counts tokens; `x` `[t·h·w, channels · pt · ph · pw]` holds one
    /// patch a token, `y` `[channels, frames, h · ph, w · pw]` takes `frames` frames from `first_frame` on. Rounds to
    /// `y`'s dtype.
    ///
    /// Errors: [`OpError::Shape`], also when the tokens have no such frames.
    fn unpatchify(
        &self,
        x: View<'_, Self::Buffer>,
        grid: [usize; 3],
        first_frame: usize,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// `y[k] = (1 − k/extent) · x[k] + (k/extent) · y[k]` for each `k` along `axis`, which may stop before `extent`.
    ///
    /// Rounds to `y`'s dtype: both weights (the first from the rounded second), each product, the sum.
    ///
    /// Errors: [`OpError::Shape`], also when `axis` is longer than `extent`.
    fn cross_fade(
        &self,
        x: View<'_, Self::Buffer>,
        axis: usize,
        extent: usize,
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// Quantises pixels: `round(255 · clamp(x · std + mean, 0, 1))`, half to even, in F32. `x`
    /// `[3, frames, height, width]`, `y` contiguous U8 `[frames, height, width, 3]`.
    ///
    /// Errors: [`OpError::Shape`], [`OpError::DType`]; [`OpError::NotFinite`] when a value of `x` is infinite or no number,
    /// since its byte would pass for a colour; `y` is not to be used then.
    fn pixels_to_rgb8(
        &self,
        x: View<'_, Self::Buffer>,
        mean: [f32; 3],
        std: [f32; 3],
        y: ViewMut<'_, Self::Buffer>,
    ) -> Result<(), OpError>;

    /// Downloads the elements of a contiguous view as they are, little-endian.
    ///
    /// Errors: [`OpError::Shape`] for a view with gaps, [`OpError::DType`] for indices and, on the CPU, mapped weights.
    fn read_bytes(&self, x: View<'_, Self::Buffer>) -> Result<Vec<u8>, OpError>;

    /// Uploads what [`read_bytes`](Self::read_bytes) gave of a view of `y`'s shape and type.
    ///
    /// Errors: [`OpError::Shape`] for a view with gaps or of another length, [`OpError::DType`] as there.
    fn write_bytes(&self, bytes: &[u8], y: ViewMut<'_, Self::Buffer>) -> Result<(), OpError>;
}
