"""Goldens of single components, with inputs that no request gives: every level, tile and pad of the codecs."""
from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from diffusers import MiniMaxH3Scheduler
from diffusers.modular_pipelines import MiniMaxH3ModularPipeline
from PIL import Image

from .capture import Capture
from .media import moving_pictures, picture, wave
from .networks import AUDIO_LATENT_CHANNELS, LATENT_CHANNELS, SAMPLE_RATE
from .variants import ComponentSizes
from .versions import RunInfo
from .weights import standard_normal_like

_SMALL_TILE = (64, 32)  # size and least overlap: several tiles of tiny pictures
_ENCODER_LEVELS = (0, 1, 5)


class _Pixels:
    """The pipeline's normalisation of U8 frames, and its inverse."""

    def __init__(self, pipeline: MiniMaxH3ModularPipeline) -> None:
        self._mean = torch.tensor(pipeline.pixel_mean).view(1, 3, 1, 1, 1)
        self._std = torch.tensor(pipeline.pixel_std).view(1, 3, 1, 1, 1)

    def normalized(self, frames: np.ndarray) -> torch.Tensor:
        """[T,H,W,3] U8 to [1,3,T,H,W]."""
        unit = torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 255.0
        return (unit - self._mean) / self._std

    def levels(self, pixels: torch.Tensor) -> torch.Tensor:
        """To whole numbers in 0..255, as floats."""
        return ((pixels.float() * self._std + self._mean).clamp(0, 1) * 255).round()


@contextlib.contextmanager
def _tiles(vae: torch.nn.Module, size: int, overlap: int) -> Iterator[None]:
    names = ("tile_sample_min_height", "tile_sample_min_width", "tile_sample_min_overlap_height",
             "tile_sample_min_overlap_width")
    saved = {name: getattr(vae, name) for name in names}
    vae.enable_tiling(size, size, overlap, overlap)
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(vae, name, value)


def video_vae(pipeline: MiniMaxH3ModularPipeline, sizes: ComponentSizes, info: RunInfo, out: Path) -> dict:
    """Encodes a still by levels and whole clips, decodes latents of several lengths, and both again in tiles."""
    vae, capture, pixels = pipeline.vae, Capture(), _Pixels(pipeline)
    encoder = vae.encoder
    capture.after(encoder.conv_in, lambda output: capture.put_once("enc1.conv_in_row0", output[..., 0, :]))
    capture.outputs_once({**{f"enc1.down_{i}": encoder.down_blocks[i] for i in _ENCODER_LEVELS},
                          "enc1.conv_out": encoder})
    still = pixels.normalized(picture(*sizes.still)[None])
    capture.put("enc1.pixels", still)
    capture.put("enc1.moments", vae._encode(still))
    capture.stop()
    for clip in sizes.clips:
        frames = moving_pictures(*clip)
        capture.put(f"enc{len(frames)}.frames_u8", frames)
        capture.put(f"enc{len(frames)}.moments", vae._encode(pixels.normalized(frames)))

    decoder = vae.decoder
    for i, shape in enumerate(sizes.latents):
        name = f"dec{shape[0]}"
        z = standard_normal_like(sizes.key, f"z{shape[0]}", (1, LATENT_CHANNELS, *shape))
        capture.put(f"{name}.z", z)
        if i == 0:
            capture.rope_once(name, decoder.rope)
            capture.outputs_once({f"{name}.proj_in_first_clip": decoder.proj_in,
                                  f"{name}.block0_out": decoder.transformer_blocks[0],
                                  f"{name}.norm_out": decoder.norm_out})
            capture.put(f"{name}.post_quant", vae.post_quant_conv(z))
        capture.put(f"{name}.frames", vae._decode(z))
        capture.stop()

    with _tiles(vae, *_SMALL_TILE):
        still = pixels.normalized(picture(*sizes.tiled)[None])
        capture.put("tiled.enc.pixels", still)
        capture.put("tiled.enc.moments", vae._encode(still))
        z = standard_normal_like(sizes.key, "zt", (1, LATENT_CHANNELS, *sizes.tiled_latent))
        capture.put("tiled.dec.z", z)
        # one frame of each clip, in half the bytes: the file is large enough
        capture.put("tiled.dec.frames_0_16", vae._decode(z)[:, :, [0, 16]].to(torch.float16))
    size, overlap = _SMALL_TILE
    capture.save(out, "vae", info, tile=f"{size}/{overlap} for tiled.*")
    return capture.statistics()


def video_vae_f16(pipeline: MiniMaxH3ModularPipeline, sizes: ComponentSizes, info: RunInfo, out: Path) -> dict:
    """One decode in F32 and under torch's own F16 autocast, which the release decodes with.

    There linears and the 1x1x1 convolution are F16, norms and the residual stream F32.
    """
    vae, capture = pipeline.vae, Capture()
    decoder = vae.decoder
    block = decoder.transformer_blocks[0]
    modules = {"post_quant": vae.post_quant_conv, "proj_in": decoder.proj_in, "block0_norm1": block.norm1,
               "block0_to_q": block.attn.to_q, "block0_attn_out": block.attn, "block0_ff_out": block.ff,
               "block0_out": block, "norm_out": decoder.norm_out}
    f16_only = ("block0_norm1", "block0_to_q", "norm_out")
    z = standard_normal_like(sizes.key, "zf16", (1, LATENT_CHANNELS, *sizes.f16_latent))
    capture.put("z", z)
    capture.outputs_once({f"f32.{name}_first_clip": module for name, module in modules.items()
                          if name not in f16_only})
    full = vae._decode(z)
    capture.stop()
    capture.outputs_once({f"f16.{name}_first_clip": module for name, module in modules.items()})
    with torch.autocast("cpu", dtype=torch.float16):
        half = vae._decode(z)
    capture.stop()
    capture.put("f32.frames", full)
    capture.put("f16.frames", half)

    difference, pixels = half.float() - full, _Pixels(pipeline)
    levels = (pixels.levels(half) - pixels.levels(full)).abs()
    against_f32 = {"relative_rms": f"{float(difference.norm() / full.norm()):.2e}",
                   "max_abs": f"{float(difference.abs().max()):.2e}", "max_levels": int(levels.max()),
                   "changed_fraction": f"{float((levels > 0).float().mean()):.4f}"}
    capture.save(out, "vae_f16", info, f16_against_f32=json.dumps(against_f32, sort_keys=True),
                 method="torch.autocast(cpu, float16)")
    return {"f16_against_f32": against_f32, "stats": capture.statistics()}


