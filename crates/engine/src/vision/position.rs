//! Where patches stand: interpolated learned positions, and rotary tables over height and width.
//!
//! Source: transformers 5.24.0 `get_vision_interpolation_indices_and_weights` and `Qwen3VLVisionRotaryEmbedding`.

use super::patches::PatchGrid;
use crate::checkpoint::VisionConfig;

/// Table rows that one patch's position is mixed of.
pub(crate) const TAPS: usize = 4;

/// Which rows of the learned table each patch of one frame mixes, and with which weights; `[patches, TAPS]` each.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PositionTaps {
    pub(super) rows: Vec<u32>,
    pub(super) weights: Vec<f32>,
}

/// Cosines and sines of each patch, `[patches, head_dim]`, both halves of a row equal.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PatchRotary {
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
}

/// Two neighbours on one axis of a table of `side` rows, with their weights, for patch `index` of `length`: the first
/// and last patch stand on the table's first and last row.
fn axis_taps(index: usize, length: usize, side: usize) -> [(usize, f32); 2] {
    let source = index as f32 * (side - 1) as f32 / length.saturating_sub(1).max(1) as f32;
    let floor = source.floor();
    [0.0f32, 1.0].map(|offset| {
        let weight = (1.0 - (source - floor - offset).abs()).max(0.0);
        ((floor as usize + offset as usize).min(side - 1), weight)
    })
}

impl PositionTaps {
    /// Adds the patches of one frame of `grid`.
    pub(super) fn push_frame(&mut self, grid: PatchGrid, config: &VisionConfig) {
        let side = config.num_position_embeddings.isqrt();
        for index in 0..grid.rows_per_frame() {
            let [row, column] = grid.place(config.spatial_merge_size, index);
            for (y, y_weight) in axis_taps(row, grid.height, side) {
                for (x, x_weight) in axis_taps(column, grid.width, side) {
                    self.rows.push((y * side + x) as u32);
                    self.weights.push(y_weight * x_weight);
                }
            }
        }
    }
}

impl PatchRotary {
    /// Adds the patches of one frame of `grid`: a quarter of a row turns with the patch's row, the next with its
    /// column, then both again.
    pub(super) fn push_frame(&mut self, grid: PatchGrid, config: &VisionConfig) {
        let per_axis = config.head_dim() / 2;
        let inverse: Vec<f32> = (0..per_axis)
            .step_by(2)
            .map(|index| 1.0 / (config.rope_theta as f32).powf(index as f32 / per_axis as f32))
            .collect();
        for index in 0..grid.rows_per_frame() {
            let place = grid.place(config.spatial_merge_size, index);
            for position in [place, place].concat() {
                let angles = inverse.iter().map(|inverse| position as f32 * inverse);
                let (cos, sin): (Vec<f32>, Vec<f32>) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
                self.cos.extend(cos);
                self.sin.extend(sin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::TextEncoderConfig;

    #[test]
    fn corners_stand_on_corners_and_the_middle_between() {
        assert_eq!(axis_taps(0, 4, 48), [(0, 1.0), (1, 0.0)]);
        assert_eq!(axis_taps(3, 4, 48), [(47, 1.0), (47, 0.0)]);
        assert_eq!(axis_taps(1, 3, 48), [(23, 0.5), (24, 0.5)]);
        assert_eq!(axis_taps(0, 1, 48), [(0, 1.0), (1, 0.0)]);
    }

    #[test]
    fn rows_turn_one_half_and_columns_the_other() {
        let config = TextEncoderConfig::released().vision;
        let mut rotary = PatchRotary::default();
        rotary.push_frame(PatchGrid { frames: 1, height: 2, width: 2 }, &config);
        assert_eq!((config.head_dim(), rotary.cos.len()), (72, 4 * 72));
        // The second patch stands in row 0, column 1.
        let sin = &rotary.sin[72..144];
        assert!(sin[..18].iter().all(|sin| *sin == 0.0) && sin[18..36].iter().all(|sin| *sin != 0.0));
        assert_eq!(sin[..36], sin[36..]);
        assert_eq!((rotary.cos[72 + 18], sin[18]), (1.0f32.cos(), 1.0f32.sin()));
    }

    proptest! {
        #[test]
        fn weights_of_a_patch_sum_to_one(height in 1usize..40, width in 1usize..40) {
            let config = TextEncoderConfig::released().vision;
            let mut taps = PositionTaps::default();
            let grid = PatchGrid { frames: 3, height: 2 * height, width: 2 * width };
            taps.push_frame(grid, &config);
            prop_assert_eq!(taps.rows.len(), TAPS * grid.rows_per_frame());
            prop_assert!(taps.rows.iter().all(|row| (*row as usize) < config.num_position_embeddings));
            for weights in taps.weights.chunks_exact(TAPS) {
                prop_assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            }
        }
    }
}
