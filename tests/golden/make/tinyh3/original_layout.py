"""Writes the checkpoint as the original release lays it out: two partitions that differ in the transformer only.

The config files hold the keys that readers of the release are known to use. Real ones have more, whose values are not
public in any source read here.
"""
from __future__ import annotations

import os
from pathlib import Path

import torch

from . import layout_maps, networks, writer
from .checkpoint import TRANSFORMERS, TinyCheckpoint, write_shards

_TASKS = {"FL2VA": ["t2va", "fl2va"], "Ref2VA": ["ref2va"]}
_DIT, _VAE, _AUDIO = networks.TRANSFORMER, networks.VIDEO_VAE, networks.AUDIO_VAE


def _model_index(partition: str, shifts: dict[str, float]) -> dict:
    return {
        "_class_name": "MiniMaxH3Pipeline",
        "scheduler": None,
        "text_encoder": ["minimax_h3", "MiniMaxH3Qwen3VLHFEncoder"],
        "tokenizer": ["transformers", "Qwen2TokenizerFast"],
        "processor": ["transformers", "Qwen3VLProcessor"],
        "transformer": ["minimax_h3", "MiniMaxH3DiTModel"],
        "video_vae": ["minimax_h3", "MiniMaxH3VideoVAE"],
        "audio_vae": ["minimax_h3", "MiniMaxH3AudioVAE"],
        "_minimax_h3": {"partition": partition.lower(), "tasks": _TASKS[partition], "sigma_shift_scales": shifts},
    }


def _transformer_config() -> dict:
    hidden = _DIT["hidden_size"]
    return {
        "_class_name": "MiniMaxH3DiTModel",
        "num_layers": _DIT["num_layers"],
        "token_refiner_num_layers": _DIT["num_refiner_layers"],
        "hidden_size": hidden,
        "num_attention_heads": _DIT["num_attention_heads"],
        "attention_head_dim": _DIT["attention_head_dim"],
        "ffn_hidden_size": _DIT["ffn_dim"],
        "latents_dim": _DIT["in_channels"],
        "audio_latents_dim": _DIT["audio_in_channels"],
        "patch_size": _DIT["patch_size"],
        "text_dim": _DIT["text_dim"],
        "timestep_input_dim": _DIT["freq_dim"],
        "time_embed_hidden_size": _DIT["time_embed_hidden_dim"],
        "time_embed_dim": _DIT["time_embed_dim"],
        # per modality (3): shift, scale and gate, for attention and for the feed-forward (6)
        "adaln_out_features": 3 * 6 * hidden,
        "final_adaln_out_features": 2 * hidden,
        "rope_inv_freq_len": _DIT["rope_freq_dim"],
        "norm_eps": _DIT["norm_eps"],
        "qk_norm_eps": _DIT["qk_norm_eps"],
        "final_norm_eps": _DIT["final_norm_eps"],
    }


def _video_vae_config(statistics: dict[str, list[float]]) -> dict:
    return {
        "source_class_name": "AutoencoderKLLegacy",
        "source_path": "source",
        "source_safetensors_path": "model.safetensors",
        "latent_channels": _VAE["latent_channels"],
        "vae_clip_length": _VAE["clip_length"],
        "vae_token_drop": _VAE["token_drop"],
        "vae_encoder_tiling": 1,
        "vae_decoder_tiling": 1,
        "vae_parallel_tiling": 0,
        "vae_tile_size": networks.TILE_SIZE,
        "vae_tile_overlap_min": networks.TILE_OVERLAP,
        "vae_encoder_parallel": 0,
        "vae_decoder_parallel": 0,
        "vae_chunk_dim": 0,
        **statistics,
    }


