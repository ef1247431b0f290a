//! The operations of a metered device: each is counted, then done.

use super::metered::{Metered, bytes, bytes_mut};
use crate::checkpoint::Stored;
use crate::ops::{
    Activation, AliasFreeSnake, CausalConv3dShape, Conv1dShape, DType, Dims, GateOrder, GroupNorm, Masters, Modulation,
    NormRounding, OpError, Ops, Rotary, Tensor, View, ViewMut,
};

type In<'a, O> = View<'a, <O as Ops>::Buffer>;
type Out<'a, O> = ViewMut<'a, <O as Ops>::Buffer>;

impl<O: Ops> Metered<O> {
    /// Takes note of an operation that only moves.
    fn moved(&self, bytes: f64, dtype: DType) {
        self.note(0.0, bytes, dtype);
    }
}

/// Elements of an output.
fn elements<B>(y: &ViewMut<'_, B>) -> f64 {
    y.window().shape.elements() as f64
}

impl<O: Ops> Ops for Metered<O> {
    type Buffer = O::Buffer;
    type Slot = O::Slot;

    fn alloc(&self, dtype: DType, shape: Dims) -> Result<Tensor<O::Buffer>, OpError> {
        self.made(dtype, shape.elements());
        self.ops.alloc(dtype, shape)
    }

    fn weight(&self, stored: &Stored) -> Result<Tensor<O::Buffer>, OpError> {
        self.ops.weight(stored)
    }

    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<O::Buffer>, OpError> {
        self.ops.weight_in(stored, dtype)
    }

    fn slot(&self, masters: Masters) -> Result<O::Slot, OpError> {
        self.ops.slot(masters)
    }

    fn trim(&self) -> Result<(), OpError> {
        self.ops.trim()
    }

    fn write(&self, values: &[f32], y: Out<'_, O>) -> Result<(), OpError> {
        self.ops.write(values, y)
    }

    fn indices(&self, values: &[u32]) -> Result<Tensor<O::Buffer>, OpError> {
        self.made(DType::U32, values.len());
        self.ops.indices(values)
    }

    fn read(&self, x: In<'_, O>) -> Result<Vec<f32>, OpError> {
        self.ops.read(x)
    }

    fn read_bytes(&self, x: In<'_, O>) -> Result<Vec<u8>, OpError> {
        self.ops.read_bytes(x)
    }

    fn write_bytes(&self, bytes: &[u8], y: Out<'_, O>) -> Result<(), OpError> {
        self.ops.write_bytes(bytes, y)
    }

    fn cast(&self, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.cast(x, y)
    }

    fn linear(&self, w: In<'_, O>, bias: Option<In<'_, O>>, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        // The weight is multiplied in the type of `x`, whatever it is stored in.
        let weight = (w.window().shape.elements() * x.dtype().size()) as f64;
        self.note(2.0 * elements(&y) * w.width() as f64, weight + bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.linear(w, bias, x, y)
    }

    fn gather_rows(&self, table: In<'_, O>, indices: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(2.0 * bytes_mut(&y), y.dtype());
        self.ops.gather_rows(table, indices, y)
    }

    fn scatter_rows(&self, x: In<'_, O>, indices: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(2.0 * bytes(&x), x.dtype());
        self.ops.scatter_rows(x, indices, y)
    }

    fn mix_rows(&self, table: In<'_, O>, indices: In<'_, O>, weights: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        let taps = weights.width() as f64;
        self.moved((taps + 1.0) * bytes_mut(&y), y.dtype());
        self.ops.mix_rows(table, indices, weights, y)
    }

    fn rms_norm(
        &self,
        x: In<'_, O>,
        weight: In<'_, O>,
        eps: f32,
        rounding: NormRounding,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.rms_norm(x, weight, eps, rounding, y)
    }

    fn layer_norm(
        &self,
        x: In<'_, O>,
        weight: In<'_, O>,
        bias: In<'_, O>,
        eps: f32,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.layer_norm(x, weight, bias, eps, y)
    }

    fn rms_norm_modulate(
        &self,
        x: In<'_, O>,
        weight: In<'_, O>,
        eps: f32,
        modulation: Modulation<'_, O::Buffer>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.rms_norm_modulate(x, weight, eps, modulation, y)
    }

    fn norm_rotate_heads(
        &self,
        weight: Option<In<'_, O>>,
        eps: f32,
        rounding: NormRounding,
        rotary: Option<Rotary<'_, O::Buffer>>,
        x: Out<'_, O>,
    ) -> Result<(), OpError> {
        let tables = rotary.as_ref().map_or(0.0, |rotary| bytes(&rotary.cos) + bytes(&rotary.sin));
        self.moved(2.0 * bytes_mut(&x) + tables, x.dtype());
        self.ops.norm_rotate_heads(weight, eps, rounding, rotary, x)
    }

    fn rotate_heads(&self, rotary: Rotary<'_, O::Buffer>, x: Out<'_, O>) -> Result<(), OpError> {
        self.moved(2.0 * bytes_mut(&x) + bytes(&rotary.cos) + bytes(&rotary.sin), x.dtype());
        self.ops.rotate_heads(rotary, x)
    }

    fn attention(
        &self,
        q: In<'_, O>,
        k: In<'_, O>,
        v: In<'_, O>,
        scale: f32,
        causal: bool,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        // Scores and their product with the values; a row looks at half of all keys where the later ones are hidden.
        let share = if causal { 2.0 } else { 4.0 };
        let flops = share * q.window().shape.elements() as f64 * k.len_rows() as f64;
        self.note(flops, bytes(&q) + bytes(&k) + bytes(&v) + bytes_mut(&y), q.dtype());
        self.ops.attention(q, k, v, scale, causal, y)
    }

    fn swiglu(&self, x: In<'_, O>, order: GateOrder, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.swiglu(x, order, y)
    }

    fn activate(&self, activation: Activation, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.activate(activation, x, y)
    }

    fn add(&self, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + 2.0 * bytes_mut(&y), x.dtype());
        self.ops.add(x, y)
    }

