"""Runs a request by the release's own serving rules over diffusers' networks and records every stage.

vllm-omni's code prepares the request, orders and encodes the media, packs the sequence, draws the noise and runs the
loop. The networks themselves (text encoder, transformer, both VAEs) are those of transformers and diffusers, since
vllm-omni's need vllm or code that lies with the released weights.
"""
from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import torch
from diffusers.modular_pipelines import MiniMaxH3ModularPipeline
from diffusers.modular_pipelines.minimax_h3.encoders import encode_vae_condition, get_qwen3vl_prompt_embeds
from PIL import Image

from .capture import Capture, calls_of, watch_steps, watch_text_encoder
from .cases import POSTERIOR_SEED, Case
from .diffusers_cases import output_summary, posterior_noise, resolved_sizes
from .media import Media
from .networks import AUDIO_LATENT_CHANNELS, CONDITIONING_LAYER, FPS, LATENT_CHANNELS, PATCH_SIZE, SAMPLE_RATE
from .release_source import ReleaseCode
from .versions import RunInfo

_CPU = torch.device("cpu")
_CLIP_FRAMES = 17  # decoded at a time


def _per_channel(values: object, trailing_axes: int) -> torch.Tensor:
    return torch.tensor(values).view(1, -1, *[1] * trailing_axes)


class _MemoryVideos:
    """Hands over reference videos from memory where vllm-omni would call ffmpeg.

    They stand at 24 fps on their canvas already, where its ffmpeg step changes nothing.
    """

    def __init__(self, code: ReleaseCode, videos: list[Media]) -> None:
        self._code, self._videos, self._frames = code, videos, 0
        processing = code.encoder_processing
        processing.prepare_reference_videos = self.prepare
        processing.load_video_frames = self.frames
        processing.load_video_audio = self.sound

    def prepare(self, _values: object, *, target_frame_count: int, **_more: object) -> list[dict[str, object]]:
        self._frames = target_frame_count
        return [self._prepared(i, item, target_frame_count) for i, item in enumerate(self._videos)]

    def _prepared(self, index: int, item: Media, limit: int) -> dict[str, object]:
        frames, height, width, _ = item.pixels.shape
        if item.fps != FPS or self._code.reference_video._reference_video_shape(width, height) != (width, height):
            raise ValueError(f"reference video {index} is not at {FPS} fps on its canvas")
        return {"original_path": str(index), "prepared_path": str(index), "input_has_audio": item.sound is not None,
                "width": width, "height": height, "start_time_seconds": 0.0, "duration_seconds": frames / FPS,
                "audio_duration_seconds": min(frames, limit) / FPS}

    def frames(self, path: str) -> np.ndarray:
        return self._videos[int(path)].pixels[: self._frames]

    def sound(self, path: str, *, start_time_seconds: float, duration_seconds: float) -> tuple[torch.Tensor, int]:
        item = self._videos[int(path)]
        return item.samples()[:, : int(round(duration_seconds * item.sample_rate))], item.sample_rate


