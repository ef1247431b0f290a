//! Operations that look at one element of each operand.

use super::Cuda;
use super::buffer::{CudaBuffer, picks};
use super::kernels::{Argument, Grid, argument};
use super::rows::{Rows, code, input, output};
use crate::ops::{Activation, DType, GateOrder, OpError, View, ViewMut};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

/// The code of an activation; mirrors those of `layout.cuh`.
pub(super) fn activation_code(activation: Option<Activation>) -> u32 {
    match activation {
        Some(Activation::Silu) => 0,
        Some(Activation::Gelu) => 1,
        Some(Activation::GeluTanh) => 2,
        None => 3,
    }
}

impl Cuda {
    /// Queues a kernel that visits every element of `count` rows of `y`.
    pub(super) fn each(
        &self,
        op: &'static str,
        kernel: &'static str,
        (y, count): (Rows, u32),
        arguments: &[Argument<'_>],
    ) -> Result<(), OpError> {
        let elements = u64::from(count) * u64::from(y.width);
        if elements == 0 {
            return Ok(());
        }
        self.launch(op, kernel, Grid::over(elements), arguments)
    }

    /// An operation on `x` and `y` of one shape, with a parameter or without.
    fn pairwise(
        &self,
        op: &'static str,
        kernel: &'static str,
        x: X<'_>,
        y: Y<'_>,
        kind: Option<u32>,
    ) -> Result<(), OpError> {
        y.expect_shape(op, "y", x.shape())?;
        let (from, _) = input(op, "x", &x)?;
        let (to, count) = output(op, "y", &y)?;
        let mut arguments = vec![argument(&from), argument(&to), argument(&count)];
        arguments.extend(kind.as_ref().map(argument));
        self.each(op, kernel, (to, count), &arguments)
    }

    pub(super) fn cast_of(&self, x: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        self.pairwise("cast", "cast_rows", x, y, None)
    }

    pub(super) fn activate_of(&self, activation: Activation, x: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        self.pairwise("activate", "activate", x, y, Some(activation_code(Some(activation))))
    }

    pub(super) fn add_of(&self, x: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        self.pairwise("add", "add", x, y, None)
    }

    pub(super) fn multiply_of(&self, x: X<'_>, y: Y<'_>) -> Result<(), OpError> {
        self.pairwise("multiply", "multiply", x, y, None)
    }

    pub(super) fn scale_of(&self, factor: f32, y: Y<'_>) -> Result<(), OpError> {
        let (to, count) = output("scale", "y", &y)?;
        self.each("scale", "scale", (to, count), &[argument(&to), argument(&count), argument(&factor)])
    }

    pub(super) fn gated_add_of(&self, x: X<'_>, gate: X<'_>, rows: Option<X<'_>>, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "gated_add";
        let (count, width, table_rows) = (x.len_rows(), x.width(), gate.len_rows());
        x.expect_shape(OP, "x", &[count, width])?;
        y.expect_shape(OP, "y", &[count, width])?;
        gate.expect_shape(OP, "gate", &[table_rows, width])?;
        let pick = match &rows {
            Some(rows) => {
                rows.expect_shape(OP, "rows", &[count])?;
                picks(OP, "rows", rows, table_rows)?.address
            }
            None if table_rows == 0 => return Err(OpError::Index { op: OP, index: 0, rows: 0 }),
            None => 0,
        };
        let product = code(if x.dtype() == gate.dtype() { x.dtype() } else { DType::F32 });
        let ((from, _), (gate, _)) = (input(OP, "x", &x)?, input(OP, "gate", &gate)?);
        let (to, count) = output(OP, "y", &y)?;
        if count > 0 && [&from, &gate, &to].iter().all(|rows| rows.is_in_eights()) {
            let arguments = [argument(&from), argument(&gate), argument(&pick), argument(&to)];
            return self.launch(OP, "gated_add_bf16", Grid::per_group(count, to.width), &arguments);
        }
        let arguments =
            [argument(&from), argument(&gate), argument(&pick), argument(&to), argument(&count), argument(&product)];
        self.each(OP, "gated_add", (to, count), &arguments)
    }

    pub(super) fn swiglu_of(&self, x: X<'_>, order: GateOrder, y: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "swiglu";
        let (count, width) = (y.len_rows(), y.width());
        y.expect_shape(OP, "y", &[count, width])?;
        x.expect_shape(OP, "x", &[count, 2 * width])?;
        let (from, _) = input(OP, "x", &x)?;
        let (to, count) = output(OP, "y", &y)?;
        let (gate, up) = match order {
            GateOrder::GateFirst => (0, to.width),
            GateOrder::UpFirst => (to.width, 0),
        };
        if count > 0 && [&from, &to].iter().all(|rows| rows.is_in_eights()) {
            let arguments = [argument(&from), argument(&to), argument(&gate), argument(&up)];
            return self.launch(OP, "swiglu_bf16", Grid::per_group(count, to.width), &arguments);
        }
        let arguments = [argument(&from), argument(&to), argument(&count), argument(&gate), argument(&up)];
        self.each(OP, "swiglu", (to, count), &arguments)
    }

    pub(super) fn euler_step_of(&self, v: X<'_>, timestep: f32, ratio: f32, x: Y<'_>) -> Result<(), OpError> {
        const OP: &str = "euler_step";
        x.expect_shape(OP, "x", v.shape())?;
        if x.dtype() != DType::F32 {
            return Err(OpError::DType { op: OP, name: "x", actual: x.dtype() });
        }
        let (from, _) = input(OP, "v", &v)?;
        let (to, count) = output(OP, "x", &x)?;
        let arguments = [argument(&from), argument(&to), argument(&count), argument(&timestep), argument(&ratio)];
        self.each(OP, "euler_step", (to, count), &arguments)
    }
}
