//! How a running generation is told to go on or to stop.

/// What a generation has to do at its next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Go on.
    Run,
    /// Stop and discard.
    Cancel,
    /// Stop so that the generation can go on elsewhere: the state after the last finished denoising step goes to the
    /// generation's [`CheckpointSink`](crate::CheckpointSink), unless somebody has it already. Before the first step is
    /// finished there is none, and the generation starts over.
    CheckpointAndStop,
}

/// Asked at every language-model layer, DiT block and decoder tile.
pub trait Control: Send + Sync {
    /// What to do now. Called often: has to be cheap and must not block.
    fn command(&self) -> Command;
}

/// Never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uninterrupted;

impl Control for Uninterrupted {
    fn command(&self) -> Command {
        Command::Run
    }
}
