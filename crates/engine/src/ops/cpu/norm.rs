//! Norms, modulation and per-head rotation.

use super::buffer::{HostBuffer, float_rows, float_rows_mut, index_slice, load_all, round, rounded};
use crate::ops::{Modulation, NormRounding, OpError, Rotary, View, ViewMut};

/// `1 / √(mean x² + eps)`, summed in F32 by eight interleaved partial sums as vector units do.
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    let mut partial = [0.0f32; 8];
    let chunks = x.chunks_exact(8);
    let rest: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (sum, v) in partial.iter_mut().zip(chunk) {
            *sum += v * v;
        }
    }
    let sum: f32 = partial.iter().sum::<f32>() + rest;
    1.0 / (sum / x.len() as f32 + eps).sqrt()
}

pub(super) fn rms_norm(
    x: View<'_, HostBuffer>,
    weight: View<'_, HostBuffer>,
    eps: f32,
    rounding: NormRounding,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "rms_norm";
    y.expect_shape(OP, "y", x.shape())?;
    weight.expect_shape(OP, "weight", &[x.width()])?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let weight = load_all(OP, "weight", &weight)?;
    let mut row = vec![0.0; x_rows.width];
    for index in 0..x_rows.count {
        x.buffer.load(x_rows.offset(index), &mut row);
        let scale = inverse_rms(&row, eps);
        for (v, w) in row.iter_mut().zip(&weight) {
            *v = match rounding {
                NormRounding::Once => *v * scale * w,
                NormRounding::BeforeWeight => rounded(y.dtype(), *v * scale) * w,
            };
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn layer_norm(
    x: View<'_, HostBuffer>,
    weight: View<'_, HostBuffer>,
    bias: View<'_, HostBuffer>,
    eps: f32,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "layer_norm";
    y.expect_shape(OP, "y", x.shape())?;
    weight.expect_shape(OP, "weight", &[x.width()])?;
    bias.expect_shape(OP, "bias", &[x.width()])?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let (weight, bias) = (load_all(OP, "weight", &weight)?, load_all(OP, "bias", &bias)?);
    let mut row = vec![0.0; x_rows.width];
    for index in 0..x_rows.count {
        x.buffer.load(x_rows.offset(index), &mut row);
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / row.len() as f32;
        let scale = 1.0 / (variance + eps).sqrt();
        for ((v, w), b) in row.iter_mut().zip(&weight).zip(&bias) {
            *v = (*v - mean) * scale * w + b;
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn rms_norm_modulate(
    x: View<'_, HostBuffer>,
    weight: View<'_, HostBuffer>,
    eps: f32,
    modulation: Modulation<'_, HostBuffer>,
    y: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "rms_norm_modulate";
    let (rows, width) = (x.len_rows(), x.width());
    let table_rows = modulation.shift.len_rows();
    x.expect_shape(OP, "x", &[rows, width])?;
    y.expect_shape(OP, "y", &[rows, width])?;
    weight.expect_shape(OP, "weight", &[width])?;
    modulation.shift.expect_shape(OP, "shift", &[table_rows, width])?;
    modulation.scale.expect_shape(OP, "scale", &[table_rows, width])?;
    modulation.rows.expect_shape(OP, "rows", &[rows])?;
    let indices = index_slice(OP, "rows", &modulation.rows)?;
    check_indices(OP, indices, table_rows)?;
    let (x_rows, y_rows) = (float_rows(OP, "x", &x)?, float_rows_mut(OP, "y", &y)?);
    let weight = load_all(OP, "weight", &weight)?;
    let shift = load_all(OP, "shift", &modulation.shift)?;
    let mut scale = load_all(OP, "scale", &modulation.scale)?;
    scale.iter_mut().for_each(|s| *s += 1.0);
    round(y.dtype(), &mut scale);

    let mut row = vec![0.0; width];
    for (index, &entry) in indices.iter().enumerate() {
        x.buffer.load(x_rows.offset(index), &mut row);
        let inverse = inverse_rms(&row, eps);
        let entry = entry as usize * width..(entry as usize + 1) * width;
        for (((v, w), scale), shift) in row.iter_mut().zip(&weight).zip(&scale[entry.clone()]).zip(&shift[entry]) {
            let normed = rounded(y.dtype(), *v * inverse * w);
            *v = rounded(y.dtype(), normed * scale) + shift;
        }
        y.buffer.store(y_rows.offset(index), &row);
    }
    Ok(())
}

pub(super) fn norm_rotate_heads(
    weight: Option<View<'_, HostBuffer>>,
    eps: f32,
    rounding: NormRounding,
    rotary: Option<Rotary<'_, HostBuffer>>,
    x: ViewMut<'_, HostBuffer>,
) -> Result<(), OpError> {
    const OP: &str = "norm_rotate_heads";
    let &[rows, heads, head_dim] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
    };
    let dtype = x.dtype();
    let weight = match weight {
        Some(weight) => {
            weight.expect_shape(OP, "weight", &[head_dim])?;
            Some(load_all(OP, "weight", &weight)?)
        }
        None => None,
    };
    let tables = match &rotary {
        Some(rotary) => {
            let width = rotary.cos.width();
            if width > head_dim || width % 2 != 0 {
                return Err(OpError::Shape {
                    op: OP,
                    name: "cos",
                    expected: vec![rows, head_dim],
                    actual: rotary.cos.shape().to_vec(),
                });
            }
            rotary.cos.expect_shape(OP, "cos", &[rows, width])?;
            rotary.sin.expect_shape(OP, "sin", &[rows, width])?;
            let (mut cos, mut sin) = (load_all(OP, "cos", &rotary.cos)?, load_all(OP, "sin", &rotary.sin)?);
            round(dtype, &mut cos);
            round(dtype, &mut sin);
            Some((width, cos, sin))
        }
        None => None,
    };
    let x_rows = float_rows_mut(OP, "x", &x)?;
    let mut head = vec![0.0; head_dim];
    let mut turned = vec![0.0; head_dim];
    for index in 0..rows * heads {
        let offset = x_rows.offset(index);
        x.buffer.load(offset, &mut head);
        let scale = inverse_rms(&head, eps);
        for (channel, v) in head.iter_mut().enumerate() {
            let w = weight.as_ref().map_or(1.0, |weight| weight[channel]);
            *v = match rounding {
                NormRounding::Once => rounded(dtype, *v * scale * w),
                NormRounding::BeforeWeight => rounded(dtype, rounded(dtype, *v * scale) * w),
            };
        }
        if let Some((width, cos, sin)) = &tables {
            let (width, half) = (*width, *width / 2);
            let row = index / heads * width;
            for channel in 0..width {
                let partner = if channel < half { -head[channel + half] } else { head[channel - half] };
                turned[channel] =
                    rounded(dtype, head[channel] * cos[row + channel]) + rounded(dtype, partner * sin[row + channel]);
            }
            head[..width].copy_from_slice(&turned[..width]);
        }
        x.buffer.store(offset, &head);
    }
    Ok(())
}

pub(super) fn rotate_heads(rotary: Rotary<'_, HostBuffer>, x: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    const OP: &str = "rotate_heads";
    let &[rows, heads, head_dim] = x.shape() else {
        return Err(OpError::Shape { op: OP, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
    };
    let width = rotary.cos.width();
    if width > head_dim || !width.is_multiple_of(2) {
        let actual = rotary.cos.shape().to_vec();
        return Err(OpError::Shape { op: OP, name: "cos", expected: vec![rows, head_dim], actual });
    }
    rotary.cos.expect_shape(OP, "cos", &[rows, width])?;
    rotary.sin.expect_shape(OP, "sin", &[rows, width])?;
    let (cos, sin) = (load_all(OP, "cos", &rotary.cos)?, load_all(OP, "sin", &rotary.sin)?);
    let x_rows = float_rows_mut(OP, "x", &x)?;
    let (mut head, mut turned) = (vec![0.0; head_dim], vec![0.0; width]);
    for index in 0..rows * heads {
        let offset = x_rows.offset(index);
        x.buffer.load(offset, &mut head);
        let row = index / heads * width;
        let (cos, sin) = (&cos[row..row + width], &sin[row..row + width]);
        for (channel, turned) in turned.iter_mut().enumerate() {
            let half = width / 2;
            let partner = if channel < half { -head[channel + half] } else { head[channel - half] };
            *turned = head[channel] * cos[channel] + partner * sin[channel];
        }
        head[..width].copy_from_slice(&turned);
        x.buffer.store(offset, &head);
    }
    Ok(())
}

/// Checks that every index is a row of a table.
pub(super) fn check_indices(op: &'static str, indices: &[u32], rows: usize) -> Result<(), OpError> {
    match indices.iter().find(|index| **index as usize >= rows) {
        Some(index) => Err(OpError::Index { op, index: *index as usize, rows }),
        None => Ok(()),
    }
}
