//! Element-wise operations and row moves.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use candle_core::cpu::erf::erf_f32;

use super::buffer::{HostBuffer, float_rows, float_rows_mut, index_slice, load_all, rounded};
use super::norm::check_indices;
use crate::ops::{Activation, DType, GateOrder, OpError, View, ViewMut};

pub(super) fn cast(x: View<'_, HostBuffer>, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    map_rows("cast", x, y, |_| {})
}

pub(super) fn activate(
    activation: Activation,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    map_rows("activate", x, y, |row| activate_row(activation, row))
}

/// Applies an activation to every value.
pub(super) fn activate_row(activation: Activation, row: &mut [f32]) {
    match activation {
        Activation::Silu => row.iter_mut().for_each(|v| *v = silu(*v)),
        Activation::Gelu => row.iter_mut().for_each(|v| *v = gelu(*v)),
        Activation::GeluTanh => row.iter_mut().for_each(|v| *v = gelu_tanh(*v)),
    }
}

/// Reads each row of `x`, lets `change` edit it, and stores it in `y`.
fn map_rows(
    op: &'static str,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
    change: impl Fn(&mut [f32]),
) -> Result<(), OpError> {
    y.expect_shape(op, "y", x.shape())?;
    let (x_rows, y_rows) = (float_rows(op, "x", &x)?, float_rows_mut(op, "y", &y)?);
    let mut row = vec![0.0; x_rows.width];
    for index in 0..x_rows.count {
        x.buffer.load(x_rows.offset(index), &mut row);
        change(&mut row);
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf_f32(x * FRAC_1_SQRT_2))
}

