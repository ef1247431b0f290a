//! What a checkpoint serves, known before its weights are loaded.

use std::path::Path;

use clapboard_engine::EngineConfig;
use clapboard_engine::checkpoint::{self, Checkpoint};
use clapboard_h3::{ModelProfile, Partition};

/// The name of a released checkpoint.
pub(crate) const RELEASED_NAME: &str = "minimax-h3";

/// Reads the profile of the partitions that the engine is to serve; configs only, no weights.
///
/// Errors: those of [`profile_of`].
pub(crate) fn read_profile(config: &EngineConfig) -> Result<ModelProfile, checkpoint::Error> {
    profile_of(&config.checkpoint, &config.partitions)
}

/// Reads the profile of some partitions of a checkpoint; configs only, no weights.
///
/// Errors: those of [`Checkpoint::open`] and [`Checkpoint::profile`], which name the file or the key.
pub(crate) fn profile_of(root: &Path, partitions: &[Partition]) -> Result<ModelProfile, checkpoint::Error> {
    Checkpoint::open(root)?.profile(partitions)
}
