//! Which frames are taken, how small they become, and where they stand.

/// The size of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Size {
    /// The size in the same ratio whose longest side has at most `edge` pixels; a smaller picture stays as it is.
    pub(super) fn within(self, edge: u32) -> Self {
        let longest = self.width.max(self.height);
        if longest <= edge {
            return self;
        }
        let scaled = |side: u32| {
            let nearest = (u64::from(side) * u64::from(edge) + u64::from(longest) / 2) / u64::from(longest);
            u32::try_from(nearest.max(1)).expect("no side is longer than the edge")
        };
        Self { width: scaled(self.width), height: scaled(self.height) }
    }

    /// How many bytes the picture has as packed RGB.
    pub(super) fn rgb_bytes(self) -> usize {
        3 * self.width as usize * self.height as usize
    }
}

/// Takes `count` of `frames` frames, from the first to the last in steps as equal as can be; no frame twice, as long as there
/// are enough.
pub(super) fn spread(frames: u64, count: u32) -> Vec<u64> {
    let (last, steps) = (frames.saturating_sub(1), u64::from(count.saturating_sub(1)).max(1));
    (0..u64::from(count)).map(|index| index * last / steps).collect()
}

/// Cells in rows, all of them filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) columns: u32,
    pub(super) rows: u32,
}

impl Grid {
    /// The largest grid of at most `side` rows of at most `side` cells that `frames` frames fill.
    pub(super) fn of(frames: u64, side: u32) -> Self {
        let up_to_side = |count: u64| u32::try_from(count.clamp(1, u64::from(side))).expect("no more than a side");
        let columns = up_to_side(frames);
        Self { columns, rows: up_to_side(frames / u64::from(columns)) }
    }

    /// How many cells there are.
    pub(super) fn cells(self) -> u32 {
        self.columns * self.rows
    }

    /// Puts the pictures of all cells, which stand one after the other in `cells`, into one: row by row, from the left.
    pub(super) fn assemble(self, cell: Size, cells: &[u8]) -> (Size, Vec<u8>) {
        let sheet = Size { width: cell.width * self.columns, height: cell.height * self.rows };
        let line_bytes = 3 * cell.width as usize;
        let columns = self.columns as usize;
        let mut rgb = Vec::with_capacity(sheet.rgb_bytes());
        for row in cells.chunks_exact(cell.rgb_bytes() * columns) {
            for line in 0..cell.height as usize {
                for picture in row.chunks_exact(cell.rgb_bytes()) {
                    rgb.extend_from_slice(&picture[line * line_bytes..][..line_bytes]);
                }
            }
        }
        (sheet, rgb)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn a_picture_keeps_its_ratio_and_never_grows() {
        assert_eq!(size(1344, 768).within(512), size(512, 293));
        assert_eq!(size(768, 1344).within(256), size(146, 256));
        assert_eq!(size(64, 32).within(256), size(64, 32));
        assert_eq!(size(4096, 2).within(256), size(256, 1));
    }

    #[test]
    fn frames_fill_a_grid_without_a_gap() {
        let of = |frames| {
            let grid = Grid::of(frames, 5);
            (grid.columns, grid.rows)
        };
        assert_eq!([1, 4, 5, 22, 25, 209].map(of), [(1, 1), (4, 1), (5, 1), (5, 4), (5, 5), (5, 5)]);
    }

    #[test]
    fn pictures_stand_row_by_row() {
        // Four pictures of two pixels in one line, each of one colour.
        let cells: Vec<u8> = (1..=4).flat_map(|colour| [colour; 6]).collect();
        let (sheet, rgb) = Grid { columns: 2, rows: 2 }.assemble(size(2, 1), &cells);
        assert_eq!(sheet, size(4, 2));
        assert_eq!(rgb, [[1u8; 6], [2; 6], [3; 6], [4; 6]].concat());
        // And of two lines of one pixel: the lines of neighbours alternate.
        let (sheet, rgb) = Grid { columns: 2, rows: 1 }.assemble(size(1, 2), &cells[..12]);
        assert_eq!(sheet, size(2, 2));
        assert_eq!(rgb, [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
    }

    proptest! {
        #[test]
        fn picked_frames_rise_from_the_first_to_the_last(frames in 1u64..2000) {
            let grid = Grid::of(frames, 5);
            let picked = spread(frames, grid.cells());
            prop_assert_eq!(picked.len(), grid.cells() as usize);
            prop_assert!(picked.len() as u64 <= frames);
            prop_assert!(picked.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(picked[0], 0);
            if picked.len() > 1 {
                prop_assert_eq!(picked.last(), Some(&(frames - 1)));
            }
        }

        #[test]
        fn no_side_exceeds_the_edge_or_is_nothing(width in 1u32..6000, height in 1u32..6000, edge in 1u32..600) {
            let fitted = size(width, height).within(edge);
            prop_assert!(fitted.width.max(fitted.height) <= edge.min(width.max(height)));
            prop_assert!(fitted.width.min(fitted.height) >= 1);
        }
    }
}
