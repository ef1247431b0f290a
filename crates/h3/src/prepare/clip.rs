//! Making a reference clip from decoded frames as they arrive.

use super::media::{Clip, MediaError};
use super::resize::{Filter, Resizer};
use crate::canvas::{Canvas, CanvasError};
use crate::frames::FrameCount;
use crate::geometry::GeometryProfile;

/// Why decoded frames make no reference clip.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClipError {
    /// The video's sides lead to no canvas.
    #[error(transparent)]
    Canvas(#[from] CanvasError),
    /// A frame does not have the video's size.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// No frame was left at 24 frames a second.
    #[error("video has no frame at 24 frames a second, got {frames} source frames")]
    Empty {
        /// The source frames given.
        frames: usize,
    },
}

/// Puts decoded frames on the canvas of their own aspect ratio, no more of them than the target has.
///
/// How often each is repeated to make 24 a second is known to whoever has the frames: by their times, or by
/// [`FrameSlots`](super::FrameSlots) where there is nothing but a rate.
#[derive(Debug, Clone)]
pub struct ClipBuilder {
    canvas: Canvas,
    resizer: Resizer,
    given: usize,
    made: usize,
    most: usize,
    rgb: Vec<u8>,
}

impl ClipBuilder {
    /// Starts a clip from frames of the given sides (in pixels), cut to the target's length.
    ///
    /// Errors: [`ClipError::Canvas`] outside 1:4 to 4:1.
    pub fn new(width: u32, height: u32, geometry: &GeometryProfile, target: FrameCount) -> Result<Self, ClipError> {
        let canvas = geometry.canvas_of(width, height)?;
        let resizer = Resizer::new((width, height), (canvas.width(), canvas.height()), Filter::Lanczos)?;
        Ok(Self { canvas, resizer, given: 0, made: 0, most: target.get() as usize, rgb: Vec::new() })
    }

    /// Returns the canvas that the frames are put on.
    pub fn canvas(&self) -> Canvas {
        self.canvas
    }

    /// Takes the next source frame, `[height, width, 3]`, and shows it `times` times at 24 a second, resized once; says
    /// whether a further frame could still be kept. Zero times drop it.
    ///
    /// Errors: [`ClipError::Media`] for a frame of another size.
    pub fn push_times(&mut self, rgb: &[u8], times: usize) -> Result<bool, ClipError> {
        self.given += 1;
        let times = times.min(self.most - self.made);
        if times > 0 {
            let frame = self.resizer.resize(rgb)?;
            for _ in 0..times {
                self.rgb.extend_from_slice(&frame);
            }
            self.made += times;
        }
        Ok(self.made < self.most)
    }

    /// Ends the clip.
    ///
    /// Errors: [`ClipError::Empty`] when no frame was kept.
    pub fn finish(self) -> Result<Clip, ClipError> {
        if self.rgb.is_empty() {
            return Err(ClipError::Empty { frames: self.given });
        }
        Ok(Clip::new(self.canvas.width(), self.canvas.height(), self.rgb)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::FrameSlots;

    fn tiny() -> GeometryProfile {
        GeometryProfile { canvas_short_edge: 32, canvas_max_pixels: 2048, ..GeometryProfile::released() }
    }

    #[test]
    fn frames_are_cut_to_the_target_and_put_on_their_own_canvas() {
        let target = FrameCount::new(22).unwrap();
        let mut slots = FrameSlots::new(30.0, usize::MAX).unwrap();
        let mut builder = ClipBuilder::new(50, 30, &tiny(), target).unwrap();
        let mut pushed = 0;
        while builder.push_times(&vec![pushed; 50 * 30 * 3], slots.repeats()).unwrap() {
            pushed += 1;
        }
        let clip = builder.finish().unwrap();
        assert_eq!((clip.width(), clip.height(), clip.frames()), (64, 32, 22));
        // Slot 21 takes the last source frame at or before 21/24 s plus half a slot.
        assert_eq!((clip.frame(0).unwrap()[0], clip.frame(2).unwrap()[0], clip.frame(21).unwrap()[0]), (0, 3, 26));
        assert_eq!(pushed, 26);
    }

    #[test]
    fn a_frame_is_repeated_as_often_as_it_is_told_within_the_target() {
        let mut builder = ClipBuilder::new(32, 32, &tiny(), FrameCount::new(22).unwrap()).unwrap();
        let frame = |level: u8| vec![level; 32 * 32 * 3];
        assert_eq!(builder.push_times(&frame(1), 3), Ok(true));
        assert_eq!(builder.push_times(&frame(2), 0), Ok(true));
        assert_eq!(builder.push_times(&frame(3), usize::MAX), Ok(false));
        assert_eq!(builder.push_times(&frame(4), 1), Ok(false));
        let levels: Vec<u8> = builder.finish().unwrap().rgb().chunks(32 * 32 * 3).map(|frame| frame[0]).collect();
        assert_eq!(levels, [[1; 3].as_slice(), &[3; 19]].concat());
    }

    #[test]
    fn what_leaves_no_frame_is_refused() {
        let target = FrameCount::new(22).unwrap();
        let mut builder = ClipBuilder::new(32, 32, &tiny(), target).unwrap();
        assert_eq!(builder.push_times(&[0; 32 * 32 * 3], 0), Ok(true));
        let error = builder.finish().unwrap_err();
        assert_eq!(error.to_string(), "video has no frame at 24 frames a second, got 1 source frames");
        let mut builder = ClipBuilder::new(32, 32, &tiny(), target).unwrap();
        assert!(matches!(builder.push_times(&[0; 3], 1), Err(ClipError::Media(MediaError::PictureBytes { .. }))));
        assert!(ClipBuilder::new(500, 32, &tiny(), target).is_err());
    }
}
