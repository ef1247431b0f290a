//! The video VAE's decoder: a vision transformer that turns latents into frames, a clip of a tile at a time.
//!
//! Latents `[channels, t, h, w]` are cut in time into overlapping clips ([`chunks`]) and in space into overlapping
//! tiles ([`tiles`]). Every clip of a tile is decoded on its own; tiles are blended into the picture, clips are
//! cross-faded into the film, and frames leave as soon as nothing will change them. So memory holds one clip, never
//! the film.

pub mod chunks;
pub mod rope;
pub mod tiles;

mod block;
mod buffers;
mod decode;
mod decoder;
mod error;
mod latents;
mod precision;
mod stitch;
mod weights;

pub use decode::{PIXEL_MEAN, PIXEL_STD, VideoDecoder};
pub use error::DecodeError;
pub use latents::VideoLatents;
pub use precision::DecodePrecision;
pub use tiles::TileGeometry;
pub use weights::{Affine, VitBlockWeights, VitWeights};
