//! The trait's methods: each sees to it that its operands are this GPU's, and leaves the rest to its family.

use std::sync::Arc;

use super::buffer::CudaBuffer;
use super::context::Context;
use super::{Cuda, CudaError, CudaSlot};
use crate::checkpoint::Stored;
use crate::ops::{
    Activation, AliasFreeSnake, CausalConv3dShape, Conv1dShape, DType, Dims, GateOrder, GroupNorm, Masters, Modulation,
    NormRounding, OpError, Ops, Rotary, Tensor, View, ViewMut,
};

type Buf = CudaBuffer;

/// What an operation reads or writes.
trait Operand {
    /// Tells whether all of it lies on the GPU of `context` and is used on its stream alone.
    fn is_of(&self, context: &Arc<Context>) -> bool;
}

impl Operand for View<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(self.buffer.memory.context(), context)
    }
}

impl Operand for ViewMut<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(self.buffer.memory.context(), context)
    }
}

impl<T: Operand> Operand for Option<T> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        self.as_ref().is_none_or(|operand| operand.is_of(context))
    }
}

impl Operand for Modulation<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        [&self.shift, &self.scale, &self.rows].iter().all(|operand| operand.is_of(context))
    }
}

impl Operand for Rotary<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        self.cos.is_of(context) && self.sin.is_of(context)
    }
}

impl Operand for GroupNorm<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        self.weight.is_of(context) && self.bias.is_of(context)
    }
}

impl Operand for AliasFreeSnake<'_, Buf> {
    fn is_of(&self, context: &Arc<Context>) -> bool {
        [&self.upsample, &self.downsample, &self.alpha, &self.beta].iter().all(|operand| operand.is_of(context))
    }
}

impl Cuda {
    /// Refuses operands of another GPU, whose addresses mean nothing here, and those of another queue of the same one, with
    /// which nothing is in order.
    ///
    /// Errors: [`CudaError::Foreign`] in the backend's error.
    fn owns(&self, op: &'static str, operands: &[&dyn Operand]) -> Result<(), OpError> {
        if operands.iter().all(|operand| operand.is_of(&self.context)) {
            return Ok(());
        }
        Err(CudaError::of(op)(CudaError::Foreign))
    }
}

impl Ops for Cuda {
    type Buffer = CudaBuffer;
    type Slot = CudaSlot;

    fn alloc(&self, dtype: DType, shape: Dims) -> Result<Tensor<Buf>, OpError> {
        self.alloc_of(dtype, shape)
    }

    fn weight(&self, stored: &Stored) -> Result<Tensor<Buf>, OpError> {
        self.weight_of(stored, None)
    }

    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<Buf>, OpError> {
        self.weight_of(stored, Some(dtype))
    }

    fn slot(&self, masters: Masters) -> Result<CudaSlot, OpError> {
        self.slot_of(masters)
    }

    fn indices(&self, values: &[u32]) -> Result<Tensor<Buf>, OpError> {
        self.indices_of(values)
    }

    fn trim(&self) -> Result<(), OpError> {
        self.trim_pool().map_err(CudaError::of("trim"))
    }

    fn write(&self, values: &[f32], y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("write", &[&y])?;
        self.write_of(values, y)
    }

    fn read(&self, x: View<'_, Buf>) -> Result<Vec<f32>, OpError> {
        self.owns("read", &[&x])?;
        self.read_of(x)
    }

    fn cast(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("cast", &[&x, &y])?;
        self.cast_of(x, y)
    }

    fn linear(
        &self,
        w: View<'_, Buf>,
        bias: Option<View<'_, Buf>>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("linear", &[&w, &bias, &x, &y])?;
        self.linear_of(w, bias, x, y)
    }

    fn gather_rows(&self, table: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("gather_rows", &[&table, &indices, &y])?;
        self.gather_rows_of(table, indices, y)
    }

    fn scatter_rows(&self, x: View<'_, Buf>, indices: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("scatter_rows", &[&x, &indices, &y])?;
        self.scatter_rows_of(x, indices, y)
    }

