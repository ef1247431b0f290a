//! Tensors of the text encoder.

use super::{List, TensorUse};
use crate::checkpoint::config::{TextConfig, TextEncoderConfig, VisionConfig};

pub(super) fn list(config: &TextEncoderConfig, list: &mut List) {
    vision(&config.vision, list);
    let text = &config.text;
    let root = "model.language_model";
    list.add(format!("{root}.embed_tokens.weight"), &[text.vocab_size, text.hidden_size]);
    for i in 0..text.num_layers {
        let read = i < TextConfig::CONDITIONING_LAYERS;
        let usage = if read { TensorUse::Parameter } else { TensorUse::Unread };
        list.marked(usage, |list| layer(text, &format!("{root}.layers.{i}"), list));
    }
    list.marked(TensorUse::Unread, |list| {
        list.add(format!("{root}.norm.weight"), &[text.hidden_size]);
        list.add("lm_head.weight", &[text.vocab_size, text.hidden_size]);
    });
}

fn layer(config: &TextConfig, scope: &str, list: &mut List) {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    list.add(format!("{scope}.input_layernorm.weight"), &[hidden]);
    list.add(format!("{scope}.self_attn.q_proj.weight"), &[config.query_dim(), hidden]);
    list.add(format!("{scope}.self_attn.k_proj.weight"), &[config.kv_dim(), hidden]);
    list.add(format!("{scope}.self_attn.v_proj.weight"), &[config.kv_dim(), hidden]);
    list.add(format!("{scope}.self_attn.q_norm.weight"), &[config.head_dim]);
    list.add(format!("{scope}.self_attn.k_norm.weight"), &[config.head_dim]);
    list.add(format!("{scope}.self_attn.o_proj.weight"), &[hidden, config.query_dim()]);
    list.add(format!("{scope}.post_attention_layernorm.weight"), &[hidden]);
    list.add(format!("{scope}.mlp.gate_proj.weight"), &[inner, hidden]);
    list.add(format!("{scope}.mlp.up_proj.weight"), &[inner, hidden]);
    list.add(format!("{scope}.mlp.down_proj.weight"), &[hidden, inner]);
}

fn vision(config: &VisionConfig, list: &mut List) {
    let (hidden, inner, side) = (config.hidden_size, config.intermediate_size, config.patch_size);
    let root = "model.visual";
    let patch = [hidden, config.in_channels, config.temporal_patch_size, side, side];
    list.with_bias(&format!("{root}.patch_embed.proj"), &patch);
    list.add(format!("{root}.pos_embed.weight"), &[config.num_position_embeddings, hidden]);
    for i in 0..config.depth {
        let scope = format!("{root}.blocks.{i}");
        list.with_bias(&format!("{scope}.norm1"), &[hidden]);
        list.with_bias(&format!("{scope}.attn.qkv"), &[3 * hidden, hidden]);
        list.with_bias(&format!("{scope}.attn.proj"), &[hidden, hidden]);
        list.with_bias(&format!("{scope}.norm2"), &[hidden]);
        list.with_bias(&format!("{scope}.mlp.linear_fc1"), &[inner, hidden]);
        list.with_bias(&format!("{scope}.mlp.linear_fc2"), &[hidden, inner]);
    }
    // The main merger normalises patches, the deepstack ones merged patches.
    merger(config, &format!("{root}.merger"), hidden, list);
    for i in 0..config.deepstack_visual_indexes.len() {
        merger(config, &format!("{root}.deepstack_merger_list.{i}"), config.merged_dim(), list);
    }
}

fn merger(config: &VisionConfig, scope: &str, norm: usize, list: &mut List) {
    let merged = config.merged_dim();
    list.with_bias(&format!("{scope}.norm"), &[norm]);
    list.with_bias(&format!("{scope}.linear_fc1"), &[merged, merged]);
    list.with_bias(&format!("{scope}.linear_fc2"), &[config.out_hidden_size, merged]);
}
