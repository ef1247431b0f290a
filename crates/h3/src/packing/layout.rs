//! The order, place and kind of every row.

use super::condition::{Anchor, Conditions, LatentGrid, PATCH, Reference, Target, audio_rows};
use super::grid::{FRAME_UNITS, SpatialGrid, frame_times, pairwise_span, sequential_span};
use super::tag::ModalityTag;

/// The rows of one request's sequence.
///
/// Text rows come first, so that their indices are `0..text_rows`. The index lists hold, per modality, where its rows
/// stand in the sequence: conditions first, then the target; in Ref2VA the blocks of both interleave in the sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedLayout {
    /// Time, height and width of every row, in rotary units.
    pub positions: Vec<[f64; 3]>,
    /// The modality of every row.
    pub tags: Vec<ModalityTag>,
    /// The number of text rows.
    pub text_rows: usize,
    /// Where the video rows stand: conditions, then the target.
    pub video_indices: Vec<u32>,
    /// Where the audio rows stand: references, then the target.
    pub audio_indices: Vec<u32>,
    /// How many of `video_indices` are conditions.
    pub condition_video_rows: usize,
    /// How many of `audio_indices` are references.
    pub condition_audio_rows: usize,
}

impl PackedLayout {
    /// The most rows that a sequence may have; the longest film of the released geometry has some 110,000.
    pub const MAX_ROWS: usize = 1 << 22;

    /// Lays out a sequence of text rows with the given tags, conditions and target.
    ///
    /// Errors: a [`LayoutError`] for a grid that cannot be cut into patches, for keyframes that are not first, last or
    /// first and last, and for more than [`PackedLayout::MAX_ROWS`] rows.
    /// Source: diffusers 0.42.1 `MiniMaxH3PrepareLayoutStep` and `MiniMaxH3Ref2VAPrepareLayoutStep`.
    pub fn new(text_tags: &[ModalityTag], conditions: Conditions<'_>, target: Target) -> Result<Self, LayoutError> {
        let condition_rows = check(conditions, target)?;
        let rows = text_tags.len().saturating_add(condition_rows).saturating_add(target.rows());
        if rows > Self::MAX_ROWS {
            return Err(LayoutError::TooManyRows { rows });
        }
        let mut builder = Builder::new(text_tags, rows, SpatialGrid::new(target.video));
        match conditions {
            Conditions::None => {}
            Conditions::Keyframes(anchors) => {
                for anchor in anchors {
                    builder.keyframe(*anchor, target.video.frames);
                }
            }
            Conditions::References(references) => {
                for reference in references {
                    builder.reference(*reference);
                }
            }
        }
        Ok(builder.target(target))
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Returns the number of target audio rows, both channels together.
    pub fn target_audio_rows(&self) -> usize {
        self.audio_indices.len() - self.condition_audio_rows
    }
}

/// Checks conditions and target, and counts the rows of the conditions.
fn check(conditions: Conditions<'_>, target: Target) -> Result<usize, LayoutError> {
    check_grid(target.video)?;
    match conditions {
        Conditions::None => Ok(0),
        Conditions::Keyframes(anchors) => match anchors {
            [_] | [Anchor::First, Anchor::Last] => Ok(anchors.len().saturating_mul(target.video.rows_per_frame())),
            _ => Err(LayoutError::Keyframes(anchors.to_vec())),
        },
        Conditions::References(references) => {
            let mut rows = 0usize;
            for reference in references {
                if let Some(grid) = reference.video() {
                    check_grid(grid)?;
                    rows = rows.saturating_add(grid.rows());
                }
                rows = rows.saturating_add(audio_rows(reference.audio_latents()));
            }
            Ok(rows)
        }
    }
}

fn check_grid(grid: LatentGrid) -> Result<(), LayoutError> {
    let side = |latents: u32| latents > 0 && latents.is_multiple_of(PATCH);
    if grid.frames > 0 && side(grid.height) && side(grid.width) { Ok(()) } else { Err(LayoutError::Grid(grid)) }
}

/// A sequence that is being laid out, with the clock that its media share.
struct Builder {
    layout: PackedLayout,
    target_grid: SpatialGrid,
    /// Where the next medium starts; the text has moved it by a unit a row.
    clock: f64,
}

impl Builder {
    fn new(text_tags: &[ModalityTag], rows: usize, target_grid: SpatialGrid) -> Self {
        let mut positions = Vec::with_capacity(rows);
        positions.extend((0..text_tags.len()).map(|row| [row as f64, 0.0, 0.0]));
        let mut tags = Vec::with_capacity(rows);
        tags.extend_from_slice(text_tags);
        Self {
            layout: PackedLayout {
                positions,
                tags,
                text_rows: text_tags.len(),
                video_indices: Vec::new(),
                audio_indices: Vec::new(),
                condition_video_rows: 0,
                condition_audio_rows: 0,
            },
            target_grid,
            clock: text_tags.len() as f64,
        }
    }

