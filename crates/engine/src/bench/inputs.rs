//! What the networks are given: drawn values, and a sequence of a wanted length.

use clapboard_h3::packing::{Conditions, LatentGrid, ModalityTag, PackedLayout, Target};

use super::error::BenchError;
use super::stage::Stage;
use crate::checkpoint::Sequence;

/// The fewest rows of a sequence that has text, video and sound.
const LEAST_ROWS: usize = 8;

/// Latent rows and columns of the pictures, the largest first: 1344 x 768 pixels, as requests usually have, and smaller
/// ones for short sequences.
const GRIDS: [[u32; 2]; 3] = [[48, 84], [16, 28], [2, 2]];

/// The timesteps of the step that is measured: those of video and of sound differ, as in a generation.
pub(super) const TIMESTEPS: [f32; 2] = [0.25, 0.375];

/// Draws `count` values around 0 with a standard deviation of 1.
pub(super) fn drawn(seed: u64, name: &str, count: usize) -> Vec<f32> {
    let sequence = Sequence::of(&format!("{seed}:input:{name}"));
    (0..count).map(|index| sequence.value(index, 0.0, 1.0)).collect()
}

/// Lays out a sequence of exactly `rows` rows: about one in 40 is sound, video is in whole frames, the rest is text.
///
/// Errors: [`BenchError::Rows`] when so many make no sequence.
pub(super) fn sequence(stage: Stage, rows: usize) -> Result<PackedLayout, BenchError> {
    let refused = || BenchError::Rows { stage, rows, least: LEAST_ROWS, most: PackedLayout::MAX_ROWS };
    if !(LEAST_ROWS..=PackedLayout::MAX_ROWS).contains(&rows) {
        return Err(refused());
    }
    let audio_latents = (rows / 80).max(1) as u32;
    let room = rows - 2 * audio_latents as usize - rows / 32 - 1;
    let grid = |[height, width]: [u32; 2]| LatentGrid { frames: 1, height, width };
    let frame = GRIDS.into_iter().map(grid).find(|grid| 3 * grid.rows_per_frame() <= room);
    let frame = frame.unwrap_or(grid(GRIDS[GRIDS.len() - 1]));
    let video = LatentGrid { frames: (room / frame.rows_per_frame()).max(1) as u32, ..frame };
    let target = Target { video, audio_latents };
    let text = rows.checked_sub(target.rows()).filter(|text| *text > 0).ok_or_else(refused)?;
    PackedLayout::new(&vec![ModalityTag::Text; text], Conditions::None, target).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_sequence_has_the_rows_that_were_asked_for_and_every_modality(rows in LEAST_ROWS..60_000) {
            let layout = sequence(Stage::DitBlock, rows).unwrap();
            prop_assert_eq!(layout.rows(), rows);
            prop_assert!(layout.text_rows > 0 && !layout.video_indices.is_empty() && !layout.audio_indices.is_empty());
        }
    }

    #[test]
    fn most_rows_of_a_film_are_video() {
        for rows in [1_003, 9_750, 39_000] {
            let layout = sequence(Stage::DitStep, rows).unwrap();
            assert!(layout.video_indices.len() * 10 > rows * 8, "{rows}: {}", layout.video_indices.len());
        }
    }

    #[test]
    fn too_few_rows_are_refused_with_the_least() {
        let error = sequence(Stage::DitBlock, 7).unwrap_err().to_string();
        assert_eq!(error, "dit-block cannot be measured over 7 rows: 8 to 4194304 can");
    }
}