class _Codecs:
    """The encoders that `encode_media` asks for; keeps what they gave."""

    def __init__(self, code: ReleaseCode, pipeline: MiniMaxH3ModularPipeline) -> None:
        self._code, self._pipeline = code, pipeline
        self.latents: list[torch.Tensor] = []
        self.audio_rows: list[torch.Tensor] = []

    def _encode(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.from_numpy(frames.copy()).permute(3, 0, 1, 2)[None]
        latents = encode_vae_condition(self._pipeline.vae, pixels, self._pipeline.pixel_mean,
                                       self._pipeline.pixel_std, POSTERIOR_SEED)
        self.latents.append(latents)
        return patch_rows(self._code, latents).float(), latents

    def encode_image(self, image: Image.Image) -> torch.Tensor:
        return self._encode(np.asarray(image)[None])[0]

    def encode_video(self, frames: np.ndarray) -> tuple[torch.Tensor, tuple[int, ...]]:
        whole = max(1, (len(frames) - 5) // _CLIP_FRAMES) * _CLIP_FRAMES + 5
        rows, latents = self._encode(frames[:whole])
        return rows, tuple(latents.shape[2:])

    def encode_waveform(self, waveform: torch.Tensor, sample_rate: int) -> tuple[torch.Tensor, int]:
        if sample_rate != SAMPLE_RATE:
            raise ValueError(f"sound at {sample_rate} Hz would be resampled, which the goldens leave out")
        stereo = waveform.float().expand(2, -1)
        vae = self._pipeline.audio_vae
        mean = vae.encode(stereo[:, None], return_dict=False)[0].mean.transpose(1, 2)
        normalized = (mean - torch.tensor(vae.config.latents_mean)) / torch.tensor(vae.config.latents_std)
        rows = normalized.reshape(-1, AUDIO_LATENT_CHANNELS)
        self.audio_rows.append(rows)
        return rows, mean.shape[1]


def patch_rows(code: ReleaseCode, latents: torch.Tensor) -> torch.Tensor:
    return code.packed_tokens.minimax_h3_patchify_video_latent(latents, patch_size=PATCH_SIZE)


def _model(transformer: torch.nn.Module):
    """The loop's model call; the rows that pad to a multiple of 64 attend to nothing real and are cut."""

    def call(**given: object) -> tuple[torch.Tensor, torch.Tensor]:
        used = int(given["packed_seq_params"]["cu_seqlens_q"][1])
        video, audio, text = (given[name]["position_ids"]
                              for name in ("img_pos_info", "audio_pos_info", "text_pos_info"))
        velocity, audio_velocity = transformer(
            hidden_states=given["x"][:, video], audio_hidden_states=given["audio_x"][:, audio],
            encoder_hidden_states=given["prompt_embeds"][None], timestep=given["unique_timesteps"],
            timestep_indices=given["inverse_indices"][:used], token_tags=given["token_tags"][:used],
            position_ids=given["img_position_ids"][0, :used], video_indices=video, audio_indices=audio,
            text_indices=text, return_dict=False)
        return velocity[0], audio_velocity[0]

    return call


def run(pipeline: MiniMaxH3ModularPipeline, code: ReleaseCode, case: Case, info: RunInfo,
        out: Path) -> tuple[dict, dict]:
    """Writes the case's file; returns the resolved sizes and the entry for stats.json."""
    return _Run(pipeline, code, case, info, out).result()


class _Run:
    def __init__(self, pipeline: MiniMaxH3ModularPipeline, code: ReleaseCode, case: Case, info: RunInfo,
                 out: Path) -> None:
        self.pipeline, self.code, self.case, self.info, self.out = pipeline, code, case, info, out
        self.capture = Capture()
        self.codecs = _Codecs(code, pipeline)
        self.videos = [item for item in case.media if item.kind == "video"]

    def result(self) -> tuple[dict, dict]:
        capture, case = self.capture, self.case
        watch_text_encoder(capture, self.pipeline.text_encoder)
        watch_steps(capture, getattr(self.pipeline, case.transformer))
        prepared = self._prepare()
        embeds, tags = self._encode_text(prepared)
        with calls_of(self.pipeline.vae, "encode") as encodes:
            media = self.code.encoder_processing.encode_media(
                prepared.media, video_vae=self.codecs, audio_vae=self.codecs, emit_conditioning=True)
        inputs = self._denoise_inputs(media, embeds, tags)
        self._put_layout(media, inputs, embeds, tags)
        self._put_conditions(media, inputs, [result[0] for _, result in encodes])
        self._put_media(prepared)
        rows = self._denoise(inputs)
        capture.stop()
        summary = self._decode(media, inputs["branch"], rows)

        resolved = {**resolved_sizes(capture), "padded_rows": inputs["branch"].seq_len}
        capture.drop(lambda name: "pixel_values" in name or name.startswith("te.hidden_after"))
        for name, tensor in case.media_tensors().items():
            capture.put(name, tensor)
        capture.save(self.out, case.name, self.info, request_seed=self.info.request_seed, recipe=case.recipe)
        return resolved, {**summary, "stats": capture.statistics()}

    def _prepare(self) -> object:
        """The request as vllm-omni's encoder stage understands it."""
        case, asked = self.case, self.case.asked
        _MemoryVideos(self.code, self.videos)
        extra = {"task": case.task, **{k: asked[k] for k in ("aspect_ratio", "duration_seconds") if k in asked}}
        sampling = types.SimpleNamespace(fps=None, num_frames=asked.get("num_frames"), height=asked.get("height"),
                                         width=asked.get("width"), extra_args=extra)
        media = {
            "image": [Image.fromarray(item.pixels) for item in case.media if item.kind == "image"] or None,
            "video": [str(i) for i in range(len(self.videos))] or None,
            "audio": [(item.samples(), item.sample_rate) for item in case.media if item.kind == "audio"] or None,
        }
        request = {"prompt": case.prompt, "multi_modal_data": media}
        return self.code.encoder_processing.prepare_encoder_inputs(request, sampling, task=case.task)

    def _encode_text(self, prepared: object) -> tuple[torch.Tensor, torch.Tensor]:
        """The prompt's embeddings and the modality tags of their rows."""
        pipeline, vision = self.pipeline, {}
        if prepared.images:
            features = pipeline.processor.image_processor(images=prepared.images, return_tensors="pt")
            vision |= {name: features[name] for name in ("pixel_values", "image_grid_thw")}
        if prepared.qwen_videos:
            features = pipeline.processor.video_processor(
                videos=[frames for frames, _ in prepared.qwen_videos], do_sample_frames=False, return_tensors="pt")
            vision |= {name: features[name] for name in ("pixel_values_videos", "video_grid_thw")}
        ids, tags = self.code.preprocessing.build_minimax_h3_presentation(
            pipeline.tokenizer, prompt=prepared.prompt, task=self.case.task,
            condition_labels=prepared.condition_labels, image_grid_thw=vision.get("image_grid_thw"),
            video_grid_thw=vision.get("video_grid_thw"), video_timestamps=prepared.video_timestamps, merge_size=2)
        embeds = get_qwen3vl_prompt_embeds(pipeline.text_encoder, pipeline.processor, ids.tolist(), vision,
                                           CONDITIONING_LAYER, _CPU, pipeline.text_encoder.dtype)
        return embeds, tags

    def _denoise_inputs(self, media: object, embeds: torch.Tensor, tags: torch.Tensor) -> dict[str, object]:
        """Layout, initial rows, pinned condition rows and sigmas; vllm-omni counts forwards as steps."""
        case = self.case
        return self.code.pipeline._build_denoise_inputs(
            task=case.task, text_embeddings=embeds[0], text_tags=tags, seed=self.info.request_seed,
            latent_t=media.latent_t, latent_h=media.height // 16, latent_w=media.width // 16, audio_t=media.audio_t,
            num_frames=media.num_frames, num_steps=case.sigma_points - 1, video_shift=case.shifts["video"],
            audio_shift=case.shifts["audio"], base_schedule=None, visual_condition=media.visual_condition,
            visual_condition_shape=None, audio_condition=media.audio_condition, ref_audio_t=None,
            ref_blocks=list(media.ref_blocks) or None,
            visual_condition_shapes=list(media.visual_condition_shapes) or None,
            audio_condition_lengths=list(media.audio_condition_lengths) or None,
            keyframe_frame_indices=list(media.keyframe_frame_indices) or None)

    def _put_layout(self, media: object, inputs: dict, embeds: torch.Tensor, tags: torch.Tensor) -> None:
        branch = inputs["branch"]
        used = branch.used_len
        for name, value in {
            "prompt_embeds": embeds,
            "text_token_tags": tags,
            "position_ids": branch.img_position_ids_dev[:used],
            "token_tags": branch.token_tags_dev[:used],
            "video_indices": branch.img_pos,
            "audio_indices": branch.audio_pos,
            "text_indices": branch.text_pos_dev,
            "padded_rows": branch.seq_len,
            "num_condition_video_rows": int((~branch.update_mask_dev).sum()),
            "num_condition_audio_rows": int((~branch.audio_update_mask_dev).sum()),
            "num_latent_frames": media.latent_t,
            "latent_height": media.height // 16,
            "latent_width": media.width // 16,
            "num_audio_latents": media.audio_t,
            "height": media.height,
            "width": media.width,
            "num_frames": media.num_frames,
            "condition_rows": inputs["cond_anchor"],
            "audio_condition_rows": inputs["audio_anchor"],
        }.items():
            self.capture.put(name, value)
        for prefix, modality in (("", "video"), ("audio_", "audio")):
            sigmas = torch.tensor(inputs[f"sigmas_{modality}"], dtype=torch.float32)
            self.capture.put(f"{prefix}sigmas", sigmas)
            self.capture.put(f"{prefix}timesteps", 1.0 - sigmas[:-1])

    def _put_conditions(self, media: object, inputs: dict, posteriors: list) -> None:
        """The visual conditions with the noise that vllm-omni drew, drawn again and checked against its rows."""
        capture, count = self.capture, len(self.codecs.latents)
        clean_weight = torch.tensor(0.999)
        noised = []
        for i, (latents, posterior) in enumerate(zip(self.codecs.latents, posteriors, strict=True)):
            _, _, frames, height, width = latents.shape
            drawn = torch.randn(1, LATENT_CHANNELS, max(media.latent_t + count, frames), height, width,
                                generator=torch.Generator().manual_seed(self.info.request_seed))
            noise = drawn[:, :, :frames]
            capture.put(f"condition_{i}_latent_normalized", latents)
            capture.put(f"condition_{i}_noise", noise)
            capture.put(f"condition_{i}_posterior_noise", posterior_noise(latents))
            capture.put(f"vae_encode_{i}_mean", posterior.mean)
            capture.put(f"vae_encode_{i}_logvar", posterior.logvar)
            noised.append(clean_weight * patch_rows(self.code, latents)
                          + (1 - clean_weight) * patch_rows(self.code, noise))
        if noised and not torch.equal(torch.cat(noised), inputs["cond_anchor"]):
            raise RuntimeError(f"{self.case.name}: the recorded condition noise is not what the loop was given")
        for i, rows in enumerate(self.codecs.audio_rows):
            capture.put(f"audio_condition_{i}_rows", rows)

    def _put_media(self, prepared: object) -> None:
        images = prepared.images
        for i, image in enumerate(images):
            name = f"keyframe_{i}_u8" if self.case.task == "fl2va" else f"ref_{i}_image_u8"
            self.capture.put(name, np.asarray(image))
        for i, frames in enumerate(prepared.media.videos):
            # a prefix of the raw frames, so their number says all
            if not np.array_equal(frames.numpy(), self.videos[i].pixels[: len(frames)]):
                raise RuntimeError(f"{self.case.name}: the frames of reference video {i} were changed")
            self.capture.put(f"ref_{len(images) + i}_video_frames", len(frames))

    def _denoise(self, inputs: dict) -> tuple[torch.Tensor, torch.Tensor]:
        branch = inputs["branch"]

        def keep_targets(step: int, video: torch.Tensor, audio: torch.Tensor) -> None:
            self.capture.put(f"step{step}.video_rows_out", video[branch.update_mask_dev])
            self.capture.put(f"step{step}.audio_rows_out", audio[branch.audio_update_mask_dev])

        return self.code.denoise_loop.minimax_h3_denoise_loop(
            model=_model(getattr(self.pipeline, self.case.transformer)), positive=branch,
            initial_video_rows=inputs["video_rows"], initial_audio_rows=inputs["audio_rows"],
            keyframe_cond_rows=inputs["cond_anchor"], audio_ref_rows=inputs["audio_anchor"],
            sigmas_video=inputs["sigmas_video"], sigmas_audio=inputs["sigmas_audio"], device=_CPU,
            on_step=keep_targets)

    def _decode(self, media: object, branch: object, rows: tuple[torch.Tensor, torch.Tensor]) -> dict[str, object]:
        """Frames and sound; decodes a second time as the release does, in F16, to tell by how much that differs."""
        capture, pipeline, kept = self.capture, self.pipeline, self.case.kept_samples
        latents, audio_latents = self.code.pipeline._unpack_denoised_rows(
            branch, *rows, latent_t=media.latent_t, latent_h=media.height // 16, latent_w=media.width // 16,
            audio_t=media.audio_t)
        capture.put("final_video_latent_normalized", latents)
        capture.put("final_audio_latent_normalized", audio_latents)
        config, audio_config = pipeline.vae.config, pipeline.audio_vae.config
        z = latents * _per_channel(config.latents_std, 3) + _per_channel(config.latents_mean, 3)
        audio_z = (audio_latents * _per_channel(audio_config.latents_std, 1)
                   + _per_channel(audio_config.latents_mean, 1))
        capture.put("vae_decode_in", z)
        capture.put("audio_vae_decode_in", audio_z)

        frames = self._decode_frames(z)
        with torch.autocast("cpu", dtype=torch.float16):
            half = self._decode_frames(z)
        levels = (half.int() - frames.int()).abs()
        audio = pipeline.audio_vae.decode(audio_z, return_dict=False)[0].permute(1, 0, 2)[0]
        # the seams between clips: first frame, last blended one and last of each
        picked = [i for i in range(len(frames)) if i % _CLIP_FRAMES in (0, 5, 16) or i == len(frames) - 1]
        capture.put("picked_frames", picked)
        capture.put("frames_u8_picked", frames[picked])
        capture.put(f"audio_first_{kept}", audio[:, :kept])
        unit = frames.float() / 255
        saturated = float(((frames == 0) | (frames == 255)).float().mean())
        return {**output_summary(list(frames.shape), float(unit.mean()), float(unit.std()), saturated, audio),
                "f16_decode_max_levels": int(levels.max()),
                "f16_decode_changed_fraction": round(float((levels > 0).float().mean()), 4)}

    def _decode_frames(self, z: torch.Tensor) -> torch.Tensor:
        """[T,H,W,3] U8 by vllm-omni's own quantiser."""
        pipeline = self.pipeline
        pixels = pipeline.vae.decode(z, return_dict=False)[0].float()
        rgb = pixels * _per_channel(pipeline.pixel_std, 3) + _per_channel(pipeline.pixel_mean, 3)
        return self.code.to_uint8(rgb)[0]
