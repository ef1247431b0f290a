//! How a running generation is told to go on or to stop.

/// What a generation has to do at its next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Go on.
    Run,
    /// Stop and discard.
    Cancel,
    /// Stop: the job goes on elsewhere. No state is kept yet, so it starts over.
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
