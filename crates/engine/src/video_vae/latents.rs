//! Latents on their way into the decoder.

use std::ops::Range;

/// Latents of a film on the host, `[channels, frames, height, width]` row major.
#[derive(Debug, Clone, Copy)]
pub struct VideoLatents<'a> {
    /// The values.
    pub values: &'a [f32],
    /// Latent frames.
    pub frames: usize,
    /// Latent rows.
    pub height: usize,
    /// Latent columns.
    pub width: usize,
}

/// Latent statistics: what was divided out of each channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statistics<'a> {
    pub(super) mean: &'a [f32],
    pub(super) std: &'a [f32],
}

impl VideoLatents<'_> {
    /// Writes one clip of one tile as token rows `[t·h·w, channels]`, denormalised (`x · std + mean`) if `statistics`
    /// are given. `rows` and `columns` are latent ranges of the tile.
    pub(super) fn pack(
        &self,
        channels: usize,
        frames: impl Iterator<Item = usize>,
        rows: Range<usize>,
        columns: Range<usize>,
        statistics: Option<Statistics<'_>>,
        tokens: &mut Vec<f32>,
    ) {
        tokens.clear();
        for frame in frames {
            for row in rows.clone() {
                for column in columns.clone() {
                    for channel in 0..channels {
                        let index = ((channel * self.frames + frame) * self.height + row) * self.width + column;
                        let value = self.values[index];
                        tokens.push(match statistics {
                            Some(Statistics { mean, std }) => value * std[channel] + mean[channel],
                            None => value,
                        });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_tile_hold_their_channels_side_by_side() {
        // Two channels of 2 frames of 1 x 3: value = 100 channel + 10 frame + column.
        let values: Vec<f32> = (0..12).map(|i| (100 * (i / 6) + 10 * (i / 3 % 2) + i % 3) as f32).collect();
        let latents = VideoLatents { values: &values, frames: 2, height: 1, width: 3 };
        let mut tokens = Vec::new();
        latents.pack(2, [1, 1].into_iter(), 0..1, 1..3, None, &mut tokens);
        assert_eq!(tokens, [11.0, 111.0, 12.0, 112.0, 11.0, 111.0, 12.0, 112.0]);
        let statistics = Statistics { mean: &[1.0, 0.0], std: &[2.0, 1.0] };
        latents.pack(2, [0].into_iter(), 0..1, 0..1, Some(statistics), &mut tokens);
        assert_eq!(tokens, [1.0, 100.0]);
    }
}
