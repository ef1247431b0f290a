"""Every weight is a hash of its name, so that `recipe.json` is enough to rebuild the checkpoint in any language.

Value i of a tensor: splitmix64 with the state fnv1a64("{seed}:{component}:{name}") + (i+1) steps; its top 24 bits give
u in [0,1) exactly; the weight is mean + std * sqrt(3) * (2u - 1) in F64, rounded to F32 and then to BF16 where
the checkpoint stores that.
"""
from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import torch

from . import networks
from .writer import raw_bytes

KEY_IN_WORDS = "fnv1a64(utf8('{seed}:{component}:{name}'))"
DIGEST_IN_WORDS = "sha256 over, for each tensor in name order: utf8 name, then its little-endian value bytes"


@dataclass(frozen=True)
class Spread:
    """A uniform distribution by mean and standard deviation."""

    mean: float
    std: float
    mean_second_half: float | None = None

    def entry(self) -> dict[str, float]:
        out = {"mean": self.mean, "std": self.std}
        if self.mean_second_half is not None:
            out["mean_second_half"] = self.mean_second_half
        return out


def fnv1a64(text: str) -> int:
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return state


def uniform(key: str, count: int) -> np.ndarray:
    """`count` F64 values in [0,1), each a multiple of 2^-24."""
    word = np.uint64
    with np.errstate(over="ignore"):  # wrapping modulo 2^64 is what the generator is made of
        z = word(fnv1a64(key)) + np.arange(1, count + 1, dtype=word) * word(0x9E3779B97F4A7C15)
        z = (z ^ (z >> word(30))) * word(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> word(27))) * word(0x94D049BB133111EB)
        z ^= z >> word(31)
    return (z >> word(40)).astype(np.float64) * 2.0**-24


