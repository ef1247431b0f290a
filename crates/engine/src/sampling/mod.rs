//! Noise that PyTorch would draw, and the rows that latents travel in.

mod condition;
mod noise;
mod patchify;

pub use condition::ConditionRows;
pub use noise::{RequestNoise, TargetNoise, TorchGenerator};
pub use patchify::{LatentShape, patchify, unpatchify};
