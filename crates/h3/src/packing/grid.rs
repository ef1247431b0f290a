//! The coordinates of rows in time, height and width.

use super::condition::{LatentGrid, PATCH};

/// Time units of one video frame: 40 units a second over 24 frames a second.
pub(super) const FRAME_UNITS: f64 = 5.0 / 3.0;
/// Frames that each of five consecutive latents stands for, over and over.
const FRAMES_PER_LATENT: [f64; 5] = [1.0, 4.0, 4.0, 4.0, 4.0];
/// How far the spatial coordinates of a square canvas reach.
const SPATIAL_SCALE: f64 = 32.0;

/// The coordinates of one frame's patches: both axes are centred, and share a scale that keeps the area.
#[derive(Debug)]
pub(super) struct SpatialGrid {
    heights: Vec<f64>,
    widths: Vec<f64>,
}

impl SpatialGrid {
    pub(super) fn new(grid: LatentGrid) -> Self {
        let side = (f64::from(grid.height) * f64::from(grid.width)).sqrt();
        Self { heights: axis(grid.height, side), widths: axis(grid.width, side) }
    }

    /// Returns (height, width) of every patch, row by row.
    pub(super) fn patches(&self) -> impl Iterator<Item = (f64, f64)> {
        self.heights.iter().flat_map(|&height| self.widths.iter().map(move |&width| (height, width)))
    }

    /// Returns the width coordinates of the left and the right audio channel: the ends of the axis.
    pub(super) fn channel_widths(&self) -> [f64; 2] {
        let left = self.widths.first().copied().unwrap_or_default();
        let right = self.widths.last().copied().unwrap_or_default();
        [left, right]
    }
}

/// Spreads the patches of one axis as `numpy.linspace(left, left + ratio, n, endpoint=False) * 32` does.
fn axis(latents: u32, side: f64) -> Vec<f64> {
    let patches = latents / PATCH;
    let ratio = f64::from(latents) / side;
    let left = (1.0 - ratio) / 2.0;
    let step = (left + ratio - left) / f64::from(patches);
    (0..patches).map(|index| (f64::from(index) * step + left) * SPATIAL_SCALE).collect()
}

fn latent_units(latent: usize) -> f64 {
    FRAME_UNITS * FRAMES_PER_LATENT[latent % FRAMES_PER_LATENT.len()]
}

/// Returns the time of every latent frame from `origin` on.
pub(super) fn frame_times(frames: u32, origin: f64) -> Vec<f64> {
    let mut elapsed = 0.0;
    (0..frames as usize)
        .map(|latent| {
            let time = origin + elapsed;
            elapsed += latent_units(latent);
            time
        })
        .collect()
}

/// Sums the time that latent frames last, one after the other, as the clock of reference videos does.
pub(super) fn sequential_span(frames: u32) -> f64 {
    (0..frames as usize).map(latent_units).fold(0.0, |a, b| a + b)
}

/// Sums the same time pairwise as numpy does, which is how the last keyframe is placed; from 16 latents on the two
/// differ in the last bit.
pub(super) fn pairwise_span(frames: u32) -> f64 {
    let units: Vec<f64> = (0..frames as usize).map(latent_units).collect();
    pairwise_sum(&units)
}

/// Sums in numpy's order: eight running sums over up to 128 values, halves of a multiple of eight above that.
fn pairwise_sum(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    const BLOCK: usize = 128;
    if values.len() < LANES {
        return values.iter().fold(0.0, |a, b| a + b);
    }
    if values.len() > BLOCK {
        let half = values.len() / 2;
        let (first, second) = values.split_at(half - half % LANES);
        return pairwise_sum(first) + pairwise_sum(second);
    }
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_ways_to_sum_part_at_sixteen_latents() {
        for frames in 0..16 {
            assert_eq!(pairwise_span(frames), sequential_span(frames), "{frames}");
        }
        let apart = (16..200).filter(|&frames| pairwise_span(frames) != sequential_span(frames)).count();
        assert!(apart > 100, "{apart}");
        for frames in 16..200 {
            let (a, b) = (pairwise_span(frames), sequential_span(frames));
            assert!((a - b).abs() < 1e-9, "{frames}: {a} {b}");
        }
    }

    #[test]
    fn time_starts_at_the_origin_and_a_clip_of_five_latents_lasts_seventeen_frames() {
        let times = frame_times(7, 77.0);
        assert_eq!(times[0], 77.0);
        assert!((times[5] - 77.0 - 17.0 * FRAME_UNITS).abs() < 1e-12);
    }

    #[test]
    fn a_square_grid_reaches_from_zero_to_thirty_two() {
        let grid = SpatialGrid::new(LatentGrid { frames: 1, height: 8, width: 8 });
        assert_eq!(grid.heights, [0.0, 8.0, 16.0, 24.0]);
        assert_eq!(grid.channel_widths(), [0.0, 24.0]);
    }
}
