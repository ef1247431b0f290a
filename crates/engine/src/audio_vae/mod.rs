//! The audio VAE: 32 kHz samples to latents and back, in F32.
//!
//! The decoder: a projection and a convolution widen the latents; stages of a transposed convolution and the mean of
//! residual blocks each lengthen them until every latent has become a hop of samples. The encoder goes the other way by
//! strided convolutions, and narrows what they give with a causal attention. The network is mono: the stereo channels
//! are its batch. Buffers live for one stage, since a stage's samples are as many bytes as the next one's.

mod block;
mod decoder;
mod encoder;
mod encoder_weights;
mod error;
mod pre_block;
mod weights;

pub(crate) use decoder::decode_plan;
pub use decoder::{AudioDecoder, Waveform};
pub(crate) use encoder::encode_plan;
pub use encoder::{AudioEncoder, AudioRows};
pub use error::{DecodeError, EncodeError};