def _video_vae_source_config() -> dict:
    channels = _VAE["block_out_channels"]
    return {
        "in_channels": _VAE["in_channels"],
        "out_ch": _VAE["out_channels"],
        "z_channels": _VAE["latent_channels"],
        "embed_dim": _VAE["latent_channels"],
        "ch": channels[0],
        "ch_mult": [c // channels[0] for c in channels],
        "num_res_blocks": _VAE["layers_per_block"],
        "space_down": _VAE["spatial_downsample_factors"],
        "time_down": _VAE["temporal_downsample_factors"],
        "padding_mode": _VAE["spatial_padding_mode"],
        "use_3d_conv": True,
        "use_vit_decoder": True,
        "causal_encoder": True,
        "causal_decoder": False,
        "use_t_isolated_gn": True,
        "norm_num_groups": _VAE["norm_num_groups"],
        "vit_decoder_kwargs": {
            "num_layers": _VAE["decoder_num_layers"],
            "heads": _VAE["decoder_num_attention_heads"],
            "dim_head": _VAE["decoder_attention_head_dim"],
            "rope_theta": _VAE["decoder_rope_theta"],
            "rope_dim_ratio": _VAE["decoder_rope_dim_ratio"],
            "ffn_mult": _VAE["decoder_ffn_mult"],
        },
    }


def _audio_vae_config(statistics: dict[str, list[float]]) -> dict:
    return {"latent_channels": _AUDIO["latent_channels"], "sample_rate": _AUDIO["sampling_rate"],
            "source_safetensors_path": "model.safetensors", "source_metadata_path": "metadata.json", **statistics}


def _audio_vae_metadata() -> dict:
    return {"metadata": {"kwargs": {
        "encoder_dim": _AUDIO["encoder_dim"],
        "encoder_rates": _AUDIO["encoder_rates"],
        "latent_dim": _AUDIO["latent_dim"],
        "vae_latent_channels": _AUDIO["latent_channels"],
        "decoder_dim": _AUDIO["decoder_dim"],
        "decoder_rates": _AUDIO["decoder_rates"],
        "decoder_type": "bigvgan",
        "attn_proj": True,
        "sample_rate": _AUDIO["sampling_rate"],
    }}}


def write(checkpoint: TinyCheckpoint, root: Path) -> None:
    """Writes `root`/FL2VA and `root`/Ref2VA; equal weight files are hard links."""
    statistics = checkpoint.latent_statistics
    shared = {
        "video_vae/source/model.safetensors": layout_maps.VIDEO_VAE.convert(checkpoint.state("vae")),
        "audio_vae/model.safetensors": checkpoint.state("audio_vae"),
        "text_encoder/model.safetensors": checkpoint.state("text_encoder"),
    }
    first_folder: Path | None = None
    for partition, component in TRANSFORMERS.items():
        folder = root / partition
        write_shards(layout_maps.TRANSFORMER.convert(checkpoint.state(component)), folder / "transformer", "model", 3)
        writer.json_file(folder / "model_index.json", _model_index(partition, checkpoint.shifts))
        writer.json_file(folder / "transformer/config.json", _transformer_config())
        writer.json_file(folder / "video_vae/config.json", _video_vae_config(statistics["vae"]))
        writer.json_file(folder / "video_vae/source/config.json", _video_vae_source_config())
        writer.json_file(folder / "audio_vae/config.json", _audio_vae_config(statistics["audio_vae"]))
        writer.json_file(folder / "audio_vae/metadata.json", _audio_vae_metadata())
        checkpoint.modules["text_encoder"].config.save_pretrained(folder / "text_encoder")
        checkpoint.tokenizer.save_pretrained(folder / "tokenizer")
        checkpoint.processor.save_pretrained(folder / "processor")
        for file, state in shared.items():
            _write_or_link(folder / file, state, first_folder and first_folder / file)
        first_folder = first_folder or folder


def _write_or_link(path: Path, state: dict[str, torch.Tensor], twin: Path | None) -> None:
    if twin is None:
        writer.safetensors(path, state, {"format": "pt"})
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(twin, path)
