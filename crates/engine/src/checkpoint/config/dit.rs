//! The diffusion transformer's config.

use std::path::Path;

use serde::Serialize;

use super::fields::Fields;
use crate::checkpoint::error::Error;
use crate::checkpoint::layout::Layout;

/// Sizes and constants of the diffusion transformer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DitConfig {
    /// Blocks with AdaLN.
    pub num_layers: usize,
    /// Token refiner blocks.
    pub num_refiner_layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Channels of one head; `num_heads * head_dim` may exceed `hidden_size`.
    pub head_dim: usize,
    /// Inner width of the feed-forward layers.
    pub ffn_dim: usize,
    /// Video latent channels.
    pub in_channels: usize,
    /// Audio latent channels.
    pub audio_in_channels: usize,
    /// Latent patch `(t, h, w)`.
    pub patch_size: [usize; 3],
    /// Width of the text conditioning.
    pub text_dim: usize,
    /// Width of the timestep sinusoid.
    pub freq_dim: usize,
    /// Inner width of the timestep MLP.
    pub time_embed_hidden_dim: usize,
    /// Output width of the timestep MLP.
    pub time_embed_dim: usize,
    /// Rotary frequencies per axis; `6 * rope_freq_dim` of `head_dim` channels rotate.
    pub rope_freq_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Epsilon of the norms before attention and feed-forward.
    pub norm_eps: f64,
    /// Epsilon of the per-head query and key norms.
    pub qk_norm_eps: f64,
    /// Epsilon of the refiner's and the output layer's norm.
    pub final_norm_eps: f64,
}

impl DitConfig {
    /// Reads `config.json` of a transformer folder.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule.
    pub fn read(layout: Layout, path: &Path) -> Result<Self, Error> {
        let mut fields = Fields::open(path)?;
        let original = layout == Layout::Original;
        let name = |here: &'static str, there: &'static str| if original { here } else { there };
        let patch = fields.sizes("patch_size");
        let config = Self {
            num_layers: fields.size("num_layers"),
            num_refiner_layers: fields.size(name("token_refiner_num_layers", "num_refiner_layers")),
            hidden_size: fields.size("hidden_size"),
            num_heads: fields.size("num_attention_heads"),
            head_dim: fields.size("attention_head_dim"),
            ffn_dim: fields.size(name("ffn_hidden_size", "ffn_dim")),
            in_channels: fields.size(name("latents_dim", "in_channels")),
            audio_in_channels: fields.size(name("audio_latents_dim", "audio_in_channels")),
            patch_size: [1, 2, 2],
            text_dim: fields.size("text_dim"),
            freq_dim: fields.size(name("timestep_input_dim", "freq_dim")),
            time_embed_hidden_dim: fields.size(name("time_embed_hidden_size", "time_embed_hidden_dim")),
            time_embed_dim: fields.size("time_embed_dim"),
            rope_freq_dim: fields.size(name("rope_inv_freq_len", "rope_freq_dim")),
            rope_theta: fields.positive_or("rope_theta", 10000.0),
            norm_eps: fields.positive_or("norm_eps", 1e-5),
            qk_norm_eps: fields.positive_or("qk_norm_eps", 1e-5),
            final_norm_eps: fields.positive_or("final_norm_eps", 1e-5),
        };
        fields.ignore(&["_class_name", "_diffusers_version", "auto_map", "architectures", "model_type"]);
        fields.rule(patch == config.patch_size, || format!("patch_size must be [1, 2, 2], found {patch:?}"));
        let rotated = 6 * config.rope_freq_dim;
        fields.rule(rotated <= config.head_dim, || {
            format!(
                "3 axes of {} rotary frequencies rotate {rotated} channels, a head has {}",
                config.rope_freq_dim, config.head_dim
            )
        });
        fields.rule(config.freq_dim.is_multiple_of(2), || {
            format!("the timestep sinusoid must have an even width, found {}", config.freq_dim)
        });
        for (key, expected) in [
            ("adaln_out_features", config.adaln_features()),
            ("final_adaln_out_features", config.final_adaln_features()),
        ] {
            if let Some(found) = fields.size_if(key) {
                fields.rule(found == expected, || {
                    format!("{key} must be {expected} for hidden_size {}, found {found}", config.hidden_size)
                });
            }
        }
        fields.finish(config)
    }

    /// Returns `num_heads * head_dim`, the attention's inner width.
    pub fn inner_dim(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Returns the width of one video row: channels times the patch's voxels.
    pub fn video_row_dim(&self) -> usize {
        self.in_channels * self.patch_size.iter().product::<usize>()
    }

    /// Returns the output rows of a block's AdaLN projection: 3 modalities times 6 chunks of `hidden_size`.
    pub fn adaln_features(&self) -> usize {
        18 * self.hidden_size
    }

    /// Returns the output rows of the final AdaLN projection: shift and scale.
    pub fn final_adaln_features(&self) -> usize {
        2 * self.hidden_size
    }

    /// Returns the released model's sizes.
    pub fn released() -> Self {
        Self {
            num_layers: 50,
            num_refiner_layers: 2,
            hidden_size: 5376,
            num_heads: 56,
            head_dim: 128,
            ffn_dim: 14336,
            in_channels: 24,
            audio_in_channels: 32,
            patch_size: [1, 2, 2],
            text_dim: 5120,
            freq_dim: 256,
            time_embed_hidden_dim: 5376,
            time_embed_dim: 2688,
            rope_freq_dim: 16,
            rope_theta: 10000.0,
            norm_eps: 1e-5,
            qk_norm_eps: 1e-5,
            final_norm_eps: 1e-5,
        }
    }
}
