//! The mapped weights of everything that one partition needs.

use std::sync::Arc;

use clapboard_h3::Partition;

use crate::checkpoint::{self, Checkpoint, Component, ComponentId};

/// The components of one partition, every tensor compared with the configs.
pub(crate) struct Components {
    pub(crate) text_encoder: Arc<Component>,
    pub(crate) dit: Arc<Component>,
    pub(crate) video_vae: Arc<Component>,
    pub(crate) audio_vae: Arc<Component>,
}

impl Components {
    pub(crate) fn map(checkpoint: &Checkpoint, partition: Partition) -> Result<Self, checkpoint::Error> {
        let component = |id| checkpoint.checked_component(id).map(Arc::new);
        Ok(Self {
            text_encoder: component(ComponentId::TextEncoder)?,
            dit: component(ComponentId::Dit(partition))?,
            video_vae: component(ComponentId::VideoVae)?,
            audio_vae: component(ComponentId::AudioVae)?,
        })
    }
}
