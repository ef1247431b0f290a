//! The text encoder: from a prompt to the embeddings that condition the DiT.
//!
//! [`Presentation`] turns a request into rows (token ids, modality tags, rotary positions) with the checkpoint's
//! [`Tokenizer`]; [`TextEncoder`] runs Qwen3-VL's language model over them and returns the un-normalised residual
//! stream.

mod buffers;
mod layer;
mod model;
mod presentation;
mod rope;
#[cfg(test)]
mod testing;
mod tokenizer;
mod weights;

pub use model::TextEncoder;
pub use presentation::Presentation;
pub use rope::{RotaryPositions, RotaryTables, rotary_tables};
pub use tokenizer::{Error, Tokenizer};
pub use weights::LmLayerWeights;
