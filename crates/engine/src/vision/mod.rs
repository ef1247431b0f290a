//! Pictures and videos on their way into the language model.
//!
//! [`PixelFront`] resizes 8-bit pixels to what the vision tower takes and keeps them as [`Patches`]; [`VisionTower`]
//! runs Qwen3-VL's vision transformer over them, frame by frame, and returns [`VisionEmbeds`]: one row for each token
//! that stands for pixels, and the deepstack rows that the first layers of the language model add.
//!
//! A text-only request needs none of it: the tower's weights are loaded by [`VisionTower::load`] alone, which on the
//! CPU maps them without reading.

mod block;
mod buffers;
mod embeds;
mod error;
mod front;
mod merger;
mod patches;
mod position;
mod sampling;
mod smart_resize;
mod tower;
mod weights;

pub(crate) use buffers::{VisionBuffers, rows_per_batch};
pub use embeds::{VisionEmbeds, VisionFeatures};
pub use error::VisionError;
pub use front::{PixelFront, SampledVideo};
pub use patches::{PatchGrid, Patches, VisionInput};
pub(crate) use position::TAPS;
pub use sampling::{block_timestamps, sampled_frames};
pub use smart_resize::{image_size, video_size};
pub use tower::VisionTower;
pub use weights::{MergerWeights, VisionBlockWeights};
