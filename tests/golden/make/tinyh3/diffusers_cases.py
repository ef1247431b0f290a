"""Runs a request through diffusers' modular pipeline and records every stage."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from diffusers.modular_pipelines import MiniMaxH3Blocks, MiniMaxH3ModularPipeline
from diffusers.modular_pipelines.minimax_h3 import (
    MiniMaxH3AudioReference,
    MiniMaxH3ImageReference,
    MiniMaxH3VideoReference,
)
from PIL import Image

from .capture import (
    Capture,
    calls_of,
    scheduler_steps,
    watch_steps,
    watch_text_encoder,
    watch_transformer_internals,
)
from .cases import INTERNALS, LEAN, POSTERIOR_SEED, Case
from .media import Media
from .networks import FPS, SAMPLES_PER_AUDIO_LATENT
from .variants import MIN_SECONDS, Geometry
from .versions import RunInfo

_LARGEST_KEPT_PIXELS = 15_000  # elements of a VAE input; larger ones follow from the U8 media


def load_pipeline(folder: Path, dtype: str, geometry: Geometry) -> MiniMaxH3ModularPipeline:
    pipeline = MiniMaxH3Blocks().init_pipeline(str(folder))
    pipeline.load_components(dtype=getattr(torch, dtype))
    pipeline.update_components(canvas_short_edge=geometry.short_edge, canvas_max_pixels=geometry.max_pixels,
                               reference_image_short_edge=geometry.reference_short_edge)
    return pipeline


@contextlib.contextmanager
def duration_floor(case: Case) -> Iterator[None]:
    """Lifts the pipeline's five seconds for a short case; its other rules stay."""
    original = MiniMaxH3ModularPipeline.min_duration
    if not case.keeps_duration_floor:
        MiniMaxH3ModularPipeline.min_duration = property(lambda _pipeline: MIN_SECONDS)
    try:
        yield
    finally:
        MiniMaxH3ModularPipeline.min_duration = original


def _reference(item: Media) -> object:
    if item.kind == "image":
        return MiniMaxH3ImageReference(image=Image.fromarray(item.pixels))
    if item.kind == "video":
        return MiniMaxH3VideoReference(frames=item.pixels, fps=item.fps, audio=item.samples(),
                                       sample_rate=item.sample_rate)
    return MiniMaxH3AudioReference(audio=item.samples(), sample_rate=item.sample_rate)


def _pipeline_arguments(case: Case) -> dict[str, object]:
    out: dict[str, object] = {"prompt": case.prompt, "num_inference_steps": case.sigma_points, **case.asked}
    for item in case.media:
        if item.role == "reference":
            out.setdefault("references", []).append(_reference(item))
        else:
            out["image" if item.role == "first" else "last_image"] = Image.fromarray(item.pixels)
    return out


def run(pipeline: MiniMaxH3ModularPipeline, case: Case, info: RunInfo, out: Path) -> tuple[dict, dict]:
    """Writes the case's file; returns the resolved sizes and the entry for stats.json."""
    capture = Capture()
    transformer = getattr(pipeline, case.transformer)
    watch_text_encoder(capture, pipeline.text_encoder)
    watch_steps(capture, transformer)
    if case.detail == INTERNALS:
        watch_transformer_internals(capture, transformer)
    with (
        duration_floor(case),
        scheduler_steps(capture, pipeline.scheduler, "video"),
        scheduler_steps(capture, pipeline.audio_scheduler, "audio"),
        calls_of(pipeline.vae, "encode") as encodes,
        calls_of(pipeline.vae, "decode") as decodes,
        calls_of(pipeline.audio_vae, "decode") as audio_decodes,
    ):
        state = pipeline(generator=torch.Generator().manual_seed(info.request_seed), output_type="np",
                         **_pipeline_arguments(case))
    capture.stop()

    _put_layout(capture, pipeline, state)
    _put_media(capture, state)
    _put_conditions(capture, state, info.request_seed)
    for i, (pixels, result) in enumerate(encodes):
        if pixels.numel() < _LARGEST_KEPT_PIXELS:
            capture.put(f"vae_encode_{i}_pixels", pixels)
        capture.put(f"vae_encode_{i}_mean", result[0].mean)
        capture.put(f"vae_encode_{i}_logvar", result[0].logvar)
    (latents, decoded), (audio_latents, _) = decodes[0], audio_decodes[0]
    capture.put("final_video_latent_normalized", state.get("latents"))
    capture.put("final_audio_latent_normalized", state.get("audio_latents"))
    capture.put("vae_decode_in", latents)
    capture.put("vae_decode_out_first_last", decoded[0][:, :, [0, -1]])
    capture.put("audio_vae_decode_in", audio_latents)
    audio = state.get("audio")[0]
    capture.put(f"audio_first_{case.kept_samples}", audio[:, : case.kept_samples])

    resolved = resolved_sizes(capture)
    _drop_derivable(capture, case)
    frames = np.asarray(state.get("videos")[0], dtype=np.float32)  # [T,H,W,3] in [0,1]
    capture.put("frames_u8", np.rint(frames * 255.0).astype(np.uint8))
    for name, tensor in case.media_tensors().items():
        capture.put(name, tensor)
    capture.save(out, case.name, info, request_seed=info.request_seed, recipe=case.recipe)
    saturated = float(np.mean((frames <= 0) | (frames >= 1)))
    summary = output_summary(list(frames.shape), float(np.mean(frames)), float(np.std(frames)), saturated, audio)
    return resolved, {**summary, "stats": capture.statistics()}