    fn mix_rows(
        &self,
        table: View<'_, Buf>,
        indices: View<'_, Buf>,
        weights: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("mix_rows", &[&table, &indices, &weights, &y])?;
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
        self.owns("rms_norm", &[&x, &weight, &y])?;
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
        self.owns("layer_norm", &[&x, &weight, &bias, &y])?;
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
        self.owns("rms_norm_modulate", &[&x, &weight, &modulation, &y])?;
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
        self.owns("norm_rotate_heads", &[&weight, &rotary, &x])?;
        self.norm_rotate_heads_of(weight, eps, rounding, rotary, x)
    }

    fn rotate_heads(&self, rotary: Rotary<'_, Buf>, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("rotate_heads", &[&rotary, &x])?;
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
        self.owns("attention", &[&q, &k, &v, &y])?;
        self.attention_of(q, k, v, scale, causal, y)
    }

    fn swiglu(&self, x: View<'_, Buf>, order: GateOrder, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("swiglu", &[&x, &y])?;
        self.swiglu_of(x, order, y)
    }

    fn activate(&self, activation: Activation, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("activate", &[&x, &y])?;
        self.activate_of(activation, x, y)
    }

    fn add(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("add", &[&x, &y])?;
        self.add_of(x, y)
    }

    fn multiply(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("multiply", &[&x, &y])?;
        self.multiply_of(x, y)
    }

    fn gated_add(
        &self,
        x: View<'_, Buf>,
        gate: View<'_, Buf>,
        rows: Option<View<'_, Buf>>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("gated_add", &[&x, &gate, &rows, &y])?;
        self.gated_add_of(x, gate, rows, y)
    }

    fn euler_step(&self, v: View<'_, Buf>, timestep: f32, ratio: f32, x: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("euler_step", &[&v, &x])?;
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
        self.owns("conv1d", &[&w, &bias, &x, &y])?;
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
        self.owns("conv_transpose1d", &[&w, &bias, &x, &y])?;
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
        self.owns("causal_conv3d", &[&w, &bias, &x, &y])?;
        self.causal_conv3d_of(w, bias, shape, x, y)
    }

    fn group_norm(
        &self,
        norm: GroupNorm<'_, Buf>,
        activation: Option<Activation>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("group_norm", &[&norm, &x, &y])?;
        self.group_norm_of(norm, activation, x, y)
    }

    fn scale(&self, factor: f32, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("scale", &[&y])?;
        self.scale_of(factor, y)
    }

    fn alias_free_snake(
        &self,
        snake: AliasFreeSnake<'_, Buf>,
        x: View<'_, Buf>,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("alias_free_snake", &[&snake, &x, &y])?;
        self.alias_free_snake_of(snake, x, y)
    }

    fn snake(&self, alpha: View<'_, Buf>, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("snake", &[&alpha, &x, &y])?;
        self.snake_of(alpha, x, y)
    }

    fn transpose(&self, x: View<'_, Buf>, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("transpose", &[&x, &y])?;
        self.transpose_of(x, y)
    }

    fn unpatchify(
        &self,
        x: View<'_, Buf>,
        grid: [usize; 3],
        first_frame: usize,
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("unpatchify", &[&x, &y])?;
        self.unpatchify_of(x, grid, first_frame, y)
    }

    fn cross_fade(&self, x: View<'_, Buf>, axis: usize, extent: usize, y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("cross_fade", &[&x, &y])?;
        self.cross_fade_of(x, axis, extent, y)
    }

    fn pixels_to_rgb8(
        &self,
        x: View<'_, Buf>,
        mean: [f32; 3],
        std: [f32; 3],
        y: ViewMut<'_, Buf>,
    ) -> Result<(), OpError> {
        self.owns("pixels_to_rgb8", &[&x, &y])?;
        self.pixels_to_rgb8_of(x, mean, std, y)
    }

    fn read_bytes(&self, x: View<'_, Buf>) -> Result<Vec<u8>, OpError> {
        self.owns("read_bytes", &[&x])?;
        self.read_bytes_of(x)
    }

    fn write_bytes(&self, bytes: &[u8], y: ViewMut<'_, Buf>) -> Result<(), OpError> {
        self.owns("write_bytes", &[&y])?;
        self.write_bytes_of(bytes, y)
    }
}
