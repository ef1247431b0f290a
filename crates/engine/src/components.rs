//! The mapped weights of everything that one partition needs.

use clapboard_h3::Partition;

use crate::checkpoint::{self, Checkpoint, Component, ComponentId};

/// The components of one partition, every tensor compared with the configs.
pub(crate) struct Components {
    pub(crate) text_encoder: Component,
    pub(crate) dit: Component,
    pub(crate) video_vae: Component,
    pub(crate) audio_vae: Component,
}

impl Components {
    pub(crate) fn map(checkpoint: &Checkpoint, partition: Partition) -> Result<Self, checkpoint::Error> {
        Ok(Self {
            text_encoder: checkpoint.checked_component(ComponentId::TextEncoder)?,
            dit: checkpoint.checked_component(ComponentId::Dit(partition))?,
            video_vae: checkpoint.checked_component(ComponentId::VideoVae)?,
            audio_vae: checkpoint.checked_component(ComponentId::AudioVae)?,
        })
    }
}