def _put_layout(capture: Capture, pipeline: MiniMaxH3ModularPipeline, state: object) -> None:
    for name in ("prompt_embeds", "text_token_tags", "position_ids", "token_tags", "video_indices", "audio_indices",
                 "text_indices", "timesteps", "audio_timesteps"):
        capture.put(name, state.get(name))
    capture.put("sigmas", pipeline.scheduler.sigmas)
    capture.put("audio_sigmas", pipeline.audio_scheduler.sigmas)
    for name in ("num_condition_video_rows", "num_condition_audio_rows", "num_latent_frames", "latent_height",
                 "latent_width", "num_audio_latents", "height", "width", "num_frames"):
        capture.put(name, state.get(name))


def _put_media(capture: Capture, state: object) -> None:
    """Keyframes and references after fitting to the canvas, the frame rate and 32 kHz."""
    for i, frame in enumerate(state.get("keyframes") or []):
        capture.put(f"keyframe_{i}_u8", np.asarray(frame))
    for i, reference in enumerate(state.get("normalized_references") or []):
        if reference.kind == "image":
            capture.put(f"ref_{i}_image_u8", np.asarray(reference.image))
        elif reference.kind == "video":
            capture.put(f"ref_{i}_video_u8", reference.frames)
        if reference.has_audio:
            left, right = reference.audio
            if torch.equal(left, right):  # mono was doubled
                capture.put(f"ref_{i}_audio_both_channels", left)
            else:
                capture.put(f"ref_{i}_audio", reference.audio)


def _put_conditions(capture: Capture, state: object, seed: int) -> None:
    """The conditions and both their noises, drawn again as the pipeline drew them."""
    generator = torch.Generator().manual_seed(seed)
    for i, latents in enumerate(state.get("condition_latents") or []):
        capture.put(f"condition_{i}_latent_normalized", latents)
        capture.put(f"condition_{i}_noise", torch.randn(latents.shape, generator=generator))
        capture.put(f"condition_{i}_posterior_noise", posterior_noise(latents))
    capture.put("condition_rows", state.get("condition_rows"))
    for i, rows in enumerate(state.get("audio_condition_latents") or []):
        capture.put(f"audio_condition_{i}_rows", rows)


def posterior_noise(latents: torch.Tensor) -> torch.Tensor:
    return torch.randn(latents.shape, generator=torch.Generator().manual_seed(POSTERIOR_SEED))


def _drop_derivable(capture: Capture, case: Case) -> None:
    """Keeps the files small."""
    if "ref_0_video_u8" in capture.tensors:  # a long sequence: the block's ends are enough
        long = ("dit.block0_ff_out", "dit.last_block_out", "dit.audio_embeds", "te.pixel_values")
        capture.drop(lambda name: name in long)
    if case.detail == LEAN:
        capture.drop(lambda name: "pixel_values" in name or name.endswith("_pixels")
                     or name.startswith("vae_decode_out"))


def resolved_sizes(capture: Capture) -> dict[str, object]:
    """What the request came to, as requests.json tells it."""

    def number(name: str) -> int:
        return int(capture.tensors[name])

    def count(name: str) -> int:
        return capture.tensors[name].numel()

    return {"height": number("height"), "width": number("width"), "num_frames": number("num_frames"),
            "duration_seconds": number("num_frames") / FPS, "video_latent_frames": number("num_latent_frames"),
            "latent_height": number("latent_height"), "latent_width": number("latent_width"),
            "audio_latents_per_channel": number("num_audio_latents"),
            "audio_samples": SAMPLES_PER_AUDIO_LATENT * number("num_audio_latents"),
            "text_rows": count("text_indices"), "rows": count("token_tags"),
            "condition_video_rows": number("num_condition_video_rows"),
            "condition_audio_rows": number("num_condition_audio_rows")}


def output_summary(shape: list[int], mean: float, std: float, saturated: float, audio: torch.Tensor) -> dict:
    """How lively the output is: nearly constant or mostly clipped ones would compare well whatever computed them."""
    return {"frames": shape, "audio": list(audio.shape), "frame_mean_std": [round(mean, 4), round(std, 4)],
            "frame_saturated_fraction": round(saturated, 4), "audio_std": round(float(audio.std()), 4),
            "audio_clipped_fraction": round(float((audio.abs() >= 1).float().mean()), 4)}
