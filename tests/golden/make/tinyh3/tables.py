"""Tables that need no network: token ids, tiles, torch's normal sampler, packed layouts at release size."""
from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from diffusers.modular_pipelines.minimax_h3 import (
    MiniMaxH3AudioReference,
    MiniMaxH3ImageReference,
    MiniMaxH3VideoReference,
)
from diffusers.modular_pipelines.minimax_h3.before_denoise import (
    MiniMaxH3PrepareLayoutStep,
    MiniMaxH3Ref2VAPrepareLayoutStep,
)
from PIL import Image

from . import writer
from .capture import Capture
from .cases import PROMPT, PROMPT_CHINESE, PROMPT_SPACES
from .networks import AUDIO_LATENT_CHANNELS, FPS, LATENT_CHANNELS, PATCH_SIZE, TILE_OVERLAP, TILE_SIZE
from .tokens import CORPUS
from .variants import ReferenceLayout, Variant
from .versions import RunInfo

_TEXTS = {
    "A": (PROMPT, CORPUS, "<Picture 1>: ", "<Audio 2>: ", "<Video 1>: ", "<0.2 seconds>", "<1.0 seconds>",
          "  two  spaces\n\nand\tTabs 12345 don't", "café naïve — ¡olé! 你好，世界 🦊",
          "<|vision_start|>x<|vision_end|>"),
    "B": (PROMPT_CHINESE, PROMPT_SPACES, "<Picture 9>: ", "<Audio 3>: ", "<Video 2>: ", "<0.8 seconds>",
          "<12.2 seconds>", "\r\n \n  x\u00a0y\u3000z",
          "e\u0301 \u212b ﬁ 한국어 ١٢٣ 👩‍🚀 we'll I'M 3.14,000", "", " "),
}
_TILED_LENGTHS = (32, 64, 96, 112, 256, 288, 320, 512, 576, 768, 864, 1024, 1344, 2048, 3424)
_RAGGED = 5  # fewer than 16 numbers are drawn one by one


def token_ids(tokenizer: object, variant: Variant) -> list[dict]:
    return [{"text": text, "ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
            for text in _TEXTS[variant.name]]


def tiles(vae: torch.nn.Module) -> list[dict]:
    """How the VAE splits lengths in pixels, for the released and for the small tiles."""
    out = []
    for tile, overlap in ((TILE_SIZE, TILE_OVERLAP), (64, 32)):
        for length in _TILED_LENGTHS:
            starts, sizes, overlaps = vae._split_tiles(length, tile, overlap)
            out.append({"length": length, "tile": tile, "min_overlap": overlap, "starts": starts, "sizes": sizes,
                        "overlaps": overlaps})
    return out


def torch_normal(seed: int, count: int) -> np.ndarray:
    """What torch.randn draws on a CPU for 16 numbers or more, by the formulas alone.

    MT19937 words give 24-bit uniforms; each block of 16 holds 8 radii, then 8 angles, of Box and Muller. A ragged end
    is drawn anew: the last 16 numbers come from 16 fresh words.
    """
    tail = count % 16
    words = np.frombuffer(np.random.RandomState(seed).bytes(4 * (count + (16 if tail else 0))), "<u4")
    uniforms = (words & 0xFFFFFF).astype(np.float32) * np.float32(2.0**-24)

    def blocks(values: np.ndarray) -> np.ndarray:
        radii, angles = values.reshape(-1, 2, 8).swapaxes(0, 1)
        radii = np.sqrt(np.float32(-2.0) * np.log(np.float32(1.0) - radii))
        angles = np.float32(2.0 * np.pi) * angles
        return np.concatenate([radii * np.cos(angles), radii * np.sin(angles)], axis=1).reshape(-1)

    out = np.empty(count, np.float32)
    out[: count - tail] = blocks(uniforms[: count - tail])
    if tail:
        out[-16:] = blocks(uniforms[count:])
    return out


def random_numbers(variant: Variant, info: RunInfo, out: Path) -> dict[str, float]:
    """torch.randn by seed and size; returns how far `torch_normal` is from it."""
    capture, sizes, errors = Capture(), variant.components, {}
    for seed in sizes.rng_seeds:
        for count in sizes.rng_sizes:
            drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed))
            capture.put(f"randn.seed{seed}.n{count}", drawn)
            if seed < 2**32:  # numpy takes no larger one; torch uses its low 32 bits
                errors[f"{seed}/{count}"] = float(np.abs(torch_normal(seed, count) - drawn.numpy()).max())
        capture.put(f"randn.seed{seed}.n{_RAGGED}",
                    torch.randn(_RAGGED, generator=torch.Generator().manual_seed(seed)))
    seed, counts = sizes.rng_sequence
    generator = torch.Generator().manual_seed(seed)
    for i, count in enumerate(counts):
        capture.put(f"sequence.seed{seed}.draw{i}", torch.randn(count, generator=generator))
    capture.save(out, "rng", info)
    return errors


