//! Conditions as the transformer sees them: rows that no step changes.

use clapboard_h3::packing::CONDITION_TIMESTEP;

use super::patchify;
use crate::video_vae::ConditionLatents;

/// The rows before the target's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConditionRows {
    /// Noised rows of all visual conditions in packed order, `[rows, 4 · channels]`.
    pub video: Vec<f32>,
    /// Clean rows of all sounds in packed order, `[rows, channels]`.
    pub audio: Vec<f32>,
}

impl ConditionRows {
    /// Mixes a little noise into the visual conditions, as much as their timestep says; sounds stay clean.
    ///
    /// `noise` has the latents' shape for each of `visual`; `audio` holds the rows of all sounds.
    pub fn new(visual: &[ConditionLatents], noise: &[Vec<f32>], audio: Vec<f32>) -> Self {
        assert_eq!(visual.len(), noise.len(), "every condition has its noise");
        let rows = visual
            .iter()
            .zip(noise)
            .flat_map(|(condition, noise)| patchify(condition.shape, &noised(&condition.values, noise)));
        Self { video: rows.collect(), audio }
    }
}

fn noised(clean: &[f32], noise: &[f32]) -> Vec<f32> {
    clean
        .iter()
        .zip(noise)
        .map(|(clean, noise)| CONDITION_TIMESTEP * clean + (1.0 - CONDITION_TIMESTEP) * noise)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::LatentShape;

    #[test]
    fn a_thousandth_of_a_condition_is_noise() {
        let shape = LatentShape { channels: 1, frames: 1, height: 2, width: 2 };
        let condition = ConditionLatents { shape, values: vec![1.0, 2.0, 3.0, 4.0] };
        let rows = ConditionRows::new(&[condition], &[vec![1000.0; 4]], vec![7.0]);
        for (row, expected) in rows.video.iter().zip([1.999, 2.998, 3.997, 4.996]) {
            assert!((row - expected).abs() < 1e-4, "{row} is not {expected}");
        }
        assert_eq!(rows.audio, [7.0]);
    }
}
