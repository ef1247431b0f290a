//! The audio VAE's decoder: latents to 32 kHz samples, in F32.
//!
//! A projection and a convolution widen the latents; stages of a transposed convolution and the mean of residual blocks
//! each lengthen them until every latent has become a hop of samples. The network is mono: the stereo channels are its
//! batch. Buffers live for one stage, since a stage's samples are as many bytes as the next one's.

mod block;
mod decoder;
mod error;
mod weights;

pub use decoder::{AudioDecoder, Waveform};
pub use error::DecodeError;
