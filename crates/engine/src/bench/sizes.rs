//! The sizes of the networks that are measured.

use crate::checkpoint::{AudioVaeConfig, DitConfig, TextEncoderConfig, VideoVaeConfig};

/// Sizes of every network.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    pub(super) dit: DitConfig,
    pub(super) text: TextEncoderConfig,
    pub(super) video: VideoVaeConfig,
    pub(super) audio: AudioVaeConfig,
}

impl Sizes {
    /// The release's.
    pub(super) fn released() -> Self {
        Self {
            dit: DitConfig::released(),
            text: TextEncoderConfig::released(),
            video: VideoVaeConfig::released(),
            audio: AudioVaeConfig::released(),
        }
    }

    /// Small ones of the same make, for tests.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        let mut sizes = Self::released();
        sizes.dit = DitConfig {
            num_layers: 2,
            num_refiner_layers: 1,
            hidden_size: 32,
            num_heads: 2,
            head_dim: 16,
            ffn_dim: 48,
            text_dim: 24,
            freq_dim: 16,
            time_embed_hidden_dim: 32,
            time_embed_dim: 16,
            rope_freq_dim: 2,
            ..sizes.dit
        };
        let text = &mut sizes.text.text;
        (text.vocab_size, text.hidden_size, text.intermediate_size, text.num_layers) = (320, 40, 64, 50);
        (text.num_heads, text.num_kv_heads, text.head_dim, text.mrope_section) = (4, 2, 16, [4, 2, 2]);
        let video = &mut sizes.video;
        (video.block_out_channels, video.norm_num_groups) = (vec![8, 8, 8, 16, 16, 16], 4);
        (video.decoder_num_layers, video.decoder_num_heads, video.decoder_head_dim) = (2, 2, 16);
        video.decoder_rope_dim_ratio = 0.75;
        let audio = &mut sizes.audio;
        (audio.latent_dim, audio.decoder_dim, audio.encoder_dim) = (256, 128, 4);
        sizes
    }
}
