//! Typed configs of every component, read from the JSON of either layout.
//!
//! No released config was at hand when this was written. So unknown keys are tolerated and logged once per file,
//! required keys are listed all at once when absent, and keys that the known readers fix in code have the same default
//! here. Values that would make the arithmetic meaningless are refused.

mod audio_vae;
mod dit;
pub(super) mod fields;
pub(super) mod json;
mod processor;
mod sampling;
mod text;
mod video_vae;

pub use audio_vae::AudioVaeConfig;
pub use dit::DitConfig;
pub use processor::{PixelConfig, ProcessorConfig};
pub use sampling::SamplingConfig;
pub use text::{TextConfig, TextEncoderConfig, VisionConfig};
pub use video_vae::VideoVaeConfig;

#[cfg(test)]
mod tests;
