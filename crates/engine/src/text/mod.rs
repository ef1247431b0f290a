//! The text encoder: from a prompt and its references to the embeddings that condition the DiT.
//!
//! [`Presenter`] turns a request into a [`Presentation`] (token ids, modality tags, rotary positions) with the
//! checkpoint's [`Tokenizer`], and prepares the pixels that the vision tower reads; [`TextEncoder`] runs Qwen3-VL's
//! language model over the rows, with the tower's tokens in their places, and returns the un-normalised residual
//! stream.

mod buffers;
mod embedding;
mod layer;
mod model;
mod presentation;
mod presenter;
mod rope;
#[cfg(test)]
mod testing;
mod tokenizer;
mod weights;

pub(crate) use buffers::TextBuffers;
pub use model::TextEncoder;
pub use presentation::{Presentation, PresentedReference, TokenKind, VisionTokens};
pub use presenter::{PresentError, Presented, Presenter};
pub use rope::{RotaryPositions, RotaryTables, rotary_tables};
pub use tokenizer::{Error, Tokenizer};
pub use weights::LmLayerWeights;
