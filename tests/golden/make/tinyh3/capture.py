"""Records tensors while the reference implementations run: forward hooks on their modules, spies on their methods."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from . import writer
from .versions import RunInfo

# Layers whose output is kept. transformers takes them before the deepstack features are added to the first three.
_TEXT_LAYERS = (0, 1, 2, 10, 49)


class Capture:
    """The tensors of one golden file, by name, in the order in which they were made."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def put(self, name: str, value: object) -> None:
        """Copies a tensor, array, list or number; None is left out."""
        if value is None:
            return
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(np.ascontiguousarray(value))
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        self.tensors[name] = tensor.detach().clone().contiguous()

    def put_once(self, name: str, value: object) -> None:
        """Keeps the first value: of a module that runs every step, every layer or every clip."""
        if name not in self.tensors:
            self.put(name, value)

    def drop(self, unwanted: Callable[[str], bool]) -> None:
        self.tensors = {name: tensor for name, tensor in self.tensors.items() if not unwanted(name)}

    def before(self, module: nn.Module, act: Callable[[tuple, dict], None]) -> None:
        def hook(_module: nn.Module, args: tuple, kwargs: dict) -> None:
            act(args, kwargs)  # returns nothing: a hook's value would replace the module's input

        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def after(self, module: nn.Module, act: Callable[[object], None]) -> None:
        def hook(_module: nn.Module, _args: tuple, _kwargs: dict, output: object) -> None:
            act(output)

        self._handles.append(module.register_forward_hook(hook, with_kwargs=True))

    def outputs_once(self, modules: dict[str, nn.Module]) -> None:
        """Keeps the first output of each module under its name."""
        for name, module in modules.items():
            self.after(module, lambda output, name=name: self.put_once(name, output))

    def rope_once(self, prefix: str, module: nn.Module) -> None:
        def act(output: tuple[torch.Tensor, torch.Tensor]) -> None:
            self.put_once(f"{prefix}.rope_cos", output[0])
            self.put_once(f"{prefix}.rope_sin", output[1])

        self.after(module, act)

    def stop(self) -> None:
        """Takes all hooks off again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def save(self, folder: Path, case: str, run: RunInfo, **more: object) -> None:
        metadata = {"case": case, **run.header(), **{key: str(value) for key, value in more.items()}}
        writer.safetensors(folder / f"{case}.safetensors", self.tensors, metadata)

    def statistics(self) -> dict[str, list]:
        """Shape and dtype of every tensor; of floats also mean, std and the largest magnitude."""
        out = {}
        for name, tensor in self.tensors.items():
            entry: list[object] = [list(tensor.shape), str(tensor.dtype).removeprefix("torch.")]
            if tensor.numel() and tensor.is_floating_point():
                values = tensor.double()
                std = float(values.std()) if values.numel() > 1 else 0.0
                entry += [round(number, 4) for number in (float(values.mean()), std, float(values.abs().max()))]
            out[name] = entry
        return out


@contextlib.contextmanager
def calls_of(owner: object, method: str) -> Iterator[list[tuple[torch.Tensor, object]]]:
    """Collects (first argument, result) of each call of `owner.method`."""
    original = getattr(owner, method)
    calls: list[tuple[torch.Tensor, object]] = []

    def spy(first: torch.Tensor, *args: object, **kwargs: object) -> object:
        copy = first.detach().clone()  # the callee may reuse the memory
        result = original(first, *args, **kwargs)
        calls.append((copy, result))
        return result

    setattr(owner, method, spy)
    try:
        yield calls
    finally:
        setattr(owner, method, original)


@contextlib.contextmanager
def scheduler_steps(capture: Capture, scheduler: object, modality: str) -> Iterator[None]:
    """Keeps the rows after each Euler step as step{i}.{modality}_rows_out."""
    original = scheduler.step
    done = 0

    def spy(*args: object, **kwargs: object) -> tuple:
        nonlocal done
        result = original(*args, **kwargs)
        capture.put(f"step{done}.{modality}_rows_out", result[0])
        done += 1
        return result

    scheduler.step = spy
    try:
        yield
    finally:
        scheduler.step = original


def _first(args: tuple, kwargs: dict, name: str) -> object:
    return args[0] if args else kwargs[name]


def watch_text_encoder(capture: Capture, encoder: nn.Module) -> None:
    model = encoder.model
    language, vision = model.language_model, model.visual

    def encoder_in(_args: tuple, kwargs: dict) -> None:
        for name in ("input_ids", "mm_token_type_ids", "pixel_values", "image_grid_thw", "pixel_values_videos",
                     "video_grid_thw"):
            capture.put(f"te.{name}", kwargs.get(name))

    def language_in(_args: tuple, kwargs: dict) -> None:
        capture.put("te.inputs_embeds", kwargs["inputs_embeds"])
        capture.put("te.position_ids_thw", kwargs.get("position_ids"))

    def vision_out(output: object) -> None:
        # images are one call of the tower, videos the next
        tower = "te.visual_2" if "te.visual.pooled" in capture.tensors else "te.visual"
        capture.put(f"{tower}.pooled", output.pooler_output)
        for j, features in enumerate(output.deepstack_features):
            capture.put(f"{tower}.deepstack_{j}", features)

    capture.before(model, encoder_in)
    capture.before(language, language_in)
    capture.after(vision, vision_out)
    capture.before(vision.blocks[0], lambda args, kwargs: capture.put_once(
        "te.visual.block0_in", _first(args, kwargs, "hidden_states")))
    capture.outputs_once({"te.visual.patch_embed": vision.patch_embed, "te.visual.block0_out": vision.blocks[0]})
    for i in _TEXT_LAYERS:
        capture.after(language.layers[i], lambda output, i=i: capture.put(
            f"te.hidden_after_layer_{i}", output[0] if isinstance(output, tuple) else output))


def watch_steps(capture: Capture, transformer: nn.Module) -> None:
    """Times and velocities of every step, and the rows that enter the first.

    Later inputs are the previous step's rows_out behind the condition rows, which never change.
    """
    step = -1

    def enter(_args: tuple, kwargs: dict) -> None:
        nonlocal step
        step += 1
        if step == 0:
            capture.put("step0.video_rows_in", kwargs["hidden_states"][0])
            capture.put("step0.audio_rows_in", kwargs["audio_hidden_states"][0])
        capture.put(f"step{step}.unique_timesteps", kwargs["timestep"])
        capture.put(f"step{step}.timestep_indices", kwargs["timestep_indices"])

    def leave(output: tuple[torch.Tensor, torch.Tensor]) -> None:
        capture.put(f"step{step}.video_velocity", output[0][0])
        capture.put(f"step{step}.audio_velocity", output[1][0])

    capture.before(transformer, enter)
    capture.after(transformer, leave)


def watch_transformer_internals(capture: Capture, transformer: nn.Module) -> None:
    """The parts of the first step up to the first block, and the ends of the last block."""
    first_block, refiner = transformer.transformer_blocks[0], transformer.token_refiner

    def block_in(args: tuple, kwargs: dict) -> None:
        capture.put_once("dit.block0_in", _first(args, kwargs, "hidden_states"))
        capture.put_once("dit.adaln_indices", args[2] if len(args) > 2 else kwargs["adaln_indices"])

    capture.rope_once("dit", transformer.rope)
    capture.before(first_block, block_in)
    capture.after(first_block.adaln_proj, lambda chunks: capture.put_once(
        "dit.block0_adaln_shift_scale_gate_x2", torch.stack(chunks)))
    capture.outputs_once({
        "dit.context_embedder_out": transformer.context_embedder,
        "dit.refiner_block0_out": refiner.refiner_blocks[0],
        "dit.token_refiner_out": refiner,
        "dit.video_embeds": transformer.proj_in,
        "dit.audio_embeds": transformer.audio_proj_in,
        "dit.time_sinusoid": transformer.time_proj,
        "dit.temb": transformer.time_embedder,
        "dit.block0_attn_out": first_block.attn,
        "dit.block0_ff_out": first_block.ff,
        "dit.block0_out": first_block,
        "dit.last_block_out": transformer.transformer_blocks[-1],
        "dit.norm_out": transformer.norm_out,
    })