def _describe_layout(name: str, asked: dict[str, object], packed: tuple) -> dict:
    """Digests of the whole layout and some of its rows; whole ones would be megabytes."""
    positions, tags, video, audio, text, condition_video_rows, condition_audio_rows = packed
    rows = len(positions)
    ends = [int(index) for index in (video[0], video[-1], audio[0], audio[-1], text[-1])]
    sampled = sorted({0, 1, rows - 1, *ends, *range(0, rows, max(1, rows // 12))})
    return {
        "name": name, **asked, "rows": rows, "condition_video_rows": condition_video_rows,
        "condition_audio_rows": condition_audio_rows,
        "position_ids_f64_sha256": hashlib.sha256(writer.raw_bytes(positions)).hexdigest(),
        "token_tags_i64_sha256": hashlib.sha256(writer.raw_bytes(tags)).hexdigest(),
        "video_indices_first_last": ends[:2], "audio_indices_first_last": ends[2:4],
        "sampled_rows": {str(i): positions[i].tolist() for i in sampled},
    }


def _latent_sizes(num_frames: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Latent frames, height and width, and audio latents of a canvas."""
    return (num_frames - 5) // 17 * 5 + 2, height // 16, width // 16, round(num_frames / FPS * 40)


def _blank_reference(kind: str) -> object:
    """Only the kind of a reference and whether it sounds matter to the layout."""
    sound = torch.zeros(2, 8)
    if kind == "image":
        return MiniMaxH3ImageReference(image=Image.new("RGB", (8, 8)))
    if kind == "audio":
        return MiniMaxH3AudioReference(audio=sound)
    frames = np.zeros((1, 8, 8, 3), np.uint8)
    return MiniMaxH3VideoReference(frames=frames, audio=sound if kind == "video+sound" else None)


def _reference_layout(layout: ReferenceLayout, tags: torch.Tensor) -> dict:
    latents, height, width, audio_latents = _latent_sizes(layout.num_frames, layout.height, layout.width)
    packed = MiniMaxH3Ref2VAPrepareLayoutStep.build_ref2va_packed_sequence(
        tags, [_blank_reference(kind) for kind in layout.references],
        [torch.empty(1, LATENT_CHANNELS, *shape) for shape in layout.visual_latents],
        [torch.empty(2 * count, AUDIO_LATENT_CHANNELS) for count in layout.audio_latents],
        latents, height, width, audio_latents, PATCH_SIZE, 2, 2, 0)
    return _describe_layout("ref2va " + ",".join(layout.references), {
        "num_frames": layout.num_frames, "height": layout.height, "width": layout.width, "text_tokens": len(tags),
        "reference_latents_thw": [list(shape) for shape in layout.visual_latents],
        "reference_audio_latents": list(layout.audio_latents)}, packed)


def release_size_layouts(variant: Variant) -> list[dict]:
    """Text to video and every set of keyframes on each canvas, and one long sequence of references."""
    sizes = variant.components
    tags = torch.ones(sizes.text_rows, dtype=torch.long)
    out = []
    for num_frames, height, width in sizes.canvases:
        latent_sizes = _latent_sizes(num_frames, height, width)
        for keyframes in ((), ("first",), ("last",), ("first", "last")):
            packed = MiniMaxH3PrepareLayoutStep.build_packed_sequence(
                tags, *latent_sizes, PATCH_SIZE, 2, 2, 0, keyframes)
            asked = {"num_frames": num_frames, "height": height, "width": width, "text_tokens": len(tags)}
            out.append(_describe_layout("+".join(keyframes) or "t2va", asked, packed))
    return [*out, _reference_layout(sizes.reference_layout, tags)]
