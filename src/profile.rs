//! What a checkpoint serves, known before its weights are loaded.

use clapboard_engine::EngineConfig;
use clapboard_engine::checkpoint::{self, Checkpoint};
use clapboard_h3::ModelProfile;

/// Reads the profile of the partition that the engine is to load; configs only, no weights.
///
/// Errors: those of [`Checkpoint::open`] and [`Checkpoint::profile`], which name the file or the key.
pub(crate) fn read_profile(config: &EngineConfig) -> Result<ModelProfile, checkpoint::Error> {
    Checkpoint::open(&config.checkpoint)?.profile(&[config.partition])
}