    fn keyframe(&mut self, anchor: Anchor, target_frames: u32) {
        let time = match anchor {
            Anchor::First => self.clock,
            Anchor::Last => self.clock + pairwise_span(target_frames) - FRAME_UNITS,
        };
        push_frame(&mut self.layout, time, &self.target_grid);
    }

    fn reference(&mut self, reference: Reference) {
        let audio_latents = reference.audio_latents();
        match reference.video() {
            // A sound of its own is heard at the ends of the target's picture.
            None => push_audio(&mut self.layout, audio_latents, self.clock, self.target_grid.channel_widths()),
            Some(grid) => {
                let spatial = SpatialGrid::new(grid);
                push_audio(&mut self.layout, audio_latents, self.clock, spatial.channel_widths());
                push_video(&mut self.layout, grid, self.clock, &spatial);
            }
        }
        self.clock += match reference {
            Reference::Image { .. } => 1.0,
            Reference::Audio { latents } => f64::from(latents),
            Reference::Video { video, audio_latents } => f64::from(audio_latents).max(sequential_span(video.frames)),
        };
    }

    fn target(mut self, target: Target) -> PackedLayout {
        let layout = &mut self.layout;
        layout.condition_video_rows = layout.video_indices.len();
        layout.condition_audio_rows = layout.audio_indices.len();
        push_audio(layout, target.audio_latents, self.clock, self.target_grid.channel_widths());
        push_video(layout, target.video, self.clock, &self.target_grid);
        self.layout
    }
}

fn push_video(layout: &mut PackedLayout, grid: LatentGrid, origin: f64, spatial: &SpatialGrid) {
    for time in frame_times(grid.frames, origin) {
        push_frame(layout, time, spatial);
    }
}

fn push_frame(layout: &mut PackedLayout, time: f64, spatial: &SpatialGrid) {
    for (height, width) in spatial.patches() {
        let row = push(layout, [time, height, width], ModalityTag::Video);
        layout.video_indices.push(row);
    }
}

fn push_audio(layout: &mut PackedLayout, latents: u32, origin: f64, channel_widths: [f64; 2]) {
    for width in channel_widths {
        for latent in 0..latents {
            let position = [origin + f64::from(latent), 0.0, width];
            let row = push(layout, position, ModalityTag::Audio);
            layout.audio_indices.push(row);
        }
    }
}

fn push(layout: &mut PackedLayout, position: [f64; 3], tag: ModalityTag) -> u32 {
    let row = layout.positions.len() as u32; // fits: the number of rows was bounded before the first
    layout.positions.push(position);
    layout.tags.push(tag);
    row
}

/// Why a sequence cannot be laid out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A grid is empty or has an odd side.
    #[error(
        "latent grid must have frames and positive even sides, got {} frames of {} x {}", .0.frames, .0.height, .0.width
    )]
    Grid(LatentGrid),
    /// The keyframes are not first, last, or first and last.
    #[error("keyframes must be first, last, or first and last, got {0:?}")]
    Keyframes(Vec<Anchor>),
    /// There are more rows than any run could hold.
    #[error("packed sequence must have at most {most} rows, got {rows}", most = PackedLayout::MAX_ROWS)]
    TooManyRows {
        /// The number of rows.
        rows: usize,
    },
}

#[cfg(test)]
mod tests;
