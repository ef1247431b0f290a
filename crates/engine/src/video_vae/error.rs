//! Why a decoder or an encoder could not be run.

use crate::ops::OpError;
use crate::run::RunError;

/// Why latents were not decoded to their end; `E` is what the receiver of the frames said.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError<E> {
    /// The latents do not have the shape that was said.
    #[error("video latents: {actual} values do not fill {channels} channels of {frames} x {height} x {width}")]
    Shape {
        /// Values given.
        actual: usize,
        /// Latent channels of the model.
        channels: usize,
        /// Latent frames.
        frames: usize,
        /// Latent rows.
        height: usize,
        /// Latent columns.
        width: usize,
    },
    /// There are too few latent frames for one clip.
    #[error("video latents: {frames} latent frames do not make a clip, at least {least} are needed")]
    TooShort {
        /// Latent frames given.
        frames: usize,
        /// The fewest that make a clip.
        least: usize,
    },
    /// The network failed or was stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The receiver did not take the frames.
    #[error("decoded frames were not taken")]
    Emit(E),
}

impl<E> From<OpError> for DecodeError<E> {
    fn from(error: OpError) -> Self {
        DecodeError::Run(RunError::Op(error))
    }
}

/// Why frames were not encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The frames do not have the sizes that were said, or there are none.
    #[error("video frames: {actual} values do not fill one or more frames, {frames} of {height} x {width} x 3")]
    Shape {
        /// Values given.
        actual: usize,
        /// Frames.
        frames: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// The sides do not lie on the latent grid, or are too short for it.
    #[error("video frames: {height} x {width} pixels are not multiples of {step} of at least {least} each")]
    Sides {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Pixels per latent and side.
        step: usize,
        /// The shortest side.
        least: usize,
    },
    /// There are statistics for another number of channels.
    #[error("latents of {channels} channels cannot be normalised by statistics of {statistics}")]
    Channels {
        /// Channels of the latents.
        channels: usize,
        /// Channels that have statistics.
        statistics: usize,
    },
    /// The network gave what is no latent.
    #[error("the encoder gave values that are not finite or too large for F16")]
    NotFinite,
    /// The network failed or was stopped.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<OpError> for EncodeError {
    fn from(error: OpError) -> Self {
        EncodeError::Run(RunError::Op(error))
    }
}
