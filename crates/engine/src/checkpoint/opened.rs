//! A checkpoint with its configs read.

use std::path::{Path, PathBuf};

use clapboard_h3::{ModelProfile, Partition, Shifts};

use super::component::{Component, ComponentId};
use super::config::{AudioVaeConfig, DitConfig, ProcessorConfig, SamplingConfig, TextEncoderConfig, VideoVaeConfig};
use super::error::Error;
use super::inventory::{Inventory, check};
use super::layout::{FASTVIDEO_MARKER, Layout, Location, is_file};
use super::settings::Settings;
use crate::files::{self, TABLE_LIMIT};

/// A checkpoint whose configs are read and fit together. Weights are mapped component by component.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    location: Location,
    settings: Settings,
    transformers: Vec<Transformer>,
    text_encoder: TextEncoderConfig,
    video_vae: VideoVaeConfig,
    audio_vae: AudioVaeConfig,
}

/// What one partition brings along.
#[derive(Debug, Clone)]
struct Transformer {
    partition: Partition,
    config: DitConfig,
    sampling: SamplingConfig,
}

impl Checkpoint {
    /// Finds out which layout `dir` holds and reads every config.
    ///
    /// Errors: [`Error::UnknownLayout`] and its like when it is no checkpoint, [`Error::Config`] for one config's
    /// problems, [`Error::Contradiction`] when configs do not fit together, [`Error::Unsupported`] for a distilled
    /// release that needs sparse attention.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let location = Location::detect(dir)?;
        let sparse = dir.join(FASTVIDEO_MARKER);
        if is_file(&sparse)? {
            let reason = "a FastVideo release needs gated sparse attention, which this engine does not have".to_owned();
            return Err(Error::Unsupported { path: sparse, reason });
        }
        let layout = location.layout();
        let mut transformers = Vec::new();
        for partition in location.partitions() {
            transformers.push(Transformer {
                partition,
                config: read_dit(&location, partition)?,
                sampling: SamplingConfig::read(layout, location.base(partition)?, partition.as_str())?,
            });
        }
        let checkpoint = Self {
            settings: Settings::read(&location.settings())?,
            text_encoder: read_text_encoder(&location)?,
            video_vae: read_video_vae(&location)?,
            audio_vae: read_audio_vae(&location)?,
            transformers,
            location,
        };
        checkpoint.check_together()?;
        Ok(checkpoint)
    }

    /// Returns the directory that was opened.
    pub fn root(&self) -> &Path {
        self.location.root()
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.location.layout()
    }

    /// Returns the partitions that are there, `fl2va` first.
    pub fn partitions(&self) -> Vec<Partition> {
        self.location.partitions()
    }

    /// Returns the name, geometry and defaults of the checkpoint.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a partition's transformer config.
    ///
    /// Errors: [`Error::NoPartition`].
    pub fn dit(&self, partition: Partition) -> Result<&DitConfig, Error> {
        Ok(&self.transformer(partition)?.config)
    }

    /// Returns a partition's released schedule.
    ///
    /// Errors: [`Error::NoPartition`].
    pub fn sampling(&self, partition: Partition) -> Result<&SamplingConfig, Error> {
        Ok(&self.transformer(partition)?.sampling)
    }

    /// Returns the text encoder's config.
    pub fn text_encoder(&self) -> &TextEncoderConfig {
        &self.text_encoder
    }

    /// Returns the video VAE's config.
    pub fn video_vae(&self) -> &VideoVaeConfig {
        &self.video_vae
    }

    /// Returns the audio VAE's config.
    pub fn audio_vae(&self) -> &AudioVaeConfig {
        &self.audio_vae
    }

    /// Returns what an engine that has loaded `partitions` serves.
    ///
    /// Errors: [`Error::NoPartition`]; [`Error::Contradiction`] when the partitions were released with different
    /// schedules, so that one profile cannot describe both.
    pub fn profile(&self, partitions: &[Partition]) -> Result<ModelProfile, Error> {
        let mut chosen: Option<&SamplingConfig> = None;
        for &partition in partitions {
            let sampling = self.sampling(partition)?;
            if chosen.is_some_and(|first| first != sampling) {
                let problem = "partitions have different schedules and must be served apart".to_owned();
                return Err(Error::Contradiction { root: self.root().to_owned(), problems: vec![problem] });
            }
            chosen = Some(sampling);
        }
        let shifts = chosen.map_or_else(Shifts::released, |sampling| Shifts {
            video: sampling.video_shift,
            audio: sampling.audio_shift,
        });
        Ok(ModelProfile {
            name: self.settings.name.clone(),
            geometry: self.settings.geometry.clone(),
            shifts,
            base_schedule: chosen.and_then(|sampling| sampling.base_schedule.clone()),
            partitions: partitions.to_vec(),
            defaults: self.settings.defaults,
        })
    }

    /// Lists the tensors that a component should have.
    ///
    /// Errors: [`Error::NoPartition`].
    pub fn inventory(&self, id: ComponentId) -> Result<Inventory, Error> {
        Ok(match id {
            ComponentId::Dit(partition) => Inventory::dit(id, self.dit(partition)?),
            ComponentId::TextEncoder => Inventory::text_encoder(&self.text_encoder),
            ComponentId::VideoVae => Inventory::video_vae(&self.video_vae),
            ComponentId::AudioVae => Inventory::audio_vae(&self.audio_vae),
        })
    }

    /// Maps a component's weights without comparing them with its config.
    ///
    /// Errors: [`Error::Missing`], [`Error::NoShards`], [`Error::Shard`], [`Error::TwiceStored`],
    /// [`Error::NoPartition`].
    pub fn component(&self, id: ComponentId) -> Result<Component, Error> {
        Component::open(id, self.layout(), &weights_folder(&self.location, id)?)
    }

    /// Maps a component's weights and compares every tensor with the config; headers are read, data is not.
    ///
    /// Errors: those of [`component`](Self::component), and [`Error::Unfit`] with every missing tensor, wrong shape,
    /// wrong element type or part that the config does not count.
    pub fn checked_component(&self, id: ComponentId) -> Result<Component, Error> {
        let component = self.component(id)?;
        let report = check(&component, &self.inventory(id)?);
        for name in &report.unknown {
            tracing::debug!(component = %id, tensor = name, "tensor is not used");
        }
        report.into_result(id)?;
        Ok(component)
    }

    /// Reads how pictures and videos become patches; a task without references never needs it.
    ///
    /// Errors: [`Error::Missing`], [`Error::Io`], [`Error::Config`]; [`Error::Contradiction`] when its patches are not
    /// those of the vision tower.
    pub fn processor(&self) -> Result<ProcessorConfig, Error> {
        let config = ProcessorConfig::read(&self.location.processor()?)?;
        let vision = &self.text_encoder.vision;
        let tower = [vision.patch_size, vision.temporal_patch_size, vision.spatial_merge_size];
        let problems: Vec<String> = [("image", config.image.patch()), ("video", config.video.patch())]
            .into_iter()
            .filter(|(_, patch)| *patch != tower)
            .map(|(kind, patch)| {
                format!("patch, frames and merge size: the {kind} processor has {patch:?}, text_encoder has {tower:?}")
            })
            .collect();
        if problems.is_empty() {
            return Ok(config);
        }
        Err(Error::Contradiction { root: self.root().to_owned(), problems })
    }

    /// Returns the tokenizer's file.
    ///
    /// Errors: [`Error::Missing`], [`Error::Io`].
    pub fn tokenizer_path(&self) -> Result<PathBuf, Error> {
        self.location.tokenizer()
    }

    /// Reads the tokenizer's file.
    ///
    /// Errors: [`Error::Missing`], [`Error::Io`], [`Error::File`].
    pub(crate) fn tokenizer_bytes(&self) -> Result<Vec<u8>, Error> {
        let path = self.tokenizer_path()?;
        files::read(&path, TABLE_LIMIT).map_err(Error::file(&path))
    }

    fn transformer(&self, partition: Partition) -> Result<&Transformer, Error> {
        let found = self.transformers.iter().find(|transformer| transformer.partition == partition);
        found.ok_or_else(|| Error::NoPartition { root: self.root().to_owned(), partition })
    }

    /// Compares the widths at which components meet.
    fn check_together(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        for Transformer { partition, config, .. } in &self.transformers {
            for (width, dit, other, whose) in [
                ("text width", config.text_dim, self.text_encoder.text.hidden_size, "text_encoder"),
                ("video latent channels", config.in_channels, self.video_vae.latent_channels, "video_vae"),
                ("audio latent channels", config.audio_in_channels, self.audio_vae.latent_channels, "audio_vae"),
            ] {
                if dit != other {
                    problems.push(format!("{width}: dit/{partition} has {dit}, {whose} has {other}"));
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::Contradiction { root: self.root().to_owned(), problems })
    }
}

pub(super) fn read_dit(location: &Location, partition: Partition) -> Result<DitConfig, Error> {
    DitConfig::read(location.layout(), &location.transformer(partition)?.join("config.json"))
}

pub(super) fn read_text_encoder(location: &Location) -> Result<TextEncoderConfig, Error> {
    TextEncoderConfig::read(&location.text_encoder()?.join("config.json"))
}

pub(super) fn read_video_vae(location: &Location) -> Result<VideoVaeConfig, Error> {
    VideoVaeConfig::read(location.layout(), &location.video_vae()?)
}

pub(super) fn read_audio_vae(location: &Location) -> Result<AudioVaeConfig, Error> {
    AudioVaeConfig::read(location.layout(), &location.audio_vae()?)
}

/// Returns the folder whose safetensors files hold a component.
pub(super) fn weights_folder(location: &Location, id: ComponentId) -> Result<PathBuf, Error> {
    match id {
        ComponentId::Dit(partition) => Ok(location.transformer(partition)?.to_owned()),
        ComponentId::TextEncoder => location.text_encoder(),
        ComponentId::VideoVae => VideoVaeConfig::weights(location.layout(), &location.video_vae()?),
        ComponentId::AudioVae => location.audio_vae(),
    }
}
