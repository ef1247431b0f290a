//! How clean each row is at one forward.

use super::layout::PackedLayout;
use super::tag::ModalityTag;

/// The timestep of pictures and videos that condition a run: they carry a thousandth of noise.
pub const CONDITION_TIMESTEP: f32 = 0.999;

/// The timestep of reference sounds: they are clean.
const AUDIO_REFERENCE_TIMESTEP: f32 = 1.0;

/// The distinct timesteps of one forward, and which of them each row has.
#[derive(Debug, Clone, PartialEq)]
pub struct RowTimesteps {
    /// The distinct timesteps, ascending.
    pub unique: Vec<f32>,
    /// For every row, the index of its timestep in `unique`.
    pub indices: Vec<u32>,
}

impl RowTimesteps {
    /// Returns every row's row in the modulation table: `index · 3 + modality`.
    ///
    /// `tags` are those of the layout that the timesteps were made for.
    pub fn modulation_rows(&self, tags: &[ModalityTag]) -> Vec<u32> {
        self.indices.iter().zip(tags).map(|(index, tag)| index * ModalityTag::COUNT + tag.index()).collect()
    }
}

impl PackedLayout {
    /// Returns each row its timestep, from those of the target's video and audio (0 is noise, 1 is clean).
    ///
    /// Text follows the video. Conditions of pictures and videos stay at [`CONDITION_TIMESTEP`] until the target is
    /// cleaner than that, and reference sounds at 1. Both timesteps must be numbers.
    pub fn timesteps(&self, t_video: f32, t_audio: f32) -> RowTimesteps {
        let (condition_video, target_video) = self.video_indices.split_at(self.condition_video_rows);
        let (condition_audio, target_audio) = self.audio_indices.split_at(self.condition_audio_rows);
        let text: Vec<u32> = (0..self.text_rows as u32).collect();
        let groups = [
            (t_video, text.as_slice()),
            (t_video.max(CONDITION_TIMESTEP), condition_video),
            (t_video, target_video),
            (AUDIO_REFERENCE_TIMESTEP, condition_audio),
            (t_audio, target_audio),
        ];
        let mut unique: Vec<f32> =
            groups.iter().filter(|(_, rows)| !rows.is_empty()).map(|(timestep, _)| *timestep).collect();
        unique.sort_by(f32::total_cmp);
        unique.dedup();
        let mut indices = vec![0; self.rows()];
        for (timestep, rows) in groups {
            let index = unique.partition_point(|other| *other < timestep) as u32;
            for row in rows {
                indices[*row as usize] = index;
            }
        }
        RowTimesteps { unique, indices }
    }
}
