//! The video VAE: a vision transformer that turns latents into frames, and causal convolutions that turn frames into
//! latents, a clip of a tile at a time.
//!
//! Latents `[channels, t, h, w]` are cut in time into overlapping clips ([`chunks`]) and in space into overlapping
//! tiles ([`tiles`]). Every clip of a tile is decoded on its own; tiles are blended into the picture, clips are
//! cross-faded into the film, and frames leave as soon as nothing will change them. So memory holds one clip, never
//! the film.
//!
//! Frames that condition a generation are cut in time into clips that do not overlap ([`clips`]), and in space into the
//! same tiles; what is blended are the moments of their latents.

pub mod chunks;
pub mod clips;
pub mod rope;
pub mod tiles;

mod block;
mod buffers;
mod decode;
mod decoder;
mod encode;
mod encoder;
mod encoder_weights;
mod error;
mod frames;
mod latents;
mod moments;
mod precision;
mod stitch;
mod weights;

pub(crate) use buffers::{TileBuffers, film_plan};
pub use decode::{PIXEL_MEAN, PIXEL_STD, VideoDecoder};
pub use encode::VideoEncoder;
pub(crate) use encode::encode_plan;
pub use encoder_weights::{Convolution, EncoderWeights, LevelWeights, ResidualWeights};
pub use error::{DecodeError, EncodeError};
pub(crate) use frames::pixel_levels;
pub use frames::{FrameValues, VideoFrames};
pub use latents::VideoLatents;
pub use moments::{ConditionLatents, Moments, posterior_noise};
pub use precision::DecodePrecision;
pub use tiles::TileGeometry;
pub use weights::{VitBlockWeights, VitWeights};
