"""How the original layout's tensors follow from diffusers' names, as data: it makes the weights and the manifest."""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from . import networks

State = dict[str, torch.Tensor]


class Source(NamedTuple):
    """One original tensor: an operation over diffusers tensors."""

    operation: str
    names: list[str]


def interleave_qkv(parts: list[torch.Tensor], heads: int) -> torch.Tensor:
    """Rows of q, k and v regrouped per head: head 0's q, k, v, then head 1's, and so on."""
    per_head = [part.unflatten(0, (heads, -1)) for part in parts]
    return torch.cat(per_head, dim=1).flatten(0, 1).contiguous()


def swap_halves(weight: torch.Tensor) -> torch.Tensor:
    """The original stores [gate; up], diffusers [up; gate]."""
    up, gate = weight.chunk(2)
    return torch.cat([gate, up]).contiguous()


@dataclass(frozen=True)
class LayoutMap:
    """The naming rules of one network."""

    heads: int
    prefixes: dict[str, str]  # at the start of a name
    parts: dict[str, str]  # anywhere in a name, in this order
    qkv: str  # what stands for attn.to_q, to_k and to_v together
    gate_up: str  # what stands for ff.net.0.proj
    extra: str  # a tensor that diffusers does not store
    extra_operation: str
    extra_shape: tuple[int, ...]

    def _renamed(self, name: str) -> str:
        for old, new in self.prefixes.items():
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        for old, new in self.parts.items():
            name = name.replace(old, new)
        return name

    def sources(self, names: list[str]) -> dict[str, Source]:
        """Original name to its source, for the parameters called `names` in diffusers; `extra` is not among them."""
        out = {}
        for name in names:
            renamed = self._renamed(name)
            if ".attn.to_q." in name:
                parts = [name.replace(".to_q.", f".to_{letter}.") for letter in "qkv"]
                out[renamed.replace(".to_q.", f".{self.qkv}.")] = Source("interleave_qkv", parts)
            elif ".ff.net.0.proj." in name:
                out[renamed.replace(".ff.net.0.proj.", f".{self.gate_up}.")] = Source("swap_halves", [name])
            elif ".attn.to_k." not in name and ".attn.to_v." not in name:
                out[renamed] = Source("copy", [name])
        return out

    def convert(self, state: State) -> State:
        """The original layout's tensors, `extra` included."""
        out = {}
        for name, source in self.sources(list(state)).items():
            parts = [state[n] for n in source.names]
            if source.operation == "interleave_qkv":
                out[name] = interleave_qkv(parts, self.heads)
            else:
                out[name] = swap_halves(parts[0]) if source.operation == "swap_halves" else parts[0]
        out[self.extra] = self._extra_tensor()
        return out

    def _extra_tensor(self) -> torch.Tensor:
        if self.extra_operation == "zeros":
            return torch.zeros(self.extra_shape)
        (count,) = self.extra_shape
        exponents = torch.arange(0, 2 * count, 2, dtype=torch.float32) / (2 * count)
        return 1.0 / (networks.TRANSFORMER["rope_theta"] ** exponents)

    def manifest(self, names: list[str]) -> list[dict]:
        out = [{"to": name, "op": source.operation, "from": source.names}
               for name, source in self.sources(names).items()]
        extra = {"to": self.extra, "op": self.extra_operation, "from": []}
        if self.extra_operation == "zeros":
            extra["shape"] = list(self.extra_shape)
        return [*out, extra]


TRANSFORMER = LayoutMap(
    heads=networks.TRANSFORMER["num_attention_heads"],
    prefixes={
        "proj_in.": "video_patch_proj.", "audio_proj_in.": "audio_patch_proj.", "context_embedder.": "condition_proj.",
        "time_embedder.linear_1.": "time_embedder.proj_in.", "time_embedder.linear_2.": "time_embedder.proj_out.",
        "norm_out.norm.": "final_layer.norm.", "norm_out.linear.": "final_layer.adaln_proj.linear.",
        "proj_out.": "final_layer.video_out.", "audio_proj_out.": "final_layer.audio_out.",
        "token_refiner.refiner_blocks.": "token_refiner.blocks.", "transformer_blocks.": "blocks.",
    },
    parts={".ff.net.2.": ".mlp.fc2.", ".attn.norm_q.": ".attn.q_norm.", ".attn.norm_k.": ".attn.k_norm.",
           ".attn.to_out.0.": ".attn.out_proj."},
    qkv="qkv_proj", gate_up="mlp.fc1",
    extra="rope.inv_freq", extra_operation="inv_freq", extra_shape=(networks.TRANSFORMER["rope_freq_dim"],),
)

_VAE = networks.VIDEO_VAE
VIDEO_VAE = LayoutMap(
    heads=_VAE["decoder_num_attention_heads"],
    prefixes={"encoder.down_blocks.": "encoder.down.", "decoder.proj_in.": "decoder.x_embedder."},
    parts={".resnets.": ".block.", ".conv_shortcut.": ".nin_shortcut.", ".downsamplers.0.": ".downsample.",
           ".attn.to_out.0.": ".attn.to_out.", ".ff.net.2.": ".ff.w2."},
    qkv="to_qkv", gate_up="ff.w1",
    extra="decoder.mask_token", extra_operation="zeros",
    extra_shape=(1, 1, _VAE["decoder_num_attention_heads"] * _VAE["decoder_attention_head_dim"]),
)
