//! Tiles into a picture.

use super::tiles::Span;
use crate::activations::Planned;
use crate::ops::{DType, OpError, Ops, Tensor, View};

/// A clip's picture while its tiles come in, row by row and from left to right.
///
/// A tile is blended first with the tile above, then with the tile to the left, over what they share. Both neighbours
/// are taken as they were decoded, not as they were blended; so their edges are kept aside.
/// Source: diffusers 0.42.1 `AutoencoderKLMiniMaxH3._stitch_tiles`.
pub(super) struct Mosaic<B> {
    rows: Vec<Span>,
    columns: Vec<Span>,
    pixels: Tensor<B>,
    /// The lower edge of the last tile decoded in each column.
    above: Vec<Tensor<B>>,
    /// The right edge of the last tile decoded.
    left: Tensor<B>,
}

/// Plans the buffers of [`Mosaic::make`].
pub(super) fn mosaic_plan(
    dtype: DType,
    channels: usize,
    frames: usize,
    rows: &[Span],
    columns: &[Span],
) -> [Planned; 3] {
    let length = |spans: &[Span]| spans.iter().map(Span::kept).sum::<usize>();
    let plan = |name, count: usize, height, width| Planned::new(name, dtype, [count * channels, frames, height, width]);
    [
        plan("picture", 1, length(rows), length(columns)),
        plan("edges_above", columns.len(), widest(rows), columns[0].len),
        plan("edge_left", 1, rows[0].len, widest(columns)),
    ]
}

/// The widest edge that tiles share with those that follow.
fn widest(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.overlap_after).max().unwrap_or(0)
}

impl<B: Send + Sync> Mosaic<B> {
    /// Makes a mosaic for clips of `frames` frames under `rows` times `columns` tiles.
    pub(super) fn make<O: Ops<Buffer = B>>(
        ops: &O,
        dtype: DType,
        channels: usize,
        frames: usize,
        rows: Vec<Span>,
        columns: Vec<Span>,
    ) -> Result<Self, OpError> {
        let length = |spans: &[Span]| spans.iter().map(Span::kept).sum::<usize>();
        let (tile_height, tile_width) = (rows[0].len, columns[0].len);
        let make = |height: usize, width: usize| ops.alloc(dtype, [channels, frames, height, width].into());
        Ok(Self {
            pixels: make(length(&rows), length(&columns))?,
            above: columns.iter().map(|_| make(widest(&rows), tile_width)).collect::<Result<_, _>>()?,
            left: make(tile_height, widest(&columns))?,
            rows,
            columns,
        })
    }

    /// Returns the picture, `[channels, frames, height, width]`.
    pub(super) fn pixels(&self) -> &Tensor<B> {
        &self.pixels
    }

    /// Returns the picture, for writing.
    pub(super) fn pixels_mut(&mut self) -> &mut Tensor<B> {
        &mut self.pixels
    }

    /// Returns the tiles in the order in which they have to be placed, as positions in the grid.
    pub(super) fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<B> {
        let columns = self.columns.len();
        (0..self.rows.len() * columns).map(move |index| (index / columns, index % columns))
    }

    /// Where tile (`row`, `column`) lies.
    pub(super) fn spans(&self, (row, column): (usize, usize)) -> (Span, Span) {
        (self.rows[row], self.columns[column])
    }

    /// Blends a decoded tile in, `[channels, frames, tile height, tile width]`.
    pub(super) fn place<O: Ops<Buffer = B>>(
        &mut self,
        ops: &O,
        at: (usize, usize),
        tile: View<'_, B>,
    ) -> Result<(), OpError> {
        let (y, x) = self.spans(at);
        let (height, width) = (y.kept(), x.kept());
        let (above, left) = (&mut self.above[at.1], &mut self.left);
        let pixels = &mut self.pixels;
        let mut target = pixels.view_mut().narrow(2, y.start..y.start + height).narrow(3, x.start..x.start + width);
        ops.cast(tile.narrow(2, 0..height).narrow(3, 0..width), target.reborrow())?;
        if y.overlap_before > 0 {
            // A tile whose own kept part is shorter than the overlap leaves the rest of the blend to its successor.
            let reach = y.overlap_before.min(height);
            let edge = above.view().narrow(2, 0..reach).narrow(3, 0..width);
            ops.cross_fade(edge, 2, y.overlap_before, target.reborrow().narrow(2, 0..reach))?;
        }
        if x.overlap_before > 0 {
            let reach = x.overlap_before.min(width);
            let edge = left.view().narrow(2, 0..height).narrow(3, 0..reach);
            ops.cross_fade(edge, 3, x.overlap_before, target.narrow(3, 0..reach))?;
        }
        if y.overlap_after > 0 {
            let edge = above.view_mut().narrow(2, 0..y.overlap_after);
            ops.cast(tile.narrow(2, height..y.len), edge)?;
        }
        if x.overlap_after > 0 {
            let edge = left.view_mut().narrow(3, 0..x.overlap_after);
            ops.cast(tile.narrow(3, width..x.len), edge)?;
        }
        Ok(())
    }
}
