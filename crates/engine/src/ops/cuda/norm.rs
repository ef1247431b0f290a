//! Norms, modulation and per-head rotation.

use super::Cuda;
use super::buffer::{CudaBuffer, picks};
use super::elementwise::activation_code;
use super::kernels::{Grid, argument};
use super::rows::{Rows, input, output, small};
use crate::ops::{Activation, GroupNorm, Modulation, NormRounding, OpError, Rotary, View, ViewMut};

type X<'a> = View<'a, CudaBuffer>;
type Y<'a> = ViewMut<'a, CudaBuffer>;

/// The widest row that the fused norm keeps in registers; mirrors `fused_bf16.cuh`.
const FUSED_MOST_WIDTH: u32 = 256 * 4 * 8;

/// The width of heads whose fused kernel there is.
const FUSED_HEAD: u32 = 128;

impl Cuda {
    pub(super) fn rms_norm_of(
        &self,
        x: X<'_>,
        weight: X<'_>,
        eps: f32,
        rounding: NormRounding,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "rms_norm";
        y.expect_shape(OP, "y", x.shape())?;
        weight.expect_shape(OP, "weight", &[x.width()])?;
        let ((from, _), (weight, _)) = (input(OP, "x", &x)?, input(OP, "weight", &weight)?);
        let (to, count) = output(OP, "y", &y)?;
        if count == 0 {
            return Ok(());
        }
        let before_weight = u32::from(rounding == NormRounding::BeforeWeight);
        let arguments = [argument(&from), argument(&weight), argument(&eps), argument(&before_weight), argument(&to)];
        self.launch(OP, "rms_norm", Grid::per_row(count, to.width), &arguments)
    }

    pub(super) fn layer_norm_of(
        &self,
        x: X<'_>,
        weight: X<'_>,
        bias: X<'_>,
        eps: f32,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "layer_norm";
        y.expect_shape(OP, "y", x.shape())?;
        weight.expect_shape(OP, "weight", &[x.width()])?;
        bias.expect_shape(OP, "bias", &[x.width()])?;
        let ((from, _), (weight, _), (bias, _)) =
            (input(OP, "x", &x)?, input(OP, "weight", &weight)?, input(OP, "bias", &bias)?);
        let (to, count) = output(OP, "y", &y)?;
        if count == 0 {
            return Ok(());
        }
        let arguments = [argument(&from), argument(&weight), argument(&bias), argument(&eps), argument(&to)];
        self.launch(OP, "layer_norm", Grid::per_row(count, to.width), &arguments)
    }

    pub(super) fn rms_norm_modulate_of(
        &self,
        x: X<'_>,
        weight: X<'_>,
        eps: f32,
        modulation: Modulation<'_, CudaBuffer>,
        y: Y<'_>,
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
        let pick = picks(OP, "rows", &modulation.rows, table_rows)?;
        let ((from, _), (weight, _)) = (input(OP, "x", &x)?, input(OP, "weight", &weight)?);
        let ((shift, _), (scale, _)) = (input(OP, "shift", &modulation.shift)?, input(OP, "scale", &modulation.scale)?);
        let (to, count) = output(OP, "y", &y)?;
        if count == 0 {
            return Ok(());
        }
        let arguments = [
            argument(&from),
            argument(&weight),
            argument(&eps),
            argument(&shift),
            argument(&scale),
            argument(&pick.address),
            argument(&to),
        ];
        let eights = [&from, &shift, &scale, &to].iter().all(|rows| rows.is_in_eights());
        let weights = weight.is_in_eights() || weight.dtype != from.dtype;
        if eights && weights && to.width <= FUSED_MOST_WIDTH {
            let grid = Grid { blocks: (count, 1), threads: (256, 1), shared_bytes: 0 };
            return self.launch(OP, "rms_norm_modulate_bf16", grid, &arguments);
        }
        self.launch(OP, "rms_norm_modulate", Grid::per_row(count, to.width), &arguments)
    }

    pub(super) fn norm_rotate_heads_of(
        &self,
        weight: Option<X<'_>>,
        eps: f32,
        rounding: NormRounding,
        rotary: Option<Rotary<'_, CudaBuffer>>,
        x: Y<'_>,
    ) -> Result<(), OpError> {
        self.heads("norm_rotate_heads", weight, Some((eps, rounding)), rotary, x)
    }

    pub(super) fn rotate_heads_of(&self, rotary: Rotary<'_, CudaBuffer>, x: Y<'_>) -> Result<(), OpError> {
        self.heads("rotate_heads", None, None, Some(rotary), x)
    }

