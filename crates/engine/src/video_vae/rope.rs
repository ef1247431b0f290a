//! Rotary tables of a clip of a tile.

use std::f32::consts::TAU;

/// Cosines and sines, each `[tokens + suffix, rotary_dim]` row major, for a token grid `[t, h, w]` followed by `suffix`
/// tokens at position 0.
///
/// Positions run over each axis of the tile itself, from -1 to 1: token `i` of `n` sits at `2(i + 1/2)/n - 1`. Each
/// axis has `rotary_dim / 6` frequencies `theta^(-6j/rotary_dim)` of a full turn; the three axes lie side by side,
/// twice.
///
/// Source: diffusers 0.42.1 `MiniMaxH3VideoRotaryPosEmbed`, in F32 as there.
pub fn rotary_tables(grid: [usize; 3], suffix: usize, rotary_dim: usize, theta: f64) -> (Vec<f32>, Vec<f32>) {
    let per_axis = rotary_dim / 6;
    let frequencies: Vec<f32> =
        (0..per_axis).map(|j| 1.0 / (theta as f32).powf((j as f64 * 6.0 / rotary_dim as f64) as f32)).collect();
    let position = |index: usize, size: usize| 2.0 * ((index as f32 + 0.5) / size as f32) - 1.0;
    let [frames, height, width] = grid;
    let rows = frames * height * width + suffix;
    let (mut cos, mut sin) = (Vec::with_capacity(rows * rotary_dim), Vec::with_capacity(rows * rotary_dim));
    for row in 0..rows {
        let positions = if row < rows - suffix {
            [
                position(row / (height * width), frames),
                position(row / width % height, height),
                position(row % width, width),
            ]
        } else {
            [0.0; 3]
        };
        for _half in 0..2 {
            for position in positions {
                for frequency in &frequencies {
                    let angle = TAU * position * frequency;
                    cos.push(angle.cos());
                    sin.push(angle.sin());
                }
            }
        }
    }
    (cos, sin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffix_tokens_do_not_turn() {
        let (cos, sin) = rotary_tables([1, 2, 1], 1, 12, 100.0);
        assert_eq!(cos.len(), 3 * 12);
        assert_eq!(cos[24..], [1.0; 12]);
        assert_eq!(sin[24..], [0.0; 12]);
        // One frame and one column: their positions are 0 as well, only h turns.
        assert_eq!(sin[0..2], [0.0; 2]);
        assert!((sin[2] - (-0.5 * TAU).sin()).abs() < 1e-6 && (sin[3] - (-0.05 * TAU).sin()).abs() < 1e-6);
        assert_eq!(sin[..6], sin[6..12]);
    }
}
