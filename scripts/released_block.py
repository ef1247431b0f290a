"""One DiT block of released shape in PyTorch, with the weights that the engine draws.

Every number is a hash of its tensor's name and place, so that both sides make the same weights and nothing travels.
"""

import math

import torch
from diffusers.models.transformers.transformer_minimax_h3 import MiniMaxH3TransformerBlock

SIZES = dict(
    hidden_size=5376, num_attention_heads=56, attention_head_dim=128, ffn_dim=14336, time_embed_dim=2688,
    norm_eps=1e-5, qk_norm_eps=1e-5,
)
MASK = (1 << 64) - 1


def signed(value: int) -> int:
    """The 64-bit integer of PyTorch that has the bits of an unsigned one."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def fnv1a64(key: str) -> int:
    state = 0xCBF29CE484222325
    for byte in key.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def drawn(key: str, shape, mean: float, std: float, device) -> torch.Tensor:
    """The values of `key`: a counter mixed by splitmix64's finaliser, evaluated in F64 and rounded once to F32."""
    def shifted(value, bits):  # without the sign
        return (value >> bits) & ((1 << (64 - bits)) - 1)

    count = math.prod(shape)
    out = torch.empty(count, dtype=torch.float32, device=device)
    for start in range(0, count, 1 << 25):
        index = torch.arange(start + 1, min(start + (1 << 25), count) + 1, dtype=torch.int64, device=device)
        state = index * signed(0x9E3779B97F4A7C15) + signed(fnv1a64(key))
        mixed = (state ^ shifted(state, 30)) * signed(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ shifted(mixed, 27)) * signed(0x94D049BB133111EB)
        mixed = mixed ^ shifted(mixed, 31)
        uniform = shifted(mixed, 40).double() * 2.0**-24
        out[start : start + len(index)] = mean + (std * math.sqrt(3.0)) * (2.0 * uniform - 1.0)
    return out.view(shape)


def block(seed: int, device, sizes=SIZES) -> MiniMaxH3TransformerBlock:
    """The first block in F32: its weights are drawn as the engine draws them, rounded to BF16 as a checkpoint holds them."""
    with torch.device("meta"):
        made = MiniMaxH3TransformerBlock(**sizes)
    made = made.to_empty(device=device).requires_grad_(False)
    for name, parameter in made.state_dict().items():
        if parameter.dim() > 1:
            mean, std = 0.0, 1.0 / math.sqrt(math.prod(parameter.shape[1:]))
        else:
            mean, std = (1.0, 0.1) if name.endswith("weight") else (0.0, 0.02)
        values = drawn(f"{seed}:dit/fl2va:transformer_blocks.0.{name}", parameter.shape, mean, std, device)
        parameter.copy_(values.to(torch.bfloat16))
    return made.eval()
