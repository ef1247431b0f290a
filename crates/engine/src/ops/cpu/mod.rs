//! The operations on the CPU: matrix products and convolutions by candle-core, the rest plain loops that also say what
//! a GPU kernel has to compute.

mod attention;
mod audio;
mod buffer;
mod bytes;
mod conv;
mod conv3d;
mod elementwise;
mod group_norm;
mod lent;
mod linear;
mod norm;
mod pixels;
#[cfg(test)]
mod tests;

pub use buffer::HostBuffer;
pub use lent::HostSlot;

use super::slot::floats_of;
use super::{
    Activation, AliasFreeSnake, CausalConv3dShape, Conv1dShape, DType, Dims, GateOrder, GroupNorm, Masters, Modulation,
    NormRounding, OpError, Ops, Rotary, Tensor, View, ViewMut,
};
use crate::checkpoint::Stored;

type Buf = HostBuffer;

/// Runs operations on the calling thread and candle's thread pool.
#[derive(Debug, Clone)]
pub struct Cpu {
    attention_scratch_bytes: usize,
}

impl Cpu {
    /// Makes a CPU backend whose attention holds at most `attention_scratch_bytes` of scores (never less than one row).
    pub fn new(attention_scratch_bytes: usize) -> Self {
        Self { attention_scratch_bytes }
    }
}

impl Ops for Cpu {
    type Buffer = HostBuffer;
    type Slot = HostSlot;

    fn alloc(&self, dtype: DType, shape: Dims) -> Result<Tensor<Buf>, OpError> {
        let buffer = HostBuffer::zeroed(dtype, shape.elements())
            .map_err(|source| OpError::Backend { op: "alloc", source: Box::new(source) })?;
        Ok(Tensor::from_buffer(buffer, dtype, shape))
    }

    fn weight(&self, stored: &Stored) -> Result<Tensor<Buf>, OpError> {
        let (dtype, shape) = floats_of("weight", stored)?;
        Ok(Tensor::from_buffer(HostBuffer::Mapped { pieces: stored.pieces.clone(), dtype, lease: None }, dtype, shape))
    }

    fn slot(&self, _: Masters) -> Result<HostSlot, OpError> {
        Ok(HostSlot::default())
    }

    /// Products round a few rows at a time, so the file stays where it is.
    fn weight_in(&self, stored: &Stored, _: DType) -> Result<Tensor<Buf>, OpError> {
        self.weight(stored)
    }

    fn trim(&self) -> Result<(), OpError> {
        Ok(())
    }

    fn write(&self, values: &[f32], mut y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        buffer::store_all("write", "y", values, &mut y)
    }

    fn indices(&self, values: &[u32]) -> Result<Tensor<Buf>, OpError> {
        Ok(Tensor::from_buffer(HostBuffer::U32(values.to_vec()), DType::U32, Dims::new(&[values.len()])))
    }

    fn read(&self, x: View<'_, Buf>) -> Result<Vec<f32>, OpError> {
        buffer::load_all("read", "x", &x)
    }

    fn cast(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::cast(x, y)
    }

    fn linear(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        linear::linear(w, bias, x, y)
    }

    fn gather_rows(&self, table: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::gather_rows(table, indices, y)
    }

    fn scatter_rows(&self, x: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::scatter_rows(x, indices, y)
    }

    fn mix_rows(
        &self,
        table: View<'_, Buf>,
        indices: View<'_, Buf>,
        weights: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        elementwise::mix_rows(table, indices, weights, y)
    }

    fn rms_norm(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        eps: f32,
        rounding: NormRounding,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        norm::rms_norm(x, weight, eps, rounding, y)
    }

    fn layer_norm(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        bias: View<'_, Buf>,
        eps: f32,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        norm::layer_norm(x, weight, bias, eps, y)
    }

    fn rms_norm_modulate(
        &self,
        x: View<'_, Buf>,
        weight: View<'_, Buf>,
        eps: f32,
        modulation: Modulation<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        norm::rms_norm_modulate(x, weight, eps, modulation, y)
    }

    fn norm_rotate_heads(
        &self,
        weight: Option<View<'_, Buf>>,
        eps: f32,
        rounding: NormRounding,
        rotary: Option<Rotary<'_, Buf>>,
        x: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        norm::norm_rotate_heads(weight, eps, rounding, rotary, x)
    }

    fn rotate_heads(&self, rotary: Rotary<'_, Buf>, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        norm::rotate_heads(rotary, x)
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
        attention::attention(self.attention_scratch_bytes, q, k, v, scale, causal, y)
    }

    fn swiglu(&self, x: View<'_, Buf>, order: GateOrder, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::swiglu(x, order, y)
    }

    fn activate(&self, activation: Activation, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::activate(activation, x, y)
    }

    fn add(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::add(x, y)
    }

    fn multiply(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::multiply(x, y)
    }

    fn gated_add(
        &self,
        x: View<'_, Buf>,
        gate: View<'_, Buf>,
        rows: Option<View<'_, Buf>>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        elementwise::gated_add(x, gate, rows, y)
    }

    fn euler_step(&self, v: View<'_, Buf>, timestep: f32, ratio: f32, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        elementwise::euler_step(v, timestep, ratio, x)
    }

    fn conv1d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: Conv1dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        conv::conv1d(w, bias, shape, x, y)
    }

    fn conv_transpose1d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: Conv1dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        conv::conv_transpose1d(w, bias, shape, x, y)
    }

    fn causal_conv3d(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        shape: CausalConv3dShape,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        conv3d::causal_conv3d(w, bias, shape, x, y)
    }

    fn group_norm(
        &self,
        norm: GroupNorm<'_, Buf>,
        activation: Option<Activation>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        group_norm::group_norm(norm, activation, x, y)
    }

    fn scale(&self, factor: f32, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        audio::scale(factor, y)
    }

    fn alias_free_snake(
        &self,
        snake: AliasFreeSnake<'_, Buf>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        audio::alias_free_snake(snake, x, y)
    }

    fn snake(&self, alpha: View<'_, Buf>, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        audio::snake(alpha, x, y)
    }

    fn transpose(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        audio::transpose(x, y)
    }

    fn unpatchify(
        &self,
        x: View<'_, Buf>,
        grid: [usize; 3],
        first_frame: usize,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        pixels::unpatchify(x, grid, first_frame, y)
    }

    fn cross_fade(&self, x: View<'_, Buf>, axis: usize, extent: usize, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        pixels::cross_fade(x, axis, extent, y)
    }

    fn pixels_to_rgb8(
        &self,
        x: View<'_, Buf>,
        mean: [f32; 3],
        std: [f32; 3],
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        pixels::pixels_to_rgb8(x, mean, std, y)
    }

    fn read_bytes(&self, x: View<'_, Buf>) -> Result<Vec<u8>, OpError> {
        bytes::read_bytes(x)
    }

    fn write_bytes(&self, bytes: &[u8], y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        bytes::write_bytes(bytes, y)
    }
}
