//! The sizes of the networks of one partition.

use std::path::Path;

use clapboard_h3::{Partition, Shifts};

use crate::checkpoint::{AudioVaeConfig, Checkpoint, DitConfig, Error, Settings, TextEncoderConfig, VideoVaeConfig};
use crate::components::Components;
use crate::video_vae::TileGeometry;

/// What a plan has to know of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSizes {
    /// Whose transformer it is.
    pub partition: Partition,
    /// The transformer.
    pub dit: DitConfig,
    /// The text encoder.
    pub text: TextEncoderConfig,
    /// The video VAE.
    pub video_vae: VideoVaeConfig,
    /// The audio VAE.
    pub audio_vae: AudioVaeConfig,
    /// Its canvases, durations and defaults.
    pub settings: Settings,
    /// Its sigma shifts.
    pub shifts: Shifts,
    /// The base levels of a distilled checkpoint.
    pub base_schedule: Option<Vec<f32>>,
}

impl ModelSizes {
    /// Returns the sizes of the release, for which no checkpoint is needed.
    pub fn released(partition: Partition) -> Self {
        Self {
            partition,
            dit: DitConfig::released(),
            text: TextEncoderConfig::released(),
            video_vae: VideoVaeConfig::released(),
            audio_vae: AudioVaeConfig::released(),
            settings: Settings::released(),
            shifts: Shifts::released(),
            base_schedule: None,
        }
    }

    /// Reads the sizes of a checkpoint: its configs, and the headers of its weights, which must be what the configs say.
    ///
    /// Errors: [`Error`] naming the file, key or tensor that is missing or wrong.
    pub fn read(dir: &Path, partition: Partition) -> Result<Self, Error> {
        let checkpoint = Checkpoint::open(dir)?;
        Components::map(&checkpoint, partition)?;
        Self::of(&checkpoint, partition)
    }

    /// Takes the sizes of an opened checkpoint from its configs.
    ///
    /// Errors: [`Error::NoPartition`].
    pub fn of(checkpoint: &Checkpoint, partition: Partition) -> Result<Self, Error> {
        let profile = checkpoint.profile(&[partition])?;
        Ok(Self {
            partition,
            dit: checkpoint.dit(partition)?.clone(),
            text: checkpoint.text_encoder().clone(),
            video_vae: checkpoint.video_vae().clone(),
            audio_vae: checkpoint.audio_vae().clone(),
            settings: checkpoint.settings().clone(),
            shifts: profile.shifts,
            base_schedule: profile.base_schedule,
        })
    }

    /// How pictures are cut into tiles.
    pub(super) fn tiles(&self) -> TileGeometry {
        TileGeometry { size: self.video_vae.tile_size, min_overlap: self.video_vae.tile_overlap_min }
    }
}
