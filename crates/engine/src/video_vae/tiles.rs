//! How a picture is cut into overlapping tiles.

/// Side and overlap of tiles, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileGeometry {
    /// Side of a tile. A picture side that is not longer is not cut.
    pub size: usize,
    /// The least that two neighbours share.
    pub min_overlap: usize,
}

impl TileGeometry {
    /// The released geometry; blended tiles are part of the released look.
    pub const RELEASED: Self = Self { size: 256, min_overlap: 64 };

    /// Tells whether tiles lie on a grid of `step` pixels and every further tile adds to the picture.
    pub fn fits(&self, step: usize) -> bool {
        let on_grid = self.size.is_multiple_of(step) && self.min_overlap.is_multiple_of(step);
        on_grid && self.min_overlap < self.size
    }
}

/// One tile along one axis, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First pixel.
    pub start: usize,
    /// Pixels.
    pub len: usize,
    /// Pixels shared with the tile before; 0 for the first.
    pub overlap_before: usize,
    /// Pixels shared with the tile after; 0 for the last.
    pub overlap_after: usize,
}

impl Span {
    /// Pixels that this tile gives to the picture: all but those that the next one gives.
    pub fn kept(&self) -> usize {
        self.len - self.overlap_after
    }

    /// The same tile in latents of `step` pixels each; its borders lie on their grid.
    pub fn in_latents(&self, step: usize) -> Self {
        Self {
            start: self.start / step,
            len: self.len / step,
            overlap_before: self.overlap_before / step,
            overlap_after: self.overlap_after / step,
        }
    }
}

/// Cuts `length` pixels into tiles: the fewest that cover it with `min_overlap`, their slack dealt out over the
/// overlaps in turn, in whole steps of `step` pixels, so that every border stays on the latent grid.
///
/// `length` is a multiple of `step` and `geometry` [fits](TileGeometry::fits) it.
/// Source: diffusers 0.42.1 `AutoencoderKLMiniMaxH3._split_tiles`.
pub fn split_tiles(length: usize, geometry: TileGeometry, step: usize) -> Vec<Span> {
    let TileGeometry { size, min_overlap } = geometry;
    if size >= length {
        return vec![Span { start: 0, len: length, overlap_before: 0, overlap_after: 0 }];
    }
    let covered = |tiles: usize| size * tiles - min_overlap * (tiles - 1);
    let mut tiles = length.div_ceil(size);
    while covered(tiles) < length {
        tiles += 1;
    }
    let mut overlaps = vec![min_overlap; tiles - 1];
    let slack_steps = (covered(tiles) - length) / step;
    for index in 0..slack_steps {
        overlaps[index % (tiles - 1)] += step;
    }
    let mut start = 0;
    (0..tiles)
        .map(|index| {
            let overlap_before = if index == 0 { 0 } else { overlaps[index - 1] };
            let overlap_after = overlaps.get(index).copied().unwrap_or(0);
            let span = Span { start, len: size, overlap_before, overlap_after };
            start += size - overlap_after;
            span
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_released_canvas_has_seven_by_four_tiles() {
        let starts =
            |length| split_tiles(length, TileGeometry::RELEASED, 16).iter().map(|span| span.start).collect::<Vec<_>>();
        assert_eq!(starts(1344), [0, 176, 352, 528, 704, 896, 1088]);
        assert_eq!(starts(768), [0, 160, 336, 512]);
        assert_eq!(starts(256), [0]);
    }

    proptest! {
        #[test]
        fn tiles_cover_the_length_without_gaps(
            steps in 1usize..200, size_steps in 2usize..20, overlap_share in 0.0f64..1.0,
        ) {
            let geometry = TileGeometry {
                size: 16 * size_steps,
                min_overlap: 16 * ((size_steps - 1) as f64 * overlap_share) as usize,
            };
            prop_assert!(geometry.fits(16));
            let spans = split_tiles(16 * steps, geometry, 16);
            let kept: usize = spans.iter().map(Span::kept).sum();
            prop_assert_eq!(kept, 16 * steps);
            for pair in spans.windows(2) {
                prop_assert_eq!(pair[0].start + pair[0].kept(), pair[1].start);
                prop_assert_eq!(pair[0].overlap_after, pair[1].overlap_before);
                prop_assert!(pair[0].overlap_after >= geometry.min_overlap && pair[0].overlap_after < geometry.size);
            }
        }
    }
}
