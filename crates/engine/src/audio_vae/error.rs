//! Why the encoder or the decoder could not be run.

use crate::ops::OpError;
use crate::run::RunError;

/// Why latents were not decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The latents do not fill whole frames of every channel.
    #[error("audio latents: {actual} values are not {batch} x {channels} channels of one or more latents each")]
    Shape {
        /// Values given.
        actual: usize,
        /// Stereo channels.
        batch: usize,
        /// Latent channels of the model.
        channels: usize,
    },
    /// The network failed or was stopped.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<OpError> for DecodeError {
    fn from(error: OpError) -> Self {
        DecodeError::Run(RunError::Op(error))
    }
}

/// Why a sound was not encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The samples are so large that latents overflow.
    #[error("the sound's latents are not finite")]
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
