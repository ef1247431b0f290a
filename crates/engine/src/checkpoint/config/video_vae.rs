//! The video VAE's config.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::fields::{Fields, product};
use crate::checkpoint::error::Error;
use crate::checkpoint::layout::Layout;

/// Sizes and constants of the video VAE: a causal convolutional encoder and a ViT decoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VideoVaeConfig {
    /// Pixel channels that go in.
    pub in_channels: usize,
    /// Pixel channels that come out.
    pub out_channels: usize,
    /// Latent channels.
    pub latent_channels: usize,
    /// Encoder width of each level.
    pub block_out_channels: Vec<usize>,
    /// Residual blocks of an encoder level.
    pub layers_per_block: usize,
    /// Spatial stride of each level's downsampling.
    pub spatial_downsample: Vec<usize>,
    /// Temporal stride of each level's downsampling.
    pub temporal_downsample: Vec<usize>,
    /// Groups of the encoder's norms.
    pub norm_num_groups: usize,
    /// Epsilon of the encoder's norms.
    pub norm_eps: f64,
    /// Decoder blocks.
    pub decoder_num_layers: usize,
    /// Decoder attention heads.
    pub decoder_num_heads: usize,
    /// Channels of one decoder head.
    pub decoder_head_dim: usize,
    /// Learned tokens appended to every decoded clip.
    pub decoder_num_register_tokens: usize,
    /// Inner width of the decoder's feed-forward layers over its width.
    pub decoder_ffn_mult: usize,
    /// Base of the decoder's rotary frequencies.
    pub decoder_rope_theta: f64,
    /// Share of a head's channels that rotate.
    pub decoder_rope_dim_ratio: f64,
    /// Epsilon of the decoder's norms.
    pub decoder_norm_eps: f64,
    /// Frames that are encoded together.
    pub clip_length: usize,
    /// Trailing latents that an encode drops.
    pub token_drop: usize,
    /// Side of a tile in pixels.
    pub tile_size: usize,
    /// Smallest overlap of two tiles in pixels.
    pub tile_overlap_min: usize,
    /// Mean of each latent channel.
    pub latents_mean: Vec<f32>,
    /// Standard deviation of each latent channel.
    pub latents_std: Vec<f32>,
}

impl VideoVaeConfig {
    /// Reads the config of a video VAE folder: `config.json`, and in the original layout that of its source folder.
    ///
    /// What the known readers fix in code has the same default here: tiles of 256 pixels overlapping by 64 or more,
    /// clips of 17 frames dropping 3 latents, 32 norm groups, 4 register tokens, a feed-forward of 4 times the width.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule of one file.
    pub fn read(layout: Layout, folder: &Path) -> Result<Self, Error> {
        match layout {
            Layout::Original => read_original(folder),
            Layout::Diffusers => read_diffusers(folder),
        }
    }

    /// Returns the folder with the weights: the source folder in the original layout.
    pub(in crate::checkpoint) fn weights(layout: Layout, folder: &Path) -> Result<PathBuf, Error> {
        if layout == Layout::Diffusers {
            return Ok(folder.to_owned());
        }
        let mut fields = Fields::open(&folder.join("config.json"))?;
        Ok(folder.join(fields.text_or("source_path", "source")))
    }

    /// Returns the decoder's width.
    pub fn decoder_dim(&self) -> usize {
        self.decoder_num_heads * self.decoder_head_dim
    }

    /// Returns the inner width of the decoder's feed-forward layers.
    pub fn decoder_ffn_dim(&self) -> usize {
        self.decoder_dim() * self.decoder_ffn_mult
    }

    /// Returns how many of a decoder head's channels rotate.
    pub fn decoder_rope_dim(&self) -> usize {
        (self.decoder_head_dim as f64 * self.decoder_rope_dim_ratio) as usize
    }

    /// Returns pixels per latent, per side.
    pub fn spatial_compression(&self) -> usize {
        product(&self.spatial_downsample)
    }

    /// Returns frames per latent.
    pub fn temporal_compression(&self) -> usize {
        product(&self.temporal_downsample)
    }

    /// Returns the released model's sizes, with latent statistics that change nothing.
    pub fn released() -> Self {
        Self {
            in_channels: 3,
            out_channels: 3,
            latent_channels: 24,
            block_out_channels: vec![128, 256, 256, 512, 512, 1024],
            layers_per_block: 2,
            spatial_downsample: vec![2, 2, 2, 2, 1, 1],
            temporal_downsample: vec![1, 2, 2, 1, 1, 1],
            norm_num_groups: 32,
            norm_eps: 1e-6,
            decoder_num_layers: 36,
            decoder_num_heads: 32,
            decoder_head_dim: 64,
            decoder_num_register_tokens: 4,
            decoder_ffn_mult: 4,
            decoder_rope_theta: 100.0,
            decoder_rope_dim_ratio: 0.75,
            decoder_norm_eps: 1e-5,
            clip_length: 17,
            token_drop: 3,
            tile_size: 256,
            tile_overlap_min: 64,
            latents_mean: vec![0.0; 24],
            latents_std: vec![1.0; 24],
        }
    }

