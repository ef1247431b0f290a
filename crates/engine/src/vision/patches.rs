//! Pixels cut into patches.

use std::ops::Range;

use crate::checkpoint::PixelConfig;

/// The patches of a picture or video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PatchGrid {
    /// Patches in time; a picture has one.
    pub frames: usize,
    /// Patches along the height.
    pub height: usize,
    /// Patches along the width.
    pub width: usize,
}

impl PatchGrid {
    /// Returns the number of patches of one frame.
    pub fn rows_per_frame(self) -> usize {
        self.height * self.width
    }

    /// Returns the number of patches.
    pub fn rows(self) -> usize {
        self.frames * self.rows_per_frame()
    }

    /// Returns the tokens of one frame along height and width, where `merge` by `merge` patches become one.
    pub fn tokens_per_frame(self, merge: usize) -> [usize; 2] {
        [self.height / merge, self.width / merge]
    }

    /// Returns the row and column of patch `index` of a frame, in the order in which patches stand: merged block by
    /// merged block, row by row inside each.
    pub(super) fn place(self, merge: usize, index: usize) -> [usize; 2] {
        let (block, within) = (index / (merge * merge), index % (merge * merge));
        let blocks_per_row = self.width / merge;
        [block / blocks_per_row * merge + within / merge, block % blocks_per_row * merge + within % merge]
    }
}

/// The patches of one picture or video, kept as resized bytes: rows of floats are made as they are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Patches {
    grid: PatchGrid,
    config: PixelConfig,
    /// `[pictures, height, width, 3]`.
    rgb: Vec<u8>,
    /// Resized frames; the last is repeated until its patch is full, as a picture's only one is.
    pictures: usize,
}

impl Patches {
    /// Cuts `pictures` frames of `height` by `width` pixels, multiples of a merged patch's side.
    pub(super) fn new(config: PixelConfig, rgb: Vec<u8>, pictures: usize, height: usize, width: usize) -> Self {
        debug_assert_eq!(rgb.len(), pictures * height * width * 3, "resized frames fill their size");
        let grid = PatchGrid {
            frames: pictures.div_ceil(config.temporal_patch_size),
            height: height / config.patch_size,
            width: width / config.patch_size,
        };
        Self { grid, config, rgb, pictures }
    }

    /// Returns the grid.
    pub fn grid(&self) -> PatchGrid {
        self.grid
    }

    /// Returns how wide a row is: channels, frames, height and width of one patch.
    pub fn width(&self) -> usize {
        3 * self.config.temporal_patch_size * self.config.patch_size * self.config.patch_size
    }

    /// Returns some rows `[rows, width]`, normalised: frame by frame, merged block by merged block; inside a row
    /// channel, frame, height and width.
    pub fn rows(&self, rows: Range<usize>) -> Vec<f32> {
        let PixelConfig { patch_size: side, temporal_patch_size: depth, merge_size, .. } = self.config;
        let (levels, line) = (self.levels(), self.grid.width * side * 3);
        let mut values = Vec::with_capacity(rows.len() * self.width());
        for row in rows {
            let (frame, index) = (row / self.grid.rows_per_frame(), row % self.grid.rows_per_frame());
            let [top, left] = self.grid.place(merge_size, index).map(|patch| patch * side);
            for (channel, levels) in levels.iter().enumerate() {
                for picture in frame * depth..(frame + 1) * depth {
                    let first_line = picture.min(self.pictures - 1) * self.grid.height * side + top;
                    for y in 0..side {
                        let start = (first_line + y) * line + left * 3;
                        let pixels = self.rgb[start..start + side * 3].chunks_exact(3);
                        values.extend(pixels.map(|pixel| levels[usize::from(pixel[channel])]));
                    }
                }
            }
        }
        values
    }

    /// What each byte becomes in red, green and blue. Rescaling is folded into mean and deviation, as the source does.
    fn levels(&self) -> [[f32; 256]; 3] {
        let unscale = (1.0 / self.config.rescale_factor) as f32;
        std::array::from_fn(|channel| {
            let (mean, std) = (self.config.mean[channel] * unscale, self.config.std[channel] * unscale);
            std::array::from_fn(|byte| (byte as f32 - mean) / std)
        })
    }
}

/// What the vision tower reads of one request, each kind in request order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VisionInput {
    /// The pictures.
    pub images: Vec<Patches>,
    /// The videos.
    pub videos: Vec<Patches>,
}

impl VisionInput {
    /// Tells whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.videos.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Patches of 2 by 2 pixels and 2 frames, 2 by 2 patches to a token; levels are bytes as they are.
    fn config() -> PixelConfig {
        PixelConfig {
            min_pixels: 1,
            max_pixels: 1 << 20,
            patch_size: 2,
            temporal_patch_size: 2,
            merge_size: 2,
            rescale_factor: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
        }
    }

    #[test]
    fn rows_stand_in_merged_blocks_and_run_over_channel_frame_height_and_width() {
        // One frame of 4 by 8 pixels; red is the pixel's number, green 100 more, blue 200 more.
        let rgb = (0..32).flat_map(|pixel| [pixel, pixel + 100, pixel + 200]).collect();
        let patches = Patches::new(config(), rgb, 1, 4, 8);
        assert_eq!(patches.grid(), PatchGrid { frames: 1, height: 2, width: 4 });
        let first = patches.rows(0..1);
        assert_eq!(first[..8], [0.0, 1.0, 8.0, 9.0, 0.0, 1.0, 8.0, 9.0]);
        assert_eq!(first[8..12], [100.0, 101.0, 108.0, 109.0]);
        // The second row is right of the first, the third below it, the fifth in the next block.
        let corner = |row| patches.rows(row..row + 1)[0];
        assert_eq!([1, 2, 3, 4, 7].map(corner), [2.0, 16.0, 18.0, 4.0, 22.0]);
    }

    #[test]
    fn the_last_frame_fills_its_patch() {
        let frame = |level: u8| vec![level; 4 * 4 * 3];
        let patches = Patches::new(config(), [frame(1), frame(2), frame(3)].concat(), 3, 4, 4);
        assert_eq!(patches.grid().frames, 2);
        let channel = |row| patches.rows(row..row + 1)[..8].to_vec();
        assert_eq!(channel(0), [[1.0; 4], [2.0; 4]].concat());
        assert_eq!(channel(4), [3.0; 8]);
    }

    #[test]
    fn bytes_are_scaled_to_minus_one_and_one() {
        let halves = PixelConfig { rescale_factor: 1.0 / 255.0, mean: [0.5; 3], std: [0.5; 3], ..config() };
        let patches = Patches::new(halves, [0, 255, 51].repeat(16), 1, 4, 4);
        let row = patches.rows(0..1);
        assert_eq!([row[0], row[8]], [-1.0, 1.0]);
        assert!((row[16] + 0.6).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn every_patch_has_its_own_place(height in 1usize..5, width in 1usize..5, merge in 1usize..4) {
            let grid = PatchGrid { frames: 1, height: height * merge, width: width * merge };
            let mut places: Vec<_> = (0..grid.rows()).map(|index| grid.place(merge, index)).collect();
            prop_assert!(places.iter().all(|[row, column]| *row < grid.height && *column < grid.width));
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), grid.rows());
        }
    }
}