    /// Both operations on heads; without `norm` they are only turned.
    fn heads(
        &self,
        op: &'static str,
        weight: Option<X<'_>>,
        norm: Option<(f32, NormRounding)>,
        rotary: Option<Rotary<'_, CudaBuffer>>,
        x: Y<'_>,
    ) -> Result<(), OpError> {
        let &[rows, heads, head_dim] = x.shape() else {
            return Err(OpError::Shape { op, name: "x", expected: vec![0, 0, 0], actual: x.shape().to_vec() });
        };
        let weight_rows = match &weight {
            Some(weight) => {
                weight.expect_shape(op, "weight", &[head_dim])?;
                input(op, "weight", weight)?.0
            }
            None => Rows::absent(),
        };
        let (mut cosines, mut sines) = (Rows::absent(), Rows::absent());
        if let Some(rotary) = &rotary {
            let width = rotary.cos.width();
            if width > head_dim || width % 2 != 0 {
                let actual = rotary.cos.shape().to_vec();
                return Err(OpError::Shape { op, name: "cos", expected: vec![rows, head_dim], actual });
            }
            rotary.cos.expect_shape(op, "cos", &[rows, width])?;
            rotary.sin.expect_shape(op, "sin", &[rows, width])?;
            (cosines, _) = input(op, "cos", &rotary.cos)?;
            (sines, _) = input(op, "sin", &rotary.sin)?;
        }
        let (to, count) = output(op, "x", &x)?;
        if count == 0 {
            return Ok(());
        }
        const WARPS: u32 = 8;
        let shared_bytes = WARPS * to.width * 4;
        if shared_bytes > super::kernels::MOST_SHARED_BYTES {
            let actual = x.shape().to_vec();
            return Err(OpError::Shape { op, name: "x", expected: vec![rows, heads, 3168], actual });
        }
        let (rows, heads) = (small(op, "x", rows)?, small(op, "x", heads)?);
        let (eps, rounding) = norm.unwrap_or((0.0, NormRounding::Once));
        let before_weight = u32::from(rounding == NormRounding::BeforeWeight);
        let (has_weight, rotates, norms) =
            (u32::from(weight.is_some()), u32::from(rotary.is_some()), u32::from(norm.is_some()));
        let turned = cosines.width.is_multiple_of(8) && cosines.width <= FUSED_HEAD;
        if norm.is_some() && to.width == FUSED_HEAD && to.is_in_groups_of_four() && turned {
            let grid = Grid { blocks: (rows.min(1 << 18), 1), threads: (32, WARPS), shared_bytes: 0 };
            let arguments = [
                argument(&weight_rows),
                argument(&has_weight),
                argument(&eps),
                argument(&before_weight),
                argument(&cosines),
                argument(&sines),
                argument(&to),
                argument(&rows),
                argument(&heads),
            ];
            return self.launch(op, "norm_rotate_heads_bf16", grid, &arguments);
        }
        let grid = Grid { blocks: (count.div_ceil(WARPS).min(1 << 18), 1), threads: (32, WARPS), shared_bytes };
        let arguments = [
            argument(&weight_rows),
            argument(&has_weight),
            argument(&eps),
            argument(&before_weight),
            argument(&cosines),
            argument(&sines),
            argument(&rotates),
            argument(&norms),
            argument(&to),
            argument(&rows),
            argument(&heads),
        ];
        self.launch(op, "norm_rotate_heads", grid, &arguments)
    }

    pub(super) fn group_norm_of(
        &self,
        norm: GroupNorm<'_, CudaBuffer>,
        activation: Option<Activation>,
        x: X<'_>,
        y: Y<'_>,
    ) -> Result<(), OpError> {
        const OP: &str = "group_norm";
        let &[channels, frames, pixels] = x.shape() else {
            return Err(OpError::Shape { op: OP, name: "x", expected: vec![0; 3], actual: x.shape().to_vec() });
        };
        y.expect_shape(OP, "y", &[channels, frames, pixels])?;
        norm.weight.expect_shape(OP, "weight", &[channels])?;
        norm.bias.expect_shape(OP, "bias", &[channels])?;
        if norm.groups == 0 || !channels.is_multiple_of(norm.groups) || pixels == 0 {
            let expected = vec![channels.next_multiple_of(norm.groups.max(1)), frames, pixels.max(1)];
            return Err(OpError::Shape { op: OP, name: "x", expected, actual: vec![channels, frames, pixels] });
        }
        let ((from, _), (to, count)) = (input(OP, "x", &x)?, output(OP, "y", &y)?);
        let ((weight, _), (bias, _)) = (input(OP, "weight", &norm.weight)?, input(OP, "bias", &norm.bias)?);
        if count == 0 {
            return Ok(());
        }
        let (groups, width) = (small(OP, "x", norm.groups)?, small(OP, "x", channels / norm.groups)?);
        let (frames, kind) = (small(OP, "x", frames)?, activation_code(activation));
        let grid = Grid { blocks: (frames, groups), threads: (512, 1), shared_bytes: 0 };
        let arguments = [
            argument(&from),
            argument(&weight),
            argument(&bias),
            argument(&to),
            argument(&frames),
            argument(&width),
            argument(&norm.eps),
            argument(&kind),
        ];
        self.launch(OP, "group_norm", grid, &arguments)
    }
}