    fn check(&self, fields: &mut Fields) {
        let levels = self.block_out_channels.len();
        fields.rule(self.spatial_downsample.len() == levels && self.temporal_downsample.len() == levels, || {
            format!(
                "{levels} encoder levels need as many strides, found {:?} and {:?}",
                self.spatial_downsample, self.temporal_downsample
            )
        });
        // A level that keeps its sides has no padding to shrink them by, so its frames cannot become fewer either.
        let strides = || self.spatial_downsample.iter().zip(&self.temporal_downsample);
        fields.rule(strides().all(|(&space, &time)| space == 2 && time > 0 || space == 1 && time == 1), || {
            format!(
                "encoder levels must halve the sides or keep sides and frames, found strides {:?} and {:?}",
                self.spatial_downsample, self.temporal_downsample
            )
        });
        fields.rule(self.block_out_channels.iter().all(|width| width.is_multiple_of(self.norm_num_groups)), || {
            format!(
                "encoder widths {:?} must be multiples of {} norm groups",
                self.block_out_channels, self.norm_num_groups
            )
        });
        let rotated = self.decoder_head_dim as f64 * self.decoder_rope_dim_ratio;
        let fits = rotated.fract() == 0.0 && rotated as usize <= self.decoder_head_dim;
        fields.rule(fits && (rotated as usize).is_multiple_of(6), || {
            format!(
                "{} of {} channels of a decoder head rotate, that must be a multiple of 6 inside the head",
                rotated, self.decoder_head_dim
            )
        });
        // Requests are laid out, and frames counted, by these before any checkpoint is looked at.
        let side = self.spatial_compression();
        for (what, expected, found) in [
            ("pixel channels that go in", 3, self.in_channels),
            ("pixel channels", 3, self.out_channels),
            ("pixels per latent and side", 16, side),
            ("frames per latent", 4, self.temporal_compression()),
            ("frames per clip", 17, self.clip_length),
            ("latents dropped at the end of a video", 3, self.token_drop),
        ] {
            fields.rule(found == expected, || format!("{what} must be {expected}, found {found}"));
        }
        fields.rule(self.tile_overlap_min < self.tile_size, || {
            format!("tiles of {} pixels cannot overlap by {}", self.tile_size, self.tile_overlap_min)
        });
        fields.rule(self.tile_size.is_multiple_of(side) && self.tile_overlap_min.is_multiple_of(side), || {
            format!(
                "tile size {} and overlap {} must be multiples of {side} pixels",
                self.tile_size, self.tile_overlap_min
            )
        });
    }

    fn check_statistics(&self, fields: &mut Fields) {
        check_statistics(fields, self.latent_channels, &self.latents_mean, &self.latents_std);
    }
}

/// Requires one mean and one positive standard deviation for each latent channel.
pub(super) fn check_statistics(fields: &mut Fields, channels: usize, mean: &[f32], std: &[f32]) {
    fields.rule(mean.len() == channels && std.len() == channels, || {
        format!(
            "{channels} latent channels need as many latents_mean and latents_std, found {} and {}",
            mean.len(),
            std.len()
        )
    });
    fields.rule(std.iter().all(|&std| std > 0.0), || "latents_std must be positive".to_owned());
}

fn read_diffusers(folder: &Path) -> Result<VideoVaeConfig, Error> {
    let mut fields = Fields::open(&folder.join("config.json"))?;
    let config = VideoVaeConfig {
        in_channels: fields.size("in_channels"),
        out_channels: fields.size("out_channels"),
        latent_channels: fields.size("latent_channels"),
        block_out_channels: fields.sizes("block_out_channels"),
        layers_per_block: fields.size("layers_per_block"),
        spatial_downsample: fields.sizes("spatial_downsample_factors"),
        temporal_downsample: fields.sizes("temporal_downsample_factors"),
        norm_num_groups: fields.size_or("norm_num_groups", 32),
        norm_eps: fields.positive_or("norm_eps", 1e-6),
        decoder_num_layers: fields.size("decoder_num_layers"),
        decoder_num_heads: fields.size("decoder_num_attention_heads"),
        decoder_head_dim: fields.size("decoder_attention_head_dim"),
        decoder_num_register_tokens: fields.size_or("decoder_num_register_tokens", 4),
        decoder_ffn_mult: fields.size_or("decoder_ffn_mult", 4),
        decoder_rope_theta: fields.positive_or("decoder_rope_theta", 100.0),
        decoder_rope_dim_ratio: fields.positive_or("decoder_rope_dim_ratio", 0.75),
        decoder_norm_eps: fields.positive_or("decoder_norm_eps", 1e-5),
        clip_length: fields.size_or("clip_length", 17),
        token_drop: fields.size_or("token_drop", 3),
        tile_size: 256,
        tile_overlap_min: 64,
        latents_mean: fields.reals("latents_mean"),
        latents_std: fields.reals("latents_std"),
    };
    let padding = fields.text_or("spatial_padding_mode", "reflect");
    fields.rule(padding == "reflect", || format!("spatial_padding_mode must be reflect, found {padding}"));
    fields.ignore(&["_class_name", "_diffusers_version"]);
    config.check(&mut fields);
    config.check_statistics(&mut fields);
    fields.finish(config)
}

