//! Preparing reference media: from decoded pictures, frames and samples to what the networks take.
//!
//! Nothing here decodes a file. What comes in is 8-bit RGB and floating-point samples; what goes out is a
//! [`PreparedReference`] for each reference, in packed order. [`ReferenceLimits`] says what may come in at all.

mod clip;
mod fit;
mod frame_rate;
mod limits;
mod media;
mod order;
mod resample;
mod resize;
mod sound;

pub use clip::{ClipBuilder, ClipError};
pub use fit::{FitError, fit_keyframe, fit_reference_picture};
pub use frame_rate::{BadFrameRate, FrameSlots, vae_frames};
pub use limits::{LimitRule, OutsideLimits, ReferenceLimits, TotalTooLong};
pub use media::{Clip, MediaError, Picture, PreparedReference, Recording, SOUND_RATE, Sound};
pub use order::{ReferenceKind, packed_order};
pub use resample::Resampler;
pub use resize::{Filter, Resizer, resize};
pub use sound::{fit_sound, kept_samples};
