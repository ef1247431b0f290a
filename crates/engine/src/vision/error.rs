//! Why pixels cannot be shown to the language model.

use clapboard_h3::prepare::MediaError;

/// Why a picture or video was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VisionError {
    /// A video is too short to be sampled.
    #[error("video reference must have at least {needed} frames at 24 frames per second, got {frames}")]
    TooFewFrames {
        /// The video's frames.
        frames: usize,
        /// The fewest.
        needed: usize,
    },
    /// One side is so much longer than the other that no size keeps their ratio.
    #[error("sides of {width}x{height} pixels differ by more than a factor of {most}")]
    Elongated {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
        /// The largest ratio.
        most: usize,
    },
    /// No such size can be resized to.
    #[error(transparent)]
    Media(#[from] MediaError),
}
