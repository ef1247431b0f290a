"""Parts of the model in released shape, in PyTorch, with the weights and inputs that the engine draws.

Every number is a hash of its tensor's name and place, so that both sides make the same and nothing travels.
"""

import math

import torch

MASK = (1 << 64) - 1
DIT_BLOCK = dict(
    hidden_size=5376, num_attention_heads=56, attention_head_dim=128, ffn_dim=14336, time_embed_dim=2688,
    norm_eps=1e-5, qk_norm_eps=1e-5,
)


def signed(value):
    """The 64-bit integer of PyTorch that has the bits of an unsigned one."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def fnv1a64(key):
    state = 0xCBF29CE484222325
    for byte in key.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def drawn(key, shape, mean, std, device):
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


def drawn_input(seed, name, shape, device):
    """An input: a mean of 0 and a standard deviation of 1."""
    return drawn(f"{seed}:input:{name}", shape, 0.0, 1.0, device)


def spread(name, shape):
    """Mean and standard deviation of a tensor, by its name and shape."""
    leaf, terms = name.rsplit(".", 1)[-1], math.prod(shape[1:])
    if leaf == "weight_g":
        return 1.0, 0.1
    if leaf == "filter":
        return 1.0 / terms, 0.01
    if leaf in ("alpha", "beta", "scale1", "scale2"):
        return 0.5, 0.1
    if len(shape) == 1:
        return (1.0, 0.1) if leaf == "weight" else (0.0, 0.02)
    return 0.0, 1.0 / math.sqrt(terms)


def first_of_stack(name):
    """The name of the same tensor in the first block of its stack."""
    steps = name.split(".")
    for place, step in enumerate(steps):
        if step.isdigit():
            return ".".join([*steps[:place], "0", *steps[place + 1 :]])
    return name


def fill(module, seed, component, prefix="", dtype=torch.float32):
    """Draws every tensor of a module in F32, rounded to `dtype` as a checkpoint holds it. Equal blocks of a stack share the
    values of the first."""
    first = {}
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            name = prefix + name
            source = first.setdefault((first_of_stack(name), tensor.shape), (name, tensor))
            if source[0] != name:
                tensor.copy_(source[1])
                continue
            mean, std = spread(name, tensor.shape)
            tensor.copy_(drawn(f"{seed}:{component}:{name}", tensor.shape, mean, std, tensor.device).to(dtype))
    return module.requires_grad_(False).eval()


def dit_block(seed, device, sizes=DIT_BLOCK):
    from diffusers.models.transformers.transformer_minimax_h3 import MiniMaxH3TransformerBlock

    with torch.device(device):
        block = MiniMaxH3TransformerBlock(**sizes)
    return fill(block, seed, "dit/fl2va", "transformer_blocks.0.", torch.bfloat16)


def text_layer(seed, device):
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer

    config = Qwen3VLTextConfig(
        vocab_size=151936, hidden_size=5120, intermediate_size=25600, num_hidden_layers=64, num_attention_heads=64,
        num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-6, attention_bias=False, hidden_act="silu",
    )
    config._attn_implementation = "sdpa"
    with torch.device(device):
        layer = Qwen3VLTextDecoderLayer(config, 0)
    return fill(layer, seed, "text_encoder", "model.language_model.layers.0.", torch.bfloat16)


def video_vae(seed, device):
    from diffusers import AutoencoderKLMiniMaxH3

    with torch.device(device):
        vae = AutoencoderKLMiniMaxH3()
    return fill(vae, seed, "video_vae")


def audio_vae(seed, device):
    from diffusers import AutoencoderKLMiniMaxH3Audio

    with torch.device(device):
        vae = AutoencoderKLMiniMaxH3Audio()
    return fill(vae, seed, "audio_vae")
