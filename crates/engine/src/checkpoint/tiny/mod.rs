//! Writing small checkpoints that exercise every part of a released one.
//!
//! A tiny checkpoint has the released widths where the checkpoint fixes them (latent channels, patch, clip, hop, the
//! conditioning layer) and small ones elsewhere. Its weights come from a recipe, a rule for every tensor, so that the
//! same bits appear here and in the Python oracle that made the golden files. [`write_from_golden`] follows the recipe
//! of a golden folder, [`write_tiny`] the one of the repository's own goldens with another seed.
//!
//! [`write_sparse_released`] writes the opposite: headers of released size, and no bytes.

mod assets;
mod build;
mod error;
mod manifest;
mod maps;
mod recipe;
mod sparse;
mod staging;
mod writer;

pub use build::{write_from_golden, write_tiny};
pub use error::Error;
pub use sparse::write_sparse_released;

#[cfg(test)]
mod tests;
