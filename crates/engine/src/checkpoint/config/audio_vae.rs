//! The audio VAE's config.

use std::path::Path;

use serde::Serialize;

use super::fields::{Fields, product};
use super::video_vae::check_statistics;
use crate::checkpoint::error::Error;
use crate::checkpoint::layout::Layout;

/// Sizes and constants of the audio VAE: a convolutional encoder, an attention projection and a BigVGAN decoder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AudioVaeConfig {
    /// Width of the encoder's first convolution; each stage doubles it.
    pub encoder_dim: usize,
    /// Encoder strides; their product is the hop length.
    pub encoder_rates: Vec<usize>,
    /// Width between encoder and projection, and at the decoder's input.
    pub latent_dim: usize,
    /// Latent channels.
    pub latent_channels: usize,
    /// Heads of the attention projection.
    pub num_attention_heads: usize,
    /// Width of the decoder's first convolution; each stage halves it.
    pub decoder_dim: usize,
    /// Decoder upsampling rates; their product is the hop length again.
    pub decoder_rates: Vec<usize>,
    /// Kernel of each upsampling convolution.
    pub decoder_kernel_sizes: Vec<usize>,
    /// Kernels of the parallel residual blocks of a stage.
    pub resblock_kernel_sizes: Vec<usize>,
    /// Dilations of each residual block.
    pub resblock_dilation_sizes: Vec<Vec<usize>>,
    /// Samples per second.
    pub sampling_rate: usize,
    /// Mean of each latent channel.
    pub latents_mean: Vec<f32>,
    /// Standard deviation of each latent channel.
    pub latents_std: Vec<f32>,
}

impl AudioVaeConfig {
    /// Reads the config of an audio VAE folder: `config.json`, and in the original layout its metadata file.
    ///
    /// What the known readers fix in code has the same default here: 8 attention heads, residual kernels 3, 7 and 11
    /// with dilations 1, 3 and 5, and upsampling kernels of `2u - (u mod 2)` for rate `u`.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule of one file.
    pub fn read(layout: Layout, folder: &Path) -> Result<Self, Error> {
        let mut outer = Fields::open(&folder.join("config.json"))?;
        let latents_mean = outer.reals("latents_mean");
        let latents_std = outer.reals("latents_std");
        let latent_channels = outer.size("latent_channels");
        outer.ignore(&["_class_name", "_diffusers_version", "auto_map", "architectures", "model_type"]);
        check_statistics(&mut outer, latent_channels, &latents_mean, &latents_std);
        match layout {
            Layout::Diffusers => {
                let rate = outer.size("sampling_rate");
                let config = shape(&mut outer, "", latent_channels, rate, latents_mean, latents_std);
                outer.finish(config)
            }
            Layout::Original => {
                let rate = outer.size("sample_rate");
                let metadata = folder.join(outer.text_or("source_metadata_path", "metadata.json"));
                outer.ignore(&["source_safetensors_path", "source_config_path", "source_class_name", "source_path"]);
                outer.finish(())?;
                let mut inner = Fields::open(&metadata)?;
                let scope = "metadata.kwargs.";
                let config = shape(&mut inner, scope, latent_channels, rate, latents_mean, latents_std);
                for (key, expected) in [("vae_latent_channels", latent_channels), ("sample_rate", rate)] {
                    if let Some(found) = inner.size_if(&format!("{scope}{key}")) {
                        inner.rule(found == expected, || {
                            format!("{scope}{key} is {found}, config.json beside it says {expected}")
                        });
                    }
                }
                let decoder = inner.text_or("metadata.kwargs.decoder_type", "bigvgan");
                inner.rule(decoder == "bigvgan", || format!("{scope}decoder_type must be bigvgan, found {decoder}"));
                let projection = inner.flag_or("metadata.kwargs.attn_proj", true);
                inner.rule(projection, || format!("{scope}attn_proj must be true"));
                inner.finish(config)
            }
        }
    }

    /// Returns samples per latent.
    pub fn hop_length(&self) -> usize {
        product(&self.encoder_rates)
    }

