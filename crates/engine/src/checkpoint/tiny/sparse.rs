//! Checkpoints of released size that take no space: real configs and headers over sparse files.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use clapboard_h3::Partition;
use serde_json::{Value, json};

use super::assets::Assets;
use super::error::Error;
use super::staging::Staging;
use super::writer::{Described, header};
use crate::checkpoint::component::ComponentId;
use crate::checkpoint::config::{AudioVaeConfig, DitConfig, TextEncoderConfig, VideoVaeConfig};
use crate::checkpoint::inventory::{ExpectedTensor, Inventory};
use crate::checkpoint::layout::Layout;

/// Data bytes after which a new shard begins, about what the release uses.
const SHARD_BYTES: u64 = 5_261_334_938;

/// Writes a checkpoint of released size without data: every tensor reads as zeros.
///
/// It proves arithmetic on sizes (layout, inventory, residency plans) on a machine that could not hold the weights.
/// Both partitions are there; in the original layout the second one is only a transformer, as partial downloads have
/// it. Tokenizer and processor are the tiny ones. `out` must be absent or an empty directory; it appears whole or not at all.
///
/// Errors: [`Error::NotEmpty`], [`Error::NotADirectory`], [`Error::Io`].
pub fn write_sparse_released(layout: Layout, out: &Path) -> Result<(), Error> {
    let staging = Staging::begin(out)?;
    match layout {
        Layout::Original => original(&staging)?,
        Layout::Diffusers => diffusers(&staging)?,
    }
    staging.publish()
}

fn original(staging: &Staging) -> Result<(), Error> {
    let layout = Layout::Original;
    let dit = DitConfig::released();
    for (partition, folder, tasks) in
        [(Partition::Fl2va, "FL2VA", &["t2va", "fl2va"][..]), (Partition::Ref2va, "Ref2VA", &["ref2va"][..])]
    {
        let release = json!({
            "partition": partition.as_str(),
            "tasks": tasks,
            "sigma_shift_scales": { "video": 12.0, "audio": 3.0 },
        });
        let index = json!({ "_class_name": "MiniMaxH3Pipeline", "scheduler": null, "_minimax_h3": release });
        config(staging, &format!("{folder}/model_index.json"), &index)?;
        config(staging, &format!("{folder}/transformer/config.json"), &original_dit(&dit))?;
        let inventory = Inventory::dit(ComponentId::Dit(partition), &dit);
        weights(staging, &format!("{folder}/transformer"), "model", &inventory.stored(layout))?;
    }
    shared(staging, "FL2VA/", "model", layout)?;
    let vae = VideoVaeConfig::released();
    let outer = json!({
        "source_path": "source", "source_safetensors_path": "model.safetensors",
        "latent_channels": vae.latent_channels, "latents_mean": vae.latents_mean, "latents_std": vae.latents_std,
        "vae_clip_length": vae.clip_length, "vae_token_drop": vae.token_drop,
        "vae_tile_size": vae.tile_size, "vae_tile_overlap_min": vae.tile_overlap_min,
    });
    config(staging, "FL2VA/video_vae/config.json", &outer)?;
    config(staging, "FL2VA/video_vae/source/config.json", &original_vae(&vae))?;
    weights(staging, "FL2VA/video_vae/source", "model", &Inventory::video_vae(&vae).stored(layout))?;
    let audio = AudioVaeConfig::released();
    let outer = json!({
        "latent_channels": audio.latent_channels, "sample_rate": audio.sampling_rate,
        "latents_mean": audio.latents_mean, "latents_std": audio.latents_std,
        "source_safetensors_path": "model.safetensors", "source_metadata_path": "metadata.json",
    });
    config(staging, "FL2VA/audio_vae/config.json", &outer)?;
    let kwargs = json!({
        "encoder_dim": audio.encoder_dim, "encoder_rates": audio.encoder_rates, "latent_dim": audio.latent_dim,
        "vae_latent_channels": audio.latent_channels, "decoder_dim": audio.decoder_dim,
        "decoder_rates": audio.decoder_rates, "decoder_type": "bigvgan", "attn_proj": true,
        "sample_rate": audio.sampling_rate,
    });
    config(staging, "FL2VA/audio_vae/metadata.json", &json!({ "metadata": { "kwargs": kwargs } }))
}