fn read_original(folder: &Path) -> Result<VideoVaeConfig, Error> {
    let mut outer = Fields::open(&folder.join("config.json"))?;
    let latent_channels = outer.size("latent_channels");
    let latents_mean = outer.reals("latents_mean");
    let latents_std = outer.reals("latents_std");
    let clip_length = outer.size_or("vae_clip_length", 17);
    let token_drop = outer.size_or("vae_token_drop", 3);
    let tile_size = outer.size_or("vae_tile_size", 256);
    let tile_overlap_min = outer.size_or("vae_tile_overlap_min", 64);
    for tiling in ["vae_encoder_tiling", "vae_decoder_tiling"] {
        let on = outer.flag_or(tiling, true);
        outer.rule(on, || format!("{tiling} must be on: the released look comes from blended tiles"));
    }
    let source = folder.join(outer.text_or("source_path", "source"));
    outer.ignore(&["source_class_name", "source_safetensors_path", "auto_map", "architectures", "model_type"]);
    outer.ignore(&["vae_parallel_tiling", "vae_encoder_parallel", "vae_decoder_parallel", "vae_chunk_dim"]);
    check_statistics(&mut outer, latent_channels, &latents_mean, &latents_std);
    outer.finish(())?;

    let mut inner = Fields::open(&source.join("config.json"))?;
    let base = inner.size("ch");
    let multiples = inner.sizes("ch_mult");
    let config = VideoVaeConfig {
        in_channels: inner.size("in_channels"),
        out_channels: inner.size("out_ch"),
        latent_channels,
        block_out_channels: multiples.iter().map(|multiple| base * multiple).collect(),
        layers_per_block: inner.size("num_res_blocks"),
        spatial_downsample: inner.sizes("space_down"),
        temporal_downsample: inner.sizes("time_down"),
        norm_num_groups: inner.size_or("norm_num_groups", 32),
        norm_eps: 1e-6,
        decoder_num_layers: inner.size("vit_decoder_kwargs.num_layers"),
        decoder_num_heads: inner.size("vit_decoder_kwargs.heads"),
        decoder_head_dim: inner.size("vit_decoder_kwargs.dim_head"),
        decoder_num_register_tokens: inner.size_or("vit_decoder_kwargs.num_register_tokens", 4),
        decoder_ffn_mult: inner.size_or("vit_decoder_kwargs.ffn_mult", 4),
        decoder_rope_theta: inner.positive_or("vit_decoder_kwargs.rope_theta", 100.0),
        decoder_rope_dim_ratio: inner.positive_or("vit_decoder_kwargs.rope_dim_ratio", 0.75),
        decoder_norm_eps: 1e-5,
        clip_length,
        token_drop,
        tile_size,
        tile_overlap_min,
        latents_mean,
        latents_std,
    };
    for key in ["z_channels", "embed_dim"] {
        if let Some(found) = inner.size_if(key) {
            inner.rule(found == latent_channels, || {
                format!("{key} {found} must equal the latent_channels {latent_channels} of ../config.json")
            });
        }
    }
    let padding = inner.text_or("padding_mode", "reflect");
    inner.rule(padding == "reflect", || format!("padding_mode must be reflect, found {padding}"));
    for (key, expected) in [
        ("use_3d_conv", true),
        ("use_vit_decoder", true),
        ("causal_encoder", true),
        ("causal_decoder", false),
        ("use_t_isolated_gn", true),
    ] {
        let found = inner.flag_or(key, expected);
        inner.rule(found == expected, || format!("{key} must be {expected}"));
    }
    inner.ignore(&["_class_name", "_diffusers_version"]);
    config.check(&mut inner);
    inner.finish(config)
}