    /// Returns the released model's sizes, with latent statistics that change nothing.
    pub fn released() -> Self {
        let decoder_rates = vec![5, 5, 2, 2, 2, 2, 2];
        Self {
            encoder_dim: 64,
            encoder_rates: vec![2, 4, 4, 5, 5],
            latent_dim: 2048,
            latent_channels: 32,
            num_attention_heads: 8,
            decoder_dim: 1024,
            decoder_kernel_sizes: decoder_rates.iter().copied().map(upsampling_kernel).collect(),
            decoder_rates,
            resblock_kernel_sizes: vec![3, 7, 11],
            resblock_dilation_sizes: vec![vec![1, 3, 5]; 3],
            sampling_rate: 32000,
            latents_mean: vec![0.0; 32],
            latents_std: vec![1.0; 32],
        }
    }
}

/// Returns the kernel of an upsampling convolution of the given rate.
fn upsampling_kernel(rate: usize) -> usize {
    2 * rate - rate % 2
}

/// Reads what both layouts spell alike, under `scope`.
fn shape(
    fields: &mut Fields,
    scope: &str,
    latent_channels: usize,
    sampling_rate: usize,
    latents_mean: Vec<f32>,
    latents_std: Vec<f32>,
) -> AudioVaeConfig {
    let key = |name: &str| format!("{scope}{name}");
    let decoder_rates = fields.sizes(&key("decoder_rates"));
    let kernels = fields.sizes_if(&key("decoder_kernel_sizes"));
    let config = AudioVaeConfig {
        encoder_dim: fields.size(&key("encoder_dim")),
        encoder_rates: fields.sizes(&key("encoder_rates")),
        latent_dim: fields.size(&key("latent_dim")),
        latent_channels,
        num_attention_heads: fields.size_or(&key("num_attention_heads"), 8),
        decoder_dim: fields.size(&key("decoder_dim")),
        decoder_kernel_sizes: kernels.unwrap_or_else(|| decoder_rates.iter().copied().map(upsampling_kernel).collect()),
        decoder_rates,
        resblock_kernel_sizes: fields.sizes_if(&key("resblock_kernel_sizes")).unwrap_or_else(|| vec![3, 7, 11]),
        resblock_dilation_sizes: fields
            .size_table_if(&key("resblock_dilation_sizes"))
            .unwrap_or_else(|| vec![vec![1, 3, 5]; 3]),
        sampling_rate,
        latents_mean,
        latents_std,
    };
    let hop = config.hop_length();
    // Requests are laid out, and samples counted, by these before any checkpoint is looked at.
    for (what, expected, found) in
        [("samples per latent", 800, hop), ("samples per second", 32_000, config.sampling_rate)]
    {
        fields.rule(found == expected, || format!("{what} must be {expected}, found {found}"));
    }
    let doublings = config.encoder_rates.len();
    fields.rule(doublings <= 16, || format!("encoder_dim cannot be doubled {doublings} times"));
    let restored = product(&config.decoder_rates);
    fields.rule(restored == hop, || {
        format!("decoder_rates must multiply to the hop length {hop} of encoder_rates, found {restored}")
    });
    fields.rule(config.decoder_kernel_sizes.len() == config.decoder_rates.len(), || {
        format!("{:?} needs one kernel for each rate of {:?}", config.decoder_kernel_sizes, config.decoder_rates)
    });
    let paddable = config.decoder_kernel_sizes.iter().zip(&config.decoder_rates);
    fields.rule(paddable.clone().all(|(kernel, rate)| kernel >= rate && (kernel - rate).is_multiple_of(2)), || {
        format!("decoder_kernel_sizes {:?} do not fit rates {:?}", config.decoder_kernel_sizes, config.decoder_rates)
    });
    fields.rule(config.resblock_kernel_sizes.iter().all(|kernel| kernel % 2 == 1), || {
        format!("resblock_kernel_sizes must be odd, found {:?}", config.resblock_kernel_sizes)
    });
    fields.rule(config.resblock_kernel_sizes.len() == config.resblock_dilation_sizes.len(), || {
        "resblock_kernel_sizes and resblock_dilation_sizes must have equal lengths".to_owned()
    });
    let halvings = config.decoder_rates.len() as u32;
    fields.rule(halvings < usize::BITS && config.decoder_dim.is_multiple_of(1 << halvings), || {
        format!("decoder_dim {} cannot be halved {halvings} times", config.decoder_dim)
    });
    let heads = config.num_attention_heads;
    let head_dim = config.latent_dim / heads;
    fields.rule(config.latent_dim.is_multiple_of(heads) && head_dim.is_multiple_of(latent_channels), || {
        format!(
            "latent_dim {} must split over {heads} heads into multiples of {latent_channels} latent channels",
            config.latent_dim
        )
    });
    config
}