fn diffusers(staging: &Staging) -> Result<(), Error> {
    let layout = Layout::Diffusers;
    let stem = "diffusion_pytorch_model";
    config(staging, "modular_model_index.json", &json!({ "_class_name": "MiniMaxH3ModularPipeline" }))?;
    for (folder, shift) in [("scheduler", 12.0), ("audio_scheduler", 3.0)] {
        config(staging, &format!("{folder}/scheduler_config.json"), &json!({ "shift": shift }))?;
    }
    let dit = DitConfig::released();
    for (partition, folder) in [(Partition::Fl2va, "transformer"), (Partition::Ref2va, "transformer_ref")] {
        config(staging, &format!("{folder}/config.json"), &diffusers_dit(&dit))?;
        let inventory = Inventory::dit(ComponentId::Dit(partition), &dit);
        weights(staging, folder, stem, &inventory.stored(layout))?;
    }
    shared(staging, "", stem, layout)?;
    let vae = VideoVaeConfig::released();
    config(staging, "vae/config.json", &diffusers_vae(&vae))?;
    weights(staging, "vae", stem, &Inventory::video_vae(&vae).stored(layout))?;
    let audio = AudioVaeConfig::released();
    let audio = json!({
        "encoder_dim": audio.encoder_dim, "encoder_rates": audio.encoder_rates, "latent_dim": audio.latent_dim,
        "latent_channels": audio.latent_channels, "num_attention_heads": audio.num_attention_heads,
        "decoder_dim": audio.decoder_dim, "decoder_rates": audio.decoder_rates,
        "decoder_kernel_sizes": audio.decoder_kernel_sizes, "resblock_kernel_sizes": audio.resblock_kernel_sizes,
        "resblock_dilation_sizes": audio.resblock_dilation_sizes, "sampling_rate": audio.sampling_rate,
        "latents_mean": audio.latents_mean, "latents_std": audio.latents_std,
    });
    config(staging, "audio_vae/config.json", &audio)
}

/// Writes what is alike in both layouts: text encoder, tokenizer, processor and the audio VAE's weights.
fn shared(staging: &Staging, base: &str, stem: &str, layout: Layout) -> Result<(), Error> {
    let text = TextEncoderConfig::released();
    config(staging, &format!("{base}text_encoder/config.json"), &text_encoder(&text))?;
    let inventory = Inventory::text_encoder(&text);
    weights(staging, &format!("{base}text_encoder"), "model", &inventory.stored(layout))?;
    let inventory = Inventory::audio_vae(&AudioVaeConfig::released());
    weights(staging, &format!("{base}audio_vae"), stem, &inventory.stored(layout))?;
    let tokenizer = Assets::Embedded.read("tokenizer.json")?;
    staging.write(Path::new(&format!("{base}tokenizer/tokenizer.json")), &tokenizer)?;
    let processor = Assets::Embedded.read("configs/diffusers/processor/processor_config.json")?;
    staging.write(Path::new(&format!("{base}processor/processor_config.json")), &processor)
}

fn config(staging: &Staging, path: &str, value: &Value) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(value).expect("a JSON value is always writable");
    staging.write(Path::new(path), &text)
}

