//! The transformer's one sequence: text, conditions, target audio and target video, row by row.
//!
//! Rows stand in this order: the text; the conditions (keyframes, or reference blocks in their order, a video's
//! soundtrack before its pictures); the target's audio, all left rows before all right rows; the target's video,
//! frame by frame. Every row has a modality tag, which selects its modulation, and a place in time, height and width,
//! which turns its attention. One unit of time is one audio latent (1/40 s), so that a video frame lasts 5/3.
//!
//! Positions are F64 and equal the reference's bit for bit: where it sums pairwise or in order, so does this.

mod condition;
mod grid;
mod layout;
mod tag;
mod timesteps;

pub use condition::{Anchor, Conditions, LatentGrid, Reference, Target};
pub use layout::{LayoutError, PackedLayout};
pub use tag::ModalityTag;
pub use timesteps::{CONDITION_TIMESTEP, RowTimesteps};
