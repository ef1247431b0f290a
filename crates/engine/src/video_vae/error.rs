//! Why a decoder could not be run.

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