/// Writes headers over sparse data, in as many shards as the release would have.
fn weights(staging: &Staging, folder: &str, stem: &str, tensors: &[ExpectedTensor]) -> Result<(), Error> {
    let mut shards: Vec<Vec<&ExpectedTensor>> = vec![Vec::new()];
    let mut filled = 0;
    for tensor in tensors {
        if filled > 0 && filled + tensor.bytes() > SHARD_BYTES {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += tensor.bytes();
        if let Some(shard) = shards.last_mut() {
            shard.push(tensor);
        }
    }
    let count = shards.len();
    for (i, mut shard) in shards.into_iter().enumerate() {
        let name = match count {
            1 => format!("{stem}.safetensors"),
            _ => format!("{stem}-{:05}-of-{count:05}.safetensors", i + 1),
        };
        shard.sort_by_key(|tensor| std::cmp::Reverse(tensor.dtype.size()));
        let described: Vec<_> = shard
            .iter()
            .map(|tensor| Described { name: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape })
            .collect();
        let (head, data) = header(&described);
        let path = staging.place(&Path::new(folder).join(name))?;
        let mut file = File::create(&path).map_err(Error::io("create", &path))?;
        file.write_all(&head).map_err(Error::io("write", &path))?;
        file.set_len(head.len() as u64 + data).map_err(Error::io("extend", &path))?;
    }
    Ok(())
}

fn original_dit(dit: &DitConfig) -> Value {
    json!({
        "num_layers": dit.num_layers, "token_refiner_num_layers": dit.num_refiner_layers,
        "hidden_size": dit.hidden_size, "num_attention_heads": dit.num_heads, "attention_head_dim": dit.head_dim,
        "ffn_hidden_size": dit.ffn_dim, "latents_dim": dit.in_channels, "audio_latents_dim": dit.audio_in_channels,
        "patch_size": dit.patch_size, "text_dim": dit.text_dim, "timestep_input_dim": dit.freq_dim,
        "time_embed_hidden_size": dit.time_embed_hidden_dim, "time_embed_dim": dit.time_embed_dim,
        "adaln_out_features": dit.adaln_features(), "final_adaln_out_features": dit.final_adaln_features(),
        "rope_inv_freq_len": dit.rope_freq_dim, "norm_eps": dit.norm_eps, "qk_norm_eps": dit.qk_norm_eps,
        "final_norm_eps": dit.final_norm_eps,
    })
}

fn diffusers_dit(dit: &DitConfig) -> Value {
    json!({
        "num_layers": dit.num_layers, "num_refiner_layers": dit.num_refiner_layers, "hidden_size": dit.hidden_size,
        "num_attention_heads": dit.num_heads, "attention_head_dim": dit.head_dim, "ffn_dim": dit.ffn_dim,
        "in_channels": dit.in_channels, "audio_in_channels": dit.audio_in_channels, "patch_size": dit.patch_size,
        "text_dim": dit.text_dim, "freq_dim": dit.freq_dim, "time_embed_hidden_dim": dit.time_embed_hidden_dim,
        "time_embed_dim": dit.time_embed_dim, "rope_freq_dim": dit.rope_freq_dim, "rope_theta": dit.rope_theta,
        "norm_eps": dit.norm_eps, "qk_norm_eps": dit.qk_norm_eps, "final_norm_eps": dit.final_norm_eps,
    })
}

fn original_vae(vae: &VideoVaeConfig) -> Value {
    let base = vae.block_out_channels.first().copied().unwrap_or(1);
    let multiples: Vec<usize> = vae.block_out_channels.iter().map(|width| width / base).collect();
    json!({
        "in_channels": vae.in_channels, "out_ch": vae.out_channels, "z_channels": vae.latent_channels,
        "embed_dim": vae.latent_channels, "ch": base, "ch_mult": multiples, "num_res_blocks": vae.layers_per_block,
        "space_down": vae.spatial_downsample, "time_down": vae.temporal_downsample, "padding_mode": "reflect",
        "vit_decoder_kwargs": {
            "num_layers": vae.decoder_num_layers, "heads": vae.decoder_num_heads, "dim_head": vae.decoder_head_dim,
            "rope_theta": vae.decoder_rope_theta, "rope_dim_ratio": vae.decoder_rope_dim_ratio,
        },
    })
}

fn diffusers_vae(vae: &VideoVaeConfig) -> Value {
    json!({
        "in_channels": vae.in_channels, "out_channels": vae.out_channels, "latent_channels": vae.latent_channels,
        "block_out_channels": vae.block_out_channels, "layers_per_block": vae.layers_per_block,
        "spatial_downsample_factors": vae.spatial_downsample,
        "temporal_downsample_factors": vae.temporal_downsample, "norm_num_groups": vae.norm_num_groups,
        "norm_eps": vae.norm_eps, "decoder_num_layers": vae.decoder_num_layers,
        "decoder_num_attention_heads": vae.decoder_num_heads, "decoder_attention_head_dim": vae.decoder_head_dim,
        "decoder_num_register_tokens": vae.decoder_num_register_tokens, "decoder_ffn_mult": vae.decoder_ffn_mult,
        "decoder_rope_theta": vae.decoder_rope_theta, "decoder_rope_dim_ratio": vae.decoder_rope_dim_ratio,
        "decoder_norm_eps": vae.decoder_norm_eps, "clip_length": vae.clip_length, "token_drop": vae.token_drop,
        "latents_mean": vae.latents_mean, "latents_std": vae.latents_std,
    })
}

fn text_encoder(config: &TextEncoderConfig) -> Value {
    let (text, vision) = (&config.text, &config.vision);
    json!({
        "image_token_id": config.image_token_id, "video_token_id": config.video_token_id,
        "vision_start_token_id": config.vision_start_token_id, "vision_end_token_id": config.vision_end_token_id,
        // The older spelling of the rotary settings, which the public model's own config has.
        "text_config": {
            "vocab_size": text.vocab_size, "hidden_size": text.hidden_size,
            "intermediate_size": text.intermediate_size, "num_hidden_layers": text.num_layers,
            "num_attention_heads": text.num_heads, "num_key_value_heads": text.num_kv_heads,
            "head_dim": text.head_dim, "rms_norm_eps": text.rms_norm_eps, "rope_theta": text.rope_theta,
            "rope_scaling": {
                "mrope_interleaved": true, "mrope_section": text.mrope_section, "rope_type": "default",
            },
            "max_position_embeddings": text.max_position_embeddings,
        },
        "vision_config": {
            "depth": vision.depth, "hidden_size": vision.hidden_size, "intermediate_size": vision.intermediate_size,
            "num_heads": vision.num_heads, "in_channels": vision.in_channels, "patch_size": vision.patch_size,
            "temporal_patch_size": vision.temporal_patch_size, "spatial_merge_size": vision.spatial_merge_size,
            "out_hidden_size": vision.out_hidden_size, "num_position_embeddings": vision.num_position_embeddings,
            "deepstack_visual_indexes": vision.deepstack_visual_indexes,
        },
    })
}