def audio_vae(pipeline: MiniMaxH3ModularPipeline, sizes: ComponentSizes, info: RunInfo, out: Path) -> dict:
    """Encodes a wave of ragged length by stages, decodes latents by stages."""
    vae, capture = pipeline.audio_vae, Capture()
    sound = wave(*sizes.wave)[:, None]
    capture.put("enc.waveform", sound)
    capture.outputs_once({"enc.conv_first": vae.encoder.block[0], "enc.block1": vae.encoder.block[1],
                          "enc.trunk": vae.encoder, "enc.pre_block_attn": vae.pre_block.attn,
                          "enc.pre_block": vae.pre_block})
    posterior = vae.encode(sound, return_dict=False)[0]
    capture.put("enc.mean", posterior.mean)
    capture.put("enc.log_std", posterior.logs)
    capture.stop()

    decoder = vae.decoder
    z = standard_normal_like(sizes.key, "az", (2, AUDIO_LATENT_CHANNELS, sizes.audio_latents))
    capture.put("dec.z", z)
    capture.outputs_once({"dec.in_proj": vae.dec_in_proj, "dec.conv_pre": decoder.conv_pre,
                          "dec.up0": decoder.ups[0][0], "dec.resblock0_act0": decoder.resblocks[0].activations[0],
                          "dec.resblock0": decoder.resblocks[0], "dec.activation_post": decoder.activation_post,
                          "dec.conv_post": decoder.conv_post})
    capture.before(decoder.ups[1][0], lambda args, _kwargs: capture.put_once("dec.stage0_out", args[0]))
    capture.put("dec.waveform", vae.decode(z, return_dict=False)[0])
    capture.stop()
    capture.put("filter.up", decoder.activation_post.upsample.filter)
    capture.put("filter.down", decoder.activation_post.downsample.lowpass.filter)
    capture.save(out, "audio_vae", info)
    return capture.statistics()


def scheduler(sizes: ComponentSizes, info: RunInfo, out: Path) -> None:
    """Grids of many shifts and lengths, and a chain of Euler steps with one velocity."""
    capture = Capture()
    for shift in sizes.shifts:
        for points in sizes.points:
            grid = MiniMaxH3Scheduler(shift=shift)
            grid.set_timesteps(points)
            capture.put(f"sigmas.shift{shift:g}.n{points}", grid.sigmas)
            capture.put(f"timesteps.shift{shift:g}.n{points}", grid.timesteps)
    shift, points = sizes.chain
    chain = MiniMaxH3Scheduler(shift=shift)
    chain.set_timesteps(points)
    sample = standard_normal_like(sizes.key, "sx", (6, 8))
    velocity = standard_normal_like(sizes.key, "sv", (6, 8))
    capture.put("step.sample", sample)
    capture.put("step.velocity", velocity)
    for i, timestep in enumerate(chain.timesteps):
        sample = chain.step(velocity, timestep, sample, return_dict=False)[0]
        capture.put(f"step.out{i}", sample)
    capture.save(out, "scheduler", info, chain_shift_points=sizes.chain)


def text_frontend(pipeline: MiniMaxH3ModularPipeline, sizes: ComponentSizes, info: RunInfo, out: Path) -> None:
    """Qwen's patches of a picture and a clip that have to be resized, and Pillow's own resizing."""
    capture, processor = Capture(), pipeline.processor
    still = picture(*sizes.image)
    capture.put("image_u8", still)
    features = processor.image_processor(images=[Image.fromarray(still)], return_tensors="pt")
    capture.put("image.pixel_values", features["pixel_values"])
    capture.put("image.grid_thw", features["image_grid_thw"])
    clip = moving_pictures(*sizes.clip)
    capture.put("video_u8", clip)
    features = processor.video_processor(videos=[clip], do_sample_frames=False, return_tensors="pt")
    capture.put("video.pixel_values", features["pixel_values_videos"])
    capture.put("video.grid_thw", features["video_grid_thw"])
    height, width, _ = still.shape
    for size in sizes.lanczos:
        resized = Image.fromarray(still).resize(size, Image.Resampling.LANCZOS)
        capture.put(f"pil_lanczos_{width}x{height}_to_{size[0]}x{size[1]}_u8", np.asarray(resized))
    capture.save(out, "text_frontend", info)


def resample(sizes: ComponentSizes, info: RunInfo, out: Path) -> dict | None:
    """torchaudio's default resampler to 32 kHz; None where torchaudio is absent."""
    try:
        import torchaudio
    except ImportError:
        print("  resample: left out, torchaudio is absent")
        return None
    capture = Capture()
    for rate, samples in sizes.resample:
        sound = wave(2, samples, sizes.resample_pattern)
        capture.put(f"from{rate}.in", sound)
        capture.put(f"from{rate}.out", torchaudio.transforms.Resample(rate, SAMPLE_RATE)(sound))
    capture.save(out, "resample", info, torchaudio=torchaudio.__version__)
    return capture.statistics()
