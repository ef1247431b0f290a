//! The seam between the worker and the engine.

use clapboard_engine::{Done, EngineHandle, Generation};
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

    fn generate(&self, generation: Generation, done: Done) {
        self.generate(generation, done);
    }
}
