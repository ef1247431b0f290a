//! Why there are no pictures of a video.

use crate::Error as ToolError;

/// Why the pictures of a video were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// ffmpeg or ffprobe did not do its part, or was told to stop.
    #[error("could not read the video's frames")]
    Tool(#[from] ToolError),
    /// The file holds no video stream.
    #[error("the file holds no video stream")]
    NoVideo,
    /// The file does not say how many frames it has, or has none.
    #[error("the file does not say that its video has any frames")]
    NoFrames,
    /// Fewer frames were decoded than the file says that it has.
    #[error("{expected} frames of the video were picked, and only {got} came")]
    FramesMissing {
        /// How many were picked.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A picture was not encoded.
    #[error("could not encode a picture of the video")]
    Encode(#[from] image::ImageError),
}