    fn multiply(&self, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + 2.0 * bytes_mut(&y), x.dtype());
        self.ops.multiply(x, y)
    }

    fn gated_add(&self, x: In<'_, O>, gate: In<'_, O>, rows: Option<In<'_, O>>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + 2.0 * bytes_mut(&y), x.dtype());
        self.ops.gated_add(x, gate, rows, y)
    }

    fn euler_step(&self, v: In<'_, O>, timestep: f32, ratio: f32, x: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&v) + 2.0 * bytes_mut(&x), x.dtype());
        self.ops.euler_step(v, timestep, ratio, x)
    }

    fn conv1d(
        &self,
        w: In<'_, O>,
        bias: Option<In<'_, O>>,
        shape: Conv1dShape,
        x: In<'_, O>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        let terms = (w.window().shape.elements() / w.len_rows().max(1)) as f64;
        self.note(2.0 * elements(&y) * terms, bytes(&w) + bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.conv1d(w, bias, shape, x, y)
    }

    fn conv_transpose1d(
        &self,
        w: In<'_, O>,
        bias: Option<In<'_, O>>,
        shape: Conv1dShape,
        x: In<'_, O>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        // Every input goes to all taps of all outputs.
        let targets = (w.window().shape.elements() / w.len_rows().max(1)) as f64;
        let inputs = x.window().shape.elements() as f64;
        self.note(2.0 * inputs * targets, bytes(&w) + bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.conv_transpose1d(w, bias, shape, x, y)
    }

    fn causal_conv3d(
        &self,
        w: In<'_, O>,
        bias: Option<In<'_, O>>,
        shape: CausalConv3dShape,
        x: In<'_, O>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        let terms = (w.window().shape.elements() / w.len_rows().max(1)) as f64;
        self.note(2.0 * elements(&y) * terms, bytes(&w) + bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.causal_conv3d(w, bias, shape, x, y)
    }

    fn group_norm(
        &self,
        norm: GroupNorm<'_, O::Buffer>,
        activation: Option<Activation>,
        x: In<'_, O>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.group_norm(norm, activation, x, y)
    }

    fn scale(&self, factor: f32, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(2.0 * bytes_mut(&y), y.dtype());
        self.ops.scale(factor, y)
    }

    fn alias_free_snake(
        &self,
        snake: AliasFreeSnake<'_, O::Buffer>,
        x: In<'_, O>,
        y: Out<'_, O>,
    ) -> Result<(), OpError> {
        // Two samples between, each of half of the taps, and one of all taps of the other filter.
        let taps = (snake.upsample.width() + snake.downsample.width()) as f64;
        self.note(2.0 * elements(&y) * taps, bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.alias_free_snake(snake, x, y)
    }

    fn snake(&self, alpha: In<'_, O>, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.snake(alpha, x, y)
    }

    fn transpose(&self, x: In<'_, O>, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.transpose(x, y)
    }

    fn unpatchify(&self, x: In<'_, O>, grid: [usize; 3], first_frame: usize, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(2.0 * bytes_mut(&y), y.dtype());
        self.ops.unpatchify(x, grid, first_frame, y)
    }

    fn cross_fade(&self, x: In<'_, O>, axis: usize, extent: usize, y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + 2.0 * bytes_mut(&y), y.dtype());
        self.ops.cross_fade(x, axis, extent, y)
    }

    fn pixels_to_rgb8(&self, x: In<'_, O>, mean: [f32; 3], std: [f32; 3], y: Out<'_, O>) -> Result<(), OpError> {
        self.moved(bytes(&x) + bytes_mut(&y), x.dtype());
        self.ops.pixels_to_rgb8(x, mean, std, y)
    }
}
