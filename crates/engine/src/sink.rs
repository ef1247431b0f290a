//! Where decoded frames and samples go.

use std::time::Duration;

use clapboard_h3::{Canvas, FrameCount};

/// What a generation will hand to its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaFormat {
    /// Size of a frame, pixels.
    pub canvas: Canvas,
    /// Frames in all, at 24 per second.
    pub num_frames: FrameCount,
    /// Samples per second and channel.
    pub sample_rate: usize,
}

/// A piece of the result. Every sample comes before the first frame.
#[derive(Debug, Clone, PartialEq)]
pub enum MediaChunk {
    /// Interleaved stereo samples in `[-1, 1]`.
    Samples(Vec<f32>),
    /// Whole frames one after another, each `height × width × 3` bytes of RGB.
    Frames(Vec<u8>),
}

/// The sink failed for good.
#[derive(Debug, thiserror::Error)]
#[error("the media sink failed")]
pub struct SinkError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Takes frames and samples with bounded back-pressure.
pub trait FrameSink: Send {
    /// Hears what is coming, once, before the first chunk.
    ///
    /// Errors: [`SinkError`] when it cannot take such media.
    fn begin(&mut self, format: &MediaFormat) -> Result<(), SinkError>;

    /// Takes a chunk, or gives it back when it could not within `patience`, so that the engine can look at its control
    /// before it offers the chunk again: a hung muxer never hides a cancel.
    ///
    /// Errors: [`SinkError`] when it failed for good.
    fn offer(&mut self, chunk: MediaChunk, patience: Duration) -> Result<Option<MediaChunk>, SinkError>;
}