fn gelu_tanh(x: f32) -> f32 {
    let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

pub(super) fn add(x: View<'_, HostBuffer>, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    combine_rows("add", x, y, |v, x| *v += x)
}

pub(super) fn multiply(x: View<'_, HostBuffer>, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    combine_rows("multiply", x, y, |v, x| *v *= x)
}

/// Lets `combine` change every value of `y` by the one of `x` in its place.
fn combine_rows(
    op: &'static str,
    x: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
    combine: impl Fn(&mut f32, f32),
) -> Result<(), OpError> {
    y.expect_shape(op, "y", x.shape())?;
    let (x_rows, y_rows) = (float_rows(op, "x", &x)?, float_rows_mut(op, "y", &y)?);
    let (mut other, mut row) = (vec![0.0; x_rows.width], vec![0.0; x_rows.width]);
    for index in 0..x_rows.count {
        x.buffer.load(x_rows.offset(index), &mut other);
        y.buffer.load(y_rows.offset(index), &mut row);
        for (v, x) in row.iter_mut().zip(&other) {
            combine(v, *x);
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn gated_add(
    x: View<'_, HostBuffer>,
    gate: View<'_, HostBuffer>,
    rows: Option<View<'_, HostBuffer>>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "gated_add";
    let (count, width, table_rows) = (x.len_rows(), x.width(), gate.len_rows());
    x.expect_shape(OP, "x", &[count, width])?;
    y.expect_shape(OP, "y", &[count, width])?;
    gate.expect_shape(OP, "gate", &[table_rows, width])?;
    let indices = match &rows {
        Some(rows) => {
            rows.expect_shape(OP, "rows", &[count])?;
            Some(index_slice(OP, "rows", rows)?)
        }
        None => None,
    };
    check_indices(OP, indices.unwrap_or(&[0]), table_rows)?;
    let product_dtype = if x.dtype() == gate.dtype() { x.dtype() } else { DType::F32 };
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let gate = load_all(OP, "gate", &gate)?;
    let (mut branch, mut row) = (vec![0.0; width], vec![0.0; width]);
    for index in 0..count {
        x.buffer.load(x_rows.offset(index), &mut branch);
        y.buffer.load(y_rows.offset(index), &mut row);
        let entry = indices.map_or(0, |indices| indices[index] as usize) * width;
        for ((v, x), gate) in row.iter_mut().zip(&branch).zip(&gate[entry..entry + width]) {
            *v += rounded(product_dtype, gate * x);
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn swiglu(x: View<'_, HostBuffer>, order: GateOrder, y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    const OP: &str = "swiglu";
    let (count, width) = (y.len_rows(), y.width());
    y.expect_shape(OP, "y", &[count, width])?;
    x.expect_shape(OP, "x", &[count, 2 * width])?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let mut both = vec![0.0; 2 * width];
    for index in 0..count {
        x.buffer.load(x_rows.offset(index), &mut both);
        let (first, second) = both.split_at_mut(width);
        let (gate, up) = match order {
            GateOrder::GateFirst => (first, second),
            GateOrder::UpFirst => (second, first),
        };
        for (gate, up) in gate.iter_mut().zip(up.iter()) {
            *gate = rounded(x.dtype(), silu(*gate)) * up;
        }
        y.buffer.store(y_rows.offset(index), gate);
    }
    Ok(())
}

pub(super) fn gather_rows(
    table: View<'_, HostBuffer>,
    indices: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "gather_rows";
    let picks = index_slice(OP, "indices", &indices)?;
    y.expect_shape(OP, "y", &[picks.len(), table.width()])?;
    check_indices(OP, picks, table.len_rows())?;
    let (from, to) = (float_rows(OP, "table", &table)?, float_rows_mut(OP, "y", &y)?);
    let mut row = vec![0.0; from.width];
    for (index, pick) in picks.iter().enumerate() {
        table.buffer.load(from.offset(*pick as usize), &mut row);
        y.buffer.store(to.offset(index), &row);
    }
    Ok(())
}

pub(super) fn mix_rows(
    table: View<'_, HostBuffer>,
    indices: View<'_, HostBuffer>,
    weights: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "mix_rows";
    let (rows, taps) = (weights.len_rows(), weights.width());
    weights.expect_shape(OP, "weights", &[rows, taps.max(1)])?;
    indices.expect_shape(OP, "indices", &[rows * taps])?;
    y.expect_shape(OP, "y", &[rows, table.width()])?;
    let picks = index_slice(OP, "indices", &indices)?;
    check_indices(OP, picks, table.len_rows())?;
    let weights = load_all(OP, "weights", &weights)?;
    let (from, to) = (float_rows(OP, "table", &table)?, float_rows_mut(OP, "y", &y)?);
    let (mut tap, mut sum) = (vec![0.0; from.width], vec![0.0; from.width]);
    for (index, (picks, weights)) in picks.chunks_exact(taps).zip(weights.chunks_exact(taps)).enumerate() {
        sum.fill(0.0);
        for (pick, weight) in picks.iter().zip(weights) {
            table.buffer.load(from.offset(*pick as usize), &mut tap);
            for (sum, tap) in sum.iter_mut().zip(&tap) {
                *sum += tap * weight;
            }
        }
        y.buffer.store(to.offset(index), &sum);
    }
    Ok(())
}

pub(super) fn scatter_rows(
    x: View<'_, HostBuffer>,
    indices: View<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "scatter_rows";
    let places = index_slice(OP, "indices", &indices)?;
    x.expect_shape(OP, "x", &[places.len(), y.width()])?;
    check_indices(OP, places, y.len_rows())?;
    let (from, to) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let mut row = vec![0.0; from.width];
    for (index, place) in places.iter().enumerate() {
        x.buffer.load(from.offset(index), &mut row);
        y.buffer.store(to.offset(*place as usize), &row);
    }
    Ok(())
}

pub(super) fn euler_step(
    v: View<'_, HostBuffer>,
    timestep: f32,
    ratio: f32,
    x: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "euler_step";
    x.expect_shape(OP, "x", v.shape())?;
    if x.dtype() != DType::F32 {
        return Err(OpError::DType { op: OP, name: "x", actual: x.dtype() });
    }
    let (v_rows, x_rows) = (float_rows(OP, "v", &v)?, float_rows_mut(OP, "x", &x)?);
    let (mut velocity, mut row) = (vec![0.0; v_rows.width], vec![0.0; v_rows.width]);
    for index in 0..x_rows.count {
        v.buffer.load(v_rows.offset(index), &mut velocity);
        x.buffer.load(x_rows.offset(index), &mut row);
        for (x, v) in row.iter_mut().zip(&velocity) {
            let clean = *x + (1.0 - timestep) * v;
            *x = ratio * *x + (1.0 - ratio) * clean;
        }
        x.buffer.store(x_rows.offset(index), &row);
    }
    Ok(())
}
