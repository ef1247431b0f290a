//! The text encoder's config: Qwen3-VL's language model and vision tower.

use std::path::Path;

use serde::Serialize;

use super::fields::Fields;
use crate::checkpoint::error::Error;

/// Sizes of the whole text encoder, and the ids of its special tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextEncoderConfig {
    /// The language model.
    pub text: TextConfig,
    /// The vision tower.
    pub vision: VisionConfig,
    /// Stands for one merged patch of an image.
    pub image_token_id: u32,
    /// Stands for one merged patch of a video.
    pub video_token_id: u32,
    /// Opens a run of image or video tokens.
    pub vision_start_token_id: u32,
    /// Closes a run of image or video tokens.
    pub vision_end_token_id: u32,
}

/// Sizes and constants of the language model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextConfig {
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Inner width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Stored decoder layers; only the first [`CONDITIONING_LAYERS`](Self::CONDITIONING_LAYERS) are ever read.
    pub num_layers: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key and value heads.
    pub num_kv_heads: usize,
    /// Channels of one head.
    pub head_dim: usize,
    /// Epsilon of every RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Frequencies of the `t`, `h` and `w` axis in the interleaved rotary embedding.
    pub mrope_section: [usize; 3],
    /// The longest sequence the model was made for, if the config says so.
    pub max_position_embeddings: Option<usize>,
}

/// Sizes and constants of the vision tower.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VisionConfig {
    /// Blocks.
    pub depth: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Inner width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Pixel channels.
    pub in_channels: usize,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Frames of a patch.
    pub temporal_patch_size: usize,
    /// Patches per side that one output token merges.
    pub spatial_merge_size: usize,
    /// Width of the output tokens.
    pub out_hidden_size: usize,
    /// Rows of the learned position table, a square number.
    pub num_position_embeddings: usize,
    /// Blocks after which a deepstack feature is taken.
    pub deepstack_visual_indexes: Vec<usize>,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
}

impl TextConfig {
    /// Decoder layers whose output is the conditioning.
    pub const CONDITIONING_LAYERS: usize = 50;

    /// Returns `num_heads * head_dim`, the width of the queries.
    pub fn query_dim(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Returns `num_kv_heads * head_dim`, the width of keys and of values.
    pub fn kv_dim(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }
}

impl VisionConfig {
    /// Returns the channels of one head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_heads
    }

    /// Returns the width of a merged patch before the mergers.
    pub fn merged_dim(&self) -> usize {
        self.hidden_size * self.spatial_merge_size * self.spatial_merge_size
    }
}

impl TextEncoderConfig {
    /// Reads the text encoder's `config.json`; both layouts carry the same file.
    ///
    /// Rotary settings are taken from `rope_parameters` or, as older writers have it, from `rope_theta` and
    /// `rope_scaling`.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut fields = Fields::open(path)?;
        let text = read_text(&mut fields);
        let vision = read_vision(&mut fields);
        let config = Self {
            image_token_id: fields.token("image_token_id"),
            video_token_id: fields.token("video_token_id"),
            vision_start_token_id: fields.token("vision_start_token_id"),
            vision_end_token_id: fields.token("vision_end_token_id"),
            text,
            vision,
        };
        fields.ignore(&["architectures", "dtype", "torch_dtype", "model_type", "tie_word_embeddings"]);
        fields.ignore(&["transformers_version"]);
        for (key, id) in [
            ("image_token_id", config.image_token_id),
            ("video_token_id", config.video_token_id),
            ("vision_start_token_id", config.vision_start_token_id),
            ("vision_end_token_id", config.vision_end_token_id),
        ] {
            fields.rule((id as usize) < config.text.vocab_size, || {
                format!("{key} {id} is outside the vocabulary of {}", config.text.vocab_size)
            });
        }
        fields.rule(config.vision.out_hidden_size == config.text.hidden_size, || {
            format!(
                "vision_config.out_hidden_size {} must equal text_config.hidden_size {}",
                config.vision.out_hidden_size, config.text.hidden_size
            )
        });
        fields.finish(config)
    }

    /// Returns the sizes of Qwen3-VL-32B, on which the released model is conditioned.
    pub fn released() -> Self {
        Self {
            text: TextConfig {
                vocab_size: 151_936,
                hidden_size: 5120,
                intermediate_size: 25600,
                num_layers: 64,
                num_heads: 64,
                num_kv_heads: 8,
                head_dim: 128,
                rms_norm_eps: 1e-6,
                rope_theta: 5_000_000.0,
                mrope_section: [24, 20, 20],
                max_position_embeddings: Some(262_144),
            },
            vision: VisionConfig {
                depth: 27,
                hidden_size: 1152,
                intermediate_size: 4304,
                num_heads: 16,
                in_channels: 3,
                patch_size: 16,
                temporal_patch_size: 2,
                spatial_merge_size: 2,
                out_hidden_size: 5120,
                num_position_embeddings: 2304,
                deepstack_visual_indexes: vec![8, 16, 24],
                rope_theta: 10_000.0,
            },
            image_token_id: 151_655,
            video_token_id: 151_656,
            vision_start_token_id: 151_652,
            vision_end_token_id: 151_653,
        }
    }
}

