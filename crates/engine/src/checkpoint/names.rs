//! Tensor names: canonical ones are the original release's, and map to what a layout stores.

use super::component::ComponentId;
use super::layout::Layout;

/// Returns the stored name or names of a canonical tensor, in the order in which they stack along dimension 0.
///
/// Only the diffusers layout renames, and only in the transformer and the video VAE; its one structural change is the
/// split of a fused query-key-value projection into three tensors.
///
/// Source: the name tables of the official converter, inverted.
pub(super) fn stored_names(component: ComponentId, layout: Layout, canonical: &str) -> Vec<String> {
    match (layout, component) {
        (Layout::Diffusers, ComponentId::Dit(_)) => dit(canonical),
        (Layout::Diffusers, ComponentId::VideoVae) => video_vae(canonical),
        (Layout::Diffusers, ComponentId::TextEncoder | ComponentId::AudioVae) | (Layout::Original, _) => {
            vec![canonical.to_owned()]
        }
    }
}

/// Modules of the transformer outside its blocks, original to diffusers.
const DIT_MODULES: [(&str, &str); 9] = [
    ("video_patch_proj.", "proj_in."),
    ("audio_patch_proj.", "audio_proj_in."),
    ("condition_proj.", "context_embedder."),
    ("time_embedder.proj_in.", "time_embedder.linear_1."),
    ("time_embedder.proj_out.", "time_embedder.linear_2."),
    ("final_layer.norm.", "norm_out.norm."),
    ("final_layer.adaln_proj.linear.", "norm_out.linear."),
    ("final_layer.video_out.", "proj_out."),
    ("final_layer.audio_out.", "audio_proj_out."),
];

/// Leaves inside a transformer block, original to diffusers.
const DIT_LEAVES: [(&str, &str); 5] = [
    ("attn.q_norm.", "attn.norm_q."),
    ("attn.k_norm.", "attn.norm_k."),
    ("attn.out_proj.", "attn.to_out.0."),
    ("mlp.fc1.", "ff.net.0.proj."),
    ("mlp.fc2.", "ff.net.2."),
];

/// Leaves inside a video VAE decoder block, original to diffusers.
const VAE_DECODER_LEAVES: [(&str, &str); 3] =
    [("attn.to_out.", "attn.to_out.0."), ("ff.w1.", "ff.net.0.proj."), ("ff.w2.", "ff.net.2.")];

/// Leaves inside a video VAE encoder level, original to diffusers.
const VAE_ENCODER_LEAVES: [(&str, &str); 3] =
    [(".block.", ".resnets."), (".nin_shortcut.", ".conv_shortcut."), (".downsample.", ".downsamplers.0.")];

fn dit(name: &str) -> Vec<String> {
    for (from, to) in DIT_MODULES {
        if let Some(leaf) = name.strip_prefix(from) {
            return vec![format!("{to}{leaf}")];
        }
    }
    let (scope, rest) = if let Some(rest) = name.strip_prefix("token_refiner.blocks.") {
        ("token_refiner.refiner_blocks.", rest)
    } else if let Some(rest) = name.strip_prefix("blocks.") {
        ("transformer_blocks.", rest)
    } else {
        return vec![name.to_owned()];
    };
    split_qkv(scope, rest, "attn.qkv_proj.").unwrap_or_else(|| vec![format!("{scope}{}", replaced(rest, &DIT_LEAVES))])
}

fn video_vae(name: &str) -> Vec<String> {
    if let Some(rest) = name.strip_prefix("encoder.down.") {
        return vec![format!("encoder.down_blocks.{}", replaced(rest, &VAE_ENCODER_LEAVES))];
    }
    if let Some(leaf) = name.strip_prefix("decoder.x_embedder.") {
        return vec![format!("decoder.proj_in.{leaf}")];
    }
    let scope = "decoder.transformer_blocks.";
    match name.strip_prefix(scope) {
        Some(rest) => split_qkv(scope, rest, "attn.to_qkv.")
            .unwrap_or_else(|| vec![format!("{scope}{}", replaced(rest, &VAE_DECODER_LEAVES))]),
        None => vec![name.to_owned()],
    }
}

/// Returns the three names of a fused projection's parts, if `rest` is one.
fn split_qkv(scope: &str, rest: &str, fused: &str) -> Option<Vec<String>> {
    let (block, leaf) = rest.split_once(fused)?;
    Some(["to_q", "to_k", "to_v"].map(|part| format!("{scope}{block}attn.{part}.{leaf}")).to_vec())
}

fn replaced(rest: &str, leaves: &[(&str, &str)]) -> String {
    leaves.iter().fold(rest.to_owned(), |name, (from, to)| name.replace(from, to))
}

#[cfg(test)]
mod tests {
    use clapboard_h3::Partition;

    use super::*;

    fn diffusers(component: ComponentId, name: &str) -> Vec<String> {
        stored_names(component, Layout::Diffusers, name)
    }

    #[test]
    fn transformer_names_follow_the_converter() {
        let dit = ComponentId::Dit(Partition::Fl2va);
        let cases = [
            ("video_patch_proj.weight", "proj_in.weight"),
            ("time_embedder.proj_out.bias", "time_embedder.linear_2.bias"),
            ("final_layer.adaln_proj.linear.weight", "norm_out.linear.weight"),
            ("token_refiner.final_norm.weight", "token_refiner.final_norm.weight"),
            ("token_refiner.blocks.1.mlp.fc2.weight", "token_refiner.refiner_blocks.1.ff.net.2.weight"),
            ("blocks.49.attn.out_proj.weight", "transformer_blocks.49.attn.to_out.0.weight"),
            ("blocks.0.attn.q_norm.weight", "transformer_blocks.0.attn.norm_q.weight"),
            ("blocks.7.adaln_proj.linear.bias", "transformer_blocks.7.adaln_proj.linear.bias"),
        ];
        for (canonical, stored) in cases {
            assert_eq!(diffusers(dit, canonical), [stored]);
            assert_eq!(stored_names(dit, Layout::Original, canonical), [canonical]);
        }
        assert_eq!(
            diffusers(dit, "blocks.3.attn.qkv_proj.weight"),
            ["q", "k", "v"].map(|part| format!("transformer_blocks.3.attn.to_{part}.weight"))
        );
    }

    #[test]
    fn video_vae_names_follow_the_converter() {
        let cases = [
            ("encoder.down.3.block.1.nin_shortcut.weight", "encoder.down_blocks.3.resnets.1.conv_shortcut.weight"),
            ("encoder.down.0.downsample.conv.bias", "encoder.down_blocks.0.downsamplers.0.conv.bias"),
            ("encoder.norm_out.weight", "encoder.norm_out.weight"),
            ("decoder.x_embedder.bias", "decoder.proj_in.bias"),
            ("decoder.transformer_blocks.0.attn.to_out.bias", "decoder.transformer_blocks.0.attn.to_out.0.bias"),
            ("decoder.transformer_blocks.9.ff.w1.bias", "decoder.transformer_blocks.9.ff.net.0.proj.bias"),
            ("decoder.transformer_blocks.9.scale2", "decoder.transformer_blocks.9.scale2"),
        ];
        for (canonical, stored) in cases {
            assert_eq!(diffusers(ComponentId::VideoVae, canonical), [stored]);
        }
        assert_eq!(
            diffusers(ComponentId::VideoVae, "decoder.transformer_blocks.2.attn.to_qkv.bias"),
            ["q", "k", "v"].map(|part| format!("decoder.transformer_blocks.2.attn.to_{part}.bias"))
        );
    }
}
