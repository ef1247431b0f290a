//! Noise that PyTorch would draw, and the rows that latents travel in.

mod noise;
mod patchify;

pub use noise::{InitialNoise, TorchGenerator};
pub use patchify::{LatentShape, patchify, unpatchify};
