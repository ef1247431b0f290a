"""Builds the tiny networks and writes them in diffusers' layout; `original_layout` writes the other one."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import diffusers
import torch
from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Transformer3DModel
from transformers import Qwen2Tokenizer, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from . import layout_maps, networks, tokens, weights, writer

State = dict[str, torch.Tensor]

TRANSFORMERS = {"FL2VA": "transformer", "Ref2VA": "transformer_ref"}  # partition to diffusers component
_WEIGHTS = "diffusion_pytorch_model"

# Component to the library and class that the modular index names.
_COMPONENTS = {
    "text_encoder": ("transformers", "Qwen3VLForConditionalGeneration"),
    "tokenizer": ("transformers", "Qwen2TokenizerFast"),
    "processor": ("transformers", "Qwen3VLProcessor"),
    "vae": ("diffusers", "AutoencoderKLMiniMaxH3"),
    "audio_vae": ("diffusers", "AutoencoderKLMiniMaxH3Audio"),
    "transformer": ("diffusers", "MiniMaxH3Transformer3DModel"),
    "transformer_ref": ("diffusers", "MiniMaxH3Transformer3DModel"),
    "scheduler": ("diffusers", "MiniMaxH3Scheduler"),
    "audio_scheduler": ("diffusers", "MiniMaxH3Scheduler"),
}


def modular_index(folder: str) -> dict:
    """`modular_model_index.json` for components that lie in `folder`."""
    index: dict = {"_class_name": "MiniMaxH3ModularPipeline", "_diffusers_version": diffusers.__version__,
                   "_blocks_class_name": "MiniMaxH3Blocks"}
    for name, component in _COMPONENTS.items():
        index[name] = [*component, {"type_hint": list(component), "pretrained_model_name_or_path": folder,
                                    "subfolder": name, "variant": None, "revision": None}]
    return index


def write_shards(state: State, folder: Path, stem: str, shards: int) -> None:
    """Writes the tensors in name order over several files, with the usual index."""
    names = sorted(state)
    per_shard = -(-len(names) // shards)
    weight_map, total_size = {}, 0
    for i in range(shards):
        file = f"{stem}-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: state[name] for name in names[i * per_shard : (i + 1) * per_shard]}
        writer.safetensors(folder / file, part, {"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
        total_size += sum(tensor.nbytes for tensor in part.values())
    writer.json_file(folder / f"{stem}.safetensors.index.json",
                     {"metadata": {"total_size": total_size}, "weight_map": weight_map})


@dataclass
class TinyCheckpoint:
    """The networks with their hashed weights, and all that both layouts are written from."""

    seed: int
    shifts: dict[str, float]
    tokenizer: Qwen2Tokenizer
    processor: Qwen3VLProcessor
    modules: dict[str, torch.nn.Module]
    parameters: dict[str, dict]  # component to its part of the recipe
    latent_statistics: dict[str, dict[str, list[float]]]

    @classmethod
    def build(cls, seed: int, shifts: dict[str, float]) -> TinyCheckpoint:
        tokenizer = tokens.build_tokenizer()
        statistics = {
            "vae": weights.latent_statistics(seed, "vae", networks.LATENT_CHANNELS),
            "audio_vae": weights.latent_statistics(seed, "audio_vae", networks.AUDIO_LATENT_CHANNELS),
        }
        modules = {
            "transformer": MiniMaxH3Transformer3DModel(**networks.TRANSFORMER),
            "transformer_ref": MiniMaxH3Transformer3DModel(**networks.TRANSFORMER),
            "vae": AutoencoderKLMiniMaxH3(**networks.VIDEO_VAE, **statistics["vae"]),
            "audio_vae": AutoencoderKLMiniMaxH3Audio(**networks.AUDIO_VAE, **statistics["audio_vae"]),
            "text_encoder": Qwen3VLForConditionalGeneration(networks.text_encoder_config(tokenizer)),
        }
        parameters = {name: weights.fill(module.eval(), name, seed) for name, module in modules.items()}
        # exact, for the values are rounded to BF16 already
        modules["text_encoder"].to(torch.bfloat16)
        return cls(seed, shifts, tokenizer, tokens.build_processor(tokenizer), modules, parameters, statistics)

    def state(self, component: str) -> State:
        """The tensors as the checkpoint stores them."""
        state = self.modules[component].state_dict()
        if component in TRANSFORMERS.values():
            return {name: tensor.to(torch.bfloat16) if networks.stored_bf16(component, name) else tensor
                    for name, tensor in state.items()}
        return dict(state)

    def write_diffusers(self, root: Path) -> None:
        for name in TRANSFORMERS.values():
            write_shards(self.state(name), root / name, _WEIGHTS, 2)
            self._write_config(root / name, networks.TRANSFORMER)
        for name, config in (("vae", networks.VIDEO_VAE), ("audio_vae", networks.AUDIO_VAE)):
            writer.safetensors(root / name / f"{_WEIGHTS}.safetensors", self.state(name), {"format": "pt"})
            self._write_config(root / name, {**config, **self.latent_statistics[name]})
        # one file: the original layout shares it
        self.modules["text_encoder"].save_pretrained(root / "text_encoder", max_shard_size="1GB")
        self.tokenizer.save_pretrained(root / "tokenizer")
        self.processor.save_pretrained(root / "processor")
        for name, modality in (("scheduler", "video"), ("audio_scheduler", "audio")):
            writer.json_file(root / name / "scheduler_config.json", {
                "_class_name": "MiniMaxH3Scheduler", "_diffusers_version": diffusers.__version__,
                "shift": self.shifts[modality]})
        writer.json_file(root / "modular_model_index.json", modular_index(str(root)))

    def _write_config(self, folder: Path, config: dict) -> None:
        _, class_name = _COMPONENTS[folder.name]
        writer.json_file(folder / "config.json", {
            "_class_name": class_name, "_diffusers_version": diffusers.__version__, **config})

    def recipe(self) -> dict:
        """All that a reader needs to rebuild every tensor, with digests to check the result."""
        digests = {name: weights.digest(self.state(name)) for name in self.modules}
        for partition, name in TRANSFORMERS.items():
            original = layout_maps.TRANSFORMER.convert(self.state(name))
            digests[f"original/{partition}/transformer"] = weights.digest(original)
        digests["original/video_vae"] = weights.digest(layout_maps.VIDEO_VAE.convert(self.state("vae")))
        buffers = {name: weights.stored_buffers(self.modules[name]) for name in ("vae", "audio_vae", "text_encoder")}
        text_config = json.loads(self.modules["text_encoder"].config.to_json_string())
        return {
            "seed": self.seed,
            "key": weights.KEY_IN_WORDS,
            "components": self.parameters,
            "latent_statistics": self.latent_statistics,
            "configs": {"transformer": networks.TRANSFORMER, "vae": networks.VIDEO_VAE,
                        "audio_vae": networks.AUDIO_VAE, "text_encoder": text_config},
            "special_token_ids": {token: self.tokenizer.convert_tokens_to_ids(token)
                                  for token in tokens.SPECIAL_TOKENS},
            "sha256_of_value_bytes": digests,
            "digest": weights.DIGEST_IN_WORDS,
            "buffers": {name: groups for name, groups in buffers.items() if groups},
        }