fn read_text(fields: &mut Fields) -> TextConfig {
    let section = fields.sizes_at(&[
        "text_config.rope_parameters.mrope_section",
        "text_config.rope_scaling.mrope_section",
        "text_config.mrope_section",
    ]);
    let mut config = TextConfig {
        vocab_size: fields.size("text_config.vocab_size"),
        hidden_size: fields.size("text_config.hidden_size"),
        intermediate_size: fields.size("text_config.intermediate_size"),
        num_layers: fields.size("text_config.num_hidden_layers"),
        num_heads: fields.size("text_config.num_attention_heads"),
        num_kv_heads: fields.size("text_config.num_key_value_heads"),
        head_dim: fields.size("text_config.head_dim"),
        rms_norm_eps: fields.positive_at(&["text_config.rms_norm_eps"]),
        rope_theta: fields.positive_at(&["text_config.rope_parameters.rope_theta", "text_config.rope_theta"]),
        mrope_section: [0; 3],
        max_position_embeddings: fields.size_if("text_config.max_position_embeddings"),
    };
    match <[usize; 3]>::try_from(section.as_slice()) {
        Ok(section) => config.mrope_section = section,
        Err(_) => fields.rule(false, || format!("mrope_section must have three entries, found {section:?}")),
    }
    let needed = TextConfig::CONDITIONING_LAYERS;
    fields.rule(config.num_layers >= needed, || {
        format!("the conditioning is taken after layer {needed}, the text encoder has {}", config.num_layers)
    });
    fields.rule(config.num_heads.is_multiple_of(config.num_kv_heads), || {
        format!("{} query heads cannot share {} key and value heads", config.num_heads, config.num_kv_heads)
    });
    fields.rule(config.mrope_section.iter().sum::<usize>() * 2 == config.head_dim, || {
        format!("mrope_section {:?} must sum to half of head_dim {}", config.mrope_section, config.head_dim)
    });
    // An axis takes every third frequency from its own offset on, so it must not run past the end.
    let [_, height, width] = config.mrope_section;
    fields.rule(3 * height.max(width) <= config.head_dim / 2, || {
        format!(
            "mrope_section {:?} cannot be interleaved over {} frequencies",
            config.mrope_section,
            config.head_dim / 2
        )
    });
    for scope in ["text_config.rope_parameters", "text_config.rope_scaling"] {
        let interleaved = fields.flag_or(&format!("{scope}.mrope_interleaved"), true);
        fields.rule(interleaved, || format!("{scope}.mrope_interleaved must be true"));
        let kind = fields.text_or(&format!("{scope}.rope_type"), "default");
        fields.rule(kind == "default", || format!("{scope}.rope_type {kind:?} is not supported, expected default"));
    }
    let biased = fields.flag_or("text_config.attention_bias", false);
    fields.rule(!biased, || "text_config.attention_bias must be false".to_owned());
    let activation = fields.text_or("text_config.hidden_act", "silu");
    fields.rule(activation == "silu", || format!("text_config.hidden_act must be silu, found {activation}"));
    let unused = ["attention_dropout", "initializer_range", "model_type", "pad_token_id", "use_cache", "dtype"];
    fields.ignore(&unused.map(|key| format!("text_config.{key}")).each_ref().map(String::as_str));
    config
}

fn read_vision(fields: &mut Fields) -> VisionConfig {
    let config = VisionConfig {
        depth: fields.size("vision_config.depth"),
        hidden_size: fields.size("vision_config.hidden_size"),
        intermediate_size: fields.size("vision_config.intermediate_size"),
        num_heads: fields.size("vision_config.num_heads"),
        in_channels: fields.size("vision_config.in_channels"),
        patch_size: fields.size("vision_config.patch_size"),
        temporal_patch_size: fields.size("vision_config.temporal_patch_size"),
        spatial_merge_size: fields.size("vision_config.spatial_merge_size"),
        out_hidden_size: fields.size("vision_config.out_hidden_size"),
        num_position_embeddings: fields.size("vision_config.num_position_embeddings"),
        deepstack_visual_indexes: fields.indices("vision_config.deepstack_visual_indexes"),
        rope_theta: fields.positive_or("vision_config.rope_parameters.rope_theta", 10_000.0),
    };
    let kind = fields.text_or("vision_config.rope_parameters.rope_type", "axial");
    // Both names have stood for the one rotation that the tower knows.
    fields.rule(matches!(kind.as_str(), "axial" | "default"), || {
        format!("vision_config.rope_parameters.rope_type {kind:?} is not supported, expected axial")
    });
    fields.rule(config.in_channels == 3, || {
        format!("vision_config.in_channels must be 3 for red, green and blue, found {}", config.in_channels)
    });
    fields.rule(config.hidden_size.is_multiple_of(4 * config.num_heads), || {
        format!(
            "vision_config.hidden_size {} must be a multiple of 4 channels for each of {} heads",
            config.hidden_size, config.num_heads
        )
    });
    let side = config.num_position_embeddings.isqrt();
    fields.rule(side * side == config.num_position_embeddings, || {
        format!("vision_config.num_position_embeddings {} must be a square", config.num_position_embeddings)
    });
    let taken = &config.deepstack_visual_indexes;
    fields.rule(taken.is_sorted_by(|a, b| a < b) && taken.iter().all(|&index| index < config.depth), || {
        format!("vision_config.deepstack_visual_indexes {taken:?} must rise and stay below depth {}", config.depth)
    });
    let activation = fields.text_or("vision_config.hidden_act", "gelu_pytorch_tanh");
    fields.rule(activation == "gelu_pytorch_tanh", || {
        format!("vision_config.hidden_act must be gelu_pytorch_tanh, found {activation}")
    });
    let unused = ["initializer_range", "model_type", "dtype"];
    fields.ignore(&unused.map(|key| format!("vision_config.{key}")).each_ref().map(String::as_str));
    config
}
