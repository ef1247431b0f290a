//! The seam between the worker and the engine.

use clapboard_engine::{Done, EngineHandle, Generation, LoadError};
use clapboard_h3::{ModelProfile, Partition};

/// Runs generations one after another, each on its own thread or behind one.
///
/// Its real implementation is the engine's handle; the stories about faults script one that hangs or panics.
pub trait Generator: Send + Sync {
    /// What it can generate.
    fn profile(&self) -> &ModelProfile;

    /// What the results of a partition depend on to the last bit: generators of the same fingerprint go on from each other's
    /// checkpoints. None for a partition that is not among those of the profile.
    fn fingerprint(&self, partition: Partition) -> Option<&str>;

    /// Looks whether the weights of a partition that could not be loaded are there again, as far as that can be told without
    /// loading them. Blocks; a job of the partition tells the rest. What can always load has nothing to look for.
    ///
    /// Errors: [`LoadError`] naming what is missing or wrong.
    fn look_for(&self, _partition: Partition) -> Result<(), LoadError> {
        Ok(())
    }

    /// Begins a generation without blocking; `done` hears how it ended, once.
    fn generate(&self, generation: Generation, done: Done);
}

impl Generator for EngineHandle {
    fn profile(&self) -> &ModelProfile {
        self.profile()
    }

    fn fingerprint(&self, partition: Partition) -> Option<&str> {
        self.fingerprint(partition)
    }

    fn look_for(&self, partition: Partition) -> Result<(), LoadError> {
        self.look_for(partition)
    }

    fn generate(&self, generation: Generation, done: Done) {
        self.generate(generation, done);
    }
}
