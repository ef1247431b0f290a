//! Rotary angles of the packed sequence.

use crate::ops::{DType, OpError, Ops, Rotary, Tensor};

/// Cosines and sines of every row, on the device.
pub(super) struct RotaryTables<B> {
    cos: Tensor<B>,
    sin: Tensor<B>,
}

impl<B> RotaryTables<B> {
    /// Uploads `[rows, width]` tables.
    pub(super) fn upload<O: Ops<Buffer = B>>(ops: &O, rows: usize, cos: &[f32], sin: &[f32]) -> Result<Self, OpError> {
        let upload = |values: &[f32]| {
            let mut table = ops.alloc(DType::F32, [rows, values.len() / rows.max(1)].into())?;
            ops.write(values, table.view_mut())?;
            Ok(table)
        };
        Ok(Self { cos: upload(cos)?, sin: upload(sin)? })
    }

    /// What the operation takes.
    pub(super) fn view(&self) -> Rotary<'_, B> {
        Rotary { cos: self.cos.view(), sin: self.sin.view() }
    }
}

/// Cosines and sines `[rows, 6 · freqs]` of positions `(t, h, w)`.
///
/// Each axis gives `freqs` angles `p · theta^(−i/freqs)`; the three follow one another and then repeat, so that
/// rotating by halves turns `6 · freqs` channels. Positions are F64 in the layout and are rounded to F32 first, as the
/// reference does.
pub(super) fn rotary_tables(positions: &[[f64; 3]], freqs: usize, theta: f64) -> (Vec<f32>, Vec<f32>) {
    let inverse: Vec<f32> =
        (0..freqs).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / (2 * freqs) as f32)).collect();
    let width = 6 * freqs;
    let (mut cos, mut sin) = (Vec::with_capacity(positions.len() * width), Vec::with_capacity(positions.len() * width));
    for position in positions {
        let angles: Vec<f32> =
            position.iter().flat_map(|axis| inverse.iter().map(move |inverse| *axis as f32 * inverse)).collect();
        for _half in 0..2 {
            cos.extend(angles.iter().map(|angle| angle.cos()));
            sin.extend(angles.iter().map(|angle| angle.sin()));
        }
    }
    (cos, sin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_hold_the_same_angles_axis_by_axis() {
        let (cos, sin) = rotary_tables(&[[1.0, 2.0, 0.0]], 2, 10_000.0);
        assert_eq!(cos[..6], cos[6..]);
        assert_eq!(sin[..6], sin[6..]);
        assert_eq!((cos[0], cos[2], cos[4]), (1f32.cos(), 2f32.cos(), 1.0));
        assert_eq!(sin[1], 0.01f32.sin());
    }
}
