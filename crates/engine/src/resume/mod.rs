//! Going on with a generation from the border between two denoising steps.
//!
//! A [`DenoiseCheckpoint`] is all that a generation needs besides its specification, its media and an engine of the same
//! fingerprint: the latents after a number of steps. What comes before them (the prompt's embeddings, the rows of the
//! conditions, the tables of the schedule) is computed again, to the same bits. A generation that goes on from a checkpoint makes the frames and
//! samples of one that was never interrupted, bit for bit.

mod error;
mod identity;
mod keeper;
mod state;
#[cfg(test)]
mod tests;

pub use error::ResumeError;
pub(crate) use identity::Identity;
pub(crate) use keeper::Keeper;
pub(crate) use state::{RowShapes, SavedRows};

/// A denoising state at a step border.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenoiseCheckpoint {
    /// How many steps are done: at least one, at most the forwards of the schedule.
    pub step: usize,
    /// The state as a safetensors file, the same bytes for the same state.
    ///
    /// F32 tensors `video_rows` and `audio_rows`; the metadata name the format's version, the step, the SHA-256 of the
    /// encoded specification and of the prepared media, the engine's fingerprint and a SHA-256 of step and data.
    pub bytes: Vec<u8>,
}

/// Decides which states are kept, and takes them.
pub trait CheckpointSink: Send {
    /// Tells whether to keep the state after `step` of `total` steps. Asked after every step on the engine's thread: has
    /// to be cheap and must not block.
    fn wants(&mut self, step: usize, total: usize) -> bool;

    /// Takes a state: one that was wanted, or, at [`Command::CheckpointAndStop`](crate::Command::CheckpointAndStop), the
    /// one after the last finished step if it is beyond the state that was resumed from and beyond every one kept. Must
    /// not block.
    fn keep(&mut self, checkpoint: DenoiseCheckpoint);
}

/// Never wants a state and drops what it gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCheckpoints;

impl CheckpointSink for NoCheckpoints {
    fn wants(&mut self, _step: usize, _total: usize) -> bool {
        false
    }

    fn keep(&mut self, _checkpoint: DenoiseCheckpoint) {}
}

/// Where a generation begins and who keeps its states.
pub struct Continuation<'a> {
    /// The bytes of the [`DenoiseCheckpoint`] to go on from; without them the generation begins at its noise.
    pub resume: Option<&'a [u8]>,
    /// Takes the states to go on from later.
    pub checkpoints: &'a mut dyn CheckpointSink,
}
