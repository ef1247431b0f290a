//! Latents as rows of `(1, 2, 2)` patches, and back.

/// A block of video latents, `[channels, frames, height, width]` in latent voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentShape {
    /// Latent channels.
    pub channels: usize,
    /// Latent frames.
    pub frames: usize,
    /// Latent rows; even.
    pub height: usize,
    /// Latent columns; even.
    pub width: usize,
}

impl LatentShape {
    /// Latent voxels times channels.
    pub fn elements(&self) -> usize {
        self.channels * self.frames * self.height * self.width
    }

    /// Channels, frames, height and width.
    pub fn dims(&self) -> [usize; 4] {
        [self.channels, self.frames, self.height, self.width]
    }

    /// Rows of the packed sequence that hold the grid.
    pub fn rows(&self) -> usize {
        self.frames * (self.height / 2) * (self.width / 2)
    }

    /// Values of one row.
    pub fn row_width(&self) -> usize {
        4 * self.channels
    }

    /// Calls `pair(position in the latents, position in the rows)` for every value.
    fn each(&self, mut pair: impl FnMut(usize, usize)) {
        let (half_height, half_width) = (self.height / 2, self.width / 2);
        for channel in 0..self.channels {
            for frame in 0..self.frames {
                for y in 0..self.height {
                    for x in 0..self.width {
                        let latent = ((channel * self.frames + frame) * self.height + y) * self.width + x;
                        let row = (frame * half_height + y / 2) * half_width + x / 2;
                        pair(latent, row * self.row_width() + channel * 4 + (y % 2) * 2 + x % 2);
                    }
                }
            }
        }
    }
}

/// Rows `[rows, 4 · channels]` of a latent block: rows ordered `(t, h/2, w/2)`, values `(c, ph, pw)`.
///
/// Panics: When `latents` does not fill `grid`.
pub fn patchify(grid: LatentShape, latents: &[f32]) -> Vec<f32> {
    assert_eq!(latents.len(), grid.elements(), "latents fill their grid");
    let mut rows = vec![0.0; latents.len()];
    grid.each(|latent, row| rows[row] = latents[latent]);
    rows
}

/// Returns the latent block `[channels, frames, height, width]` of its rows: the inverse of [`patchify`].
///
/// Panics: When `rows` does not fill `grid`.
pub fn unpatchify(grid: LatentShape, rows: &[f32]) -> Vec<f32> {
    assert_eq!(rows.len(), grid.elements(), "rows fill their grid");
    let mut latents = vec![0.0; rows.len()];
    grid.each(|latent, row| latents[latent] = rows[row]);
    latents
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn unpatchify_undoes_patchify(
            (channels, frames, height, width) in (1usize..4, 1usize..4, 1usize..4, 1usize..4),
        ) {
            let grid = LatentShape { channels, frames, height: 2 * height, width: 2 * width };
            let latents: Vec<f32> = (0..grid.elements()).map(|i| i as f32).collect();
            prop_assert_eq!(unpatchify(grid, &patchify(grid, &latents)), latents);
        }
    }

    #[test]
    fn a_row_holds_one_patch_channel_by_channel() {
        let grid = LatentShape { channels: 2, frames: 1, height: 2, width: 4 };
        let latents: Vec<f32> = (0..16).map(|i| i as f32).collect();
        assert_eq!(patchify(grid, &latents)[8..], [2.0, 3.0, 6.0, 7.0, 10.0, 11.0, 14.0, 15.0]);
    }
}