def hashed(seed: int, component: str, name: str, shape: tuple[int, ...], spread: Spread) -> torch.Tensor:
    """The F32 tensor of that name."""
    count = math.prod(shape)
    values = spread.mean + spread.std * np.sqrt(3.0) * (2.0 * uniform(f"{seed}:{component}:{name}", count) - 1.0)
    if spread.mean_second_half is not None:
        values[count // 2 :] += spread.mean_second_half - spread.mean
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def standard_normal_like(key: int, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Mean 0 and std 1 for the components' inputs, which depend on the variant and not on the weight seed."""
    return hashed(key, "golden", name, shape, Spread(0.0, 1.0))


# The spreads keep every stage near unit variance: a network of random weights else dies out or explodes, and a
# comparison of tiny or saturated numbers proves nothing.


def _is_norm_gain(name: str) -> bool:
    return "norm" in name and name.endswith(".weight")


def _transformer(name: str, fan_in: int) -> Spread:
    if ".adaln_proj.linear." in name or name.startswith("norm_out.linear."):
        # strong modulation, for a wrong row of it has to show
        return Spread(0.0, 0.35) if name.endswith("bias") else Spread(0.0, 2.0 / fan_in**0.5)
    if _is_norm_gain(name):
        return Spread(1.0, 0.15)
    if name.endswith("bias"):
        return Spread(0.0, 0.1)
    gain = 1.0
    if name.startswith(("proj_in", "audio_proj_in", "time_embedder")):
        gain = 1.2
    elif ".to_q." in name or ".to_k." in name:
        gain = 1.5  # sharp attention makes positions matter
    return Spread(0.0, gain / fan_in**0.5)


def _text_encoder(name: str, fan_in: int) -> Spread:
    if "pos_embed" in name:
        return Spread(0.0, 0.5)
    if "embed_tokens" in name or "lm_head" in name:
        return Spread(0.0, 1.0)
    if _is_norm_gain(name):
        return Spread(1.0, 0.1)
    if name.endswith(".bias"):
        return Spread(0.0, 0.05)
    # half gain on what enters the residual stream: there are 104 such additions
    enters_residual = "o_proj" in name or "down_proj" in name
    return Spread(0.0, (0.5 if enters_residual else 1.2) / fan_in**0.5)


def _video_vae(name: str, fan_in: int) -> Spread:
    leaf = name.rsplit(".", 1)[-1]
    if name == "quant_conv.bias":
        return Spread(0.0, 0.1, mean_second_half=-4.0)  # the second half is the log variance: small, as when trained
    if name == "quant_conv.weight":
        return Spread(0.0, 1.2 / fan_in**0.5)
    if leaf in ("scale1", "scale2"):
        return Spread(0.6, 0.15)
    if leaf == "register_tokens":
        return Spread(0.0, 0.7)
    if _is_norm_gain(name):
        return Spread(1.0, 0.15)
    if leaf == "bias":
        return Spread(0.0, 0.1)
    return Spread(0.0, (0.9 if name == "decoder.proj_out.weight" else 1.3) / fan_in**0.5)


def _audio_weight_norm_gain(name: str) -> float:
    if ".ups." in name:
        # a transposed convolution is normalised per input channel, and of its taps 1/stride meet in one output
        level = int(name.split(".ups.")[1].split(".")[0])
        return (networks.AUDIO_VAE["decoder_rates"][level] / 2.0) ** 0.5
    if ".convs2." in name:
        return 0.4
    if name.startswith("encoder."):
        return 0.72
    return 0.2 if "conv_post" in name else 1.0


def _audio_vae(name: str, shape: tuple[int, ...], fan_in: int) -> Spread:
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "weight_v":
        return Spread(0.0, 1.0)
    if leaf == "weight_g":
        gain = _audio_weight_norm_gain(name)
        return Spread(gain, 0.1 * gain)
    if leaf == "alpha":  # the encoder's are plain factors [1,C,1], the decoder's are exponents [C]
        return Spread(1.0 if len(shape) == 3 else 0.0, 0.2)
    if leaf == "beta":
        return Spread(0.0, 0.2)
    if _is_norm_gain(name):
        return Spread(1.0, 0.1)
    if leaf in ("bias", "q_bias", "v_bias"):
        return Spread(0.0, 0.05)
    return Spread(0.0, 1.0 / fan_in**0.5)


def spread_of(component: str, name: str, shape: tuple[int, ...]) -> Spread:
    fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[0]
    if component in ("transformer", "transformer_ref"):
        return _transformer(name, fan_in)
    if component == "text_encoder":
        return _text_encoder(name, fan_in)
    if component == "vae":
        return _video_vae(name, fan_in)
    return _audio_vae(name, shape, fan_in)


@torch.no_grad()
def fill(module: torch.nn.Module, component: str, seed: int) -> dict[str, dict]:
    """Gives every parameter its hashed value and returns the component's part of the recipe."""
    recipe = {}
    for name, parameter in sorted(module.named_parameters()):
        shape = tuple(parameter.shape)
        spread = spread_of(component, name, shape)
        value = hashed(seed, component, name, shape, spread)
        bf16 = networks.stored_bf16(component, name)
        if bf16:  # F32 runs start from the rounded value too, so that both precisions share one checkpoint
            value = value.to(torch.bfloat16).float()
        parameter.copy_(value)
        recipe[name] = {"shape": list(shape), "dtype": "BF16" if bf16 else "F32", **spread.entry()}
    return recipe


def latent_statistics(seed: int, component: str, channels: int) -> dict[str, list[float]]:
    """The per-channel mean and std that the checkpoint's VAE config carries."""
    return {name: hashed(seed, component, name, (channels,), spread).tolist()
            for name, spread in (("latents_mean", Spread(0.0, 0.3)), ("latents_std", Spread(1.0, 0.2)))}


def digest(state: dict[str, torch.Tensor]) -> str:
    sha = hashlib.sha256()
    for name in sorted(state):
        sha.update(name.encode())
        sha.update(raw_bytes(state[name]))
    return sha.hexdigest()


def stored_buffers(module: torch.nn.Module) -> list[dict]:
    """The stored tensors that are no parameters, with their values; equal ones share an entry."""
    parameters = {name for name, _ in module.named_parameters()}
    groups: dict[tuple, list[str]] = {}
    for name, tensor in sorted(module.state_dict().items()):
        if name not in parameters:
            groups.setdefault((tuple(tensor.shape), tuple(tensor.double().flatten().tolist())), []).append(name)
    out = []
    for (shape, values), names in groups.items():
        value = {"fill": values[0]} if len(set(values)) == 1 else {"values": values}
        out.append({"shape": list(shape), "dtype": "F32", **value, "names": names})
    return out
