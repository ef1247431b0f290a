//! Tensors of the diffusion transformer.

use super::{List, TensorUse};
use crate::checkpoint::config::DitConfig;
use crate::checkpoint::dtype::StoredDtype;

/// The stored rotary frequencies: recomputed from `rope_theta`, bit-equal.
pub(super) const INV_FREQ: &str = "rope.inv_freq";

pub(super) fn list(config: &DitConfig, list: &mut List) {
    let hidden = config.hidden_size;
    list.stored_as(StoredDtype::F32, |list| {
        list.with_bias("video_patch_proj", &[hidden, config.video_row_dim()]);
        list.with_bias("audio_patch_proj", &[hidden, config.audio_in_channels]);
        list.with_bias("time_embedder.proj_in", &[config.time_embed_hidden_dim, config.freq_dim]);
        list.with_bias("time_embedder.proj_out", &[config.time_embed_dim, config.time_embed_hidden_dim]);
        list.marked(TensorUse::Unread, |list| list.add(INV_FREQ, &[config.rope_freq_dim]));
    });
    list.with_bias("condition_proj", &[hidden, config.text_dim]);
    for i in 0..config.num_refiner_layers {
        block(config, &format!("token_refiner.blocks.{i}"), list);
    }
    list.add("token_refiner.final_norm.weight", &[hidden]);
    for i in 0..config.num_layers {
        let scope = format!("blocks.{i}");
        block(config, &scope, list);
        list.with_bias(&format!("{scope}.adaln_proj.linear"), &[config.adaln_features(), config.time_embed_dim]);
    }
    list.add("final_layer.norm.weight", &[hidden]);
    list.with_bias("final_layer.adaln_proj.linear", &[config.final_adaln_features(), config.time_embed_dim]);
    list.stored_as(StoredDtype::F32, |list| {
        list.with_bias("final_layer.video_out", &[config.video_row_dim(), hidden]);
        list.with_bias("final_layer.audio_out", &[config.audio_in_channels, hidden]);
    });
}

/// Lists the parts that transformer and refiner blocks have in common.
fn block(config: &DitConfig, scope: &str, list: &mut List) {
    let (hidden, inner, ffn) = (config.hidden_size, config.inner_dim(), config.ffn_dim);
    list.add(format!("{scope}.norm1.weight"), &[hidden]);
    list.add(format!("{scope}.attn.qkv_proj.weight"), &[3 * inner, hidden]);
    list.add(format!("{scope}.attn.q_norm.weight"), &[config.head_dim]);
    list.add(format!("{scope}.attn.k_norm.weight"), &[config.head_dim]);
    list.add(format!("{scope}.attn.out_proj.weight"), &[hidden, inner]);
    list.add(format!("{scope}.norm2.weight"), &[hidden]);
    list.add(format!("{scope}.mlp.fc1.weight"), &[2 * ffn, hidden]);
    list.add(format!("{scope}.mlp.fc2.weight"), &[hidden, ffn]);
}
