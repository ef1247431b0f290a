"""Loads the parts of vllm-omni that hold the release's request, layout, noise and loop rules, without vllm.

Its own source is executed, in two ways. Modules that need only torch are imported, with every package around them
taken as a bare namespace, for the packages' __init__ files import vllm. Functions of the one module that needs vllm
are compiled by themselves. What the tiny geometry forbids is lifted here, and nothing else is changed.
"""
from __future__ import annotations

import __future__
import ast
import importlib
import inspect
import sys
import types
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import torch

from .variants import MIN_SECONDS, Geometry

_DIFFUSION = "vllm_omni.diffusion.models.minimax_h3"
_ENCODER = "vllm_omni.model_executor.models.minimax_h3"
_METHODS = ("_initial_noise", "_build_denoise_inputs", "_unpack_denoised_rows")
_QUANTISER = "_prepare_minimax_h3_video_output"


class _BarePackages(MetaPathFinder):
    """Finds each folder of vllm_omni as a namespace package, so that no __init__ runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        top, *rest = fullname.split(".")
        package = self._folder.joinpath(*rest)
        if top != "vllm_omni" or not package.is_dir():
            return None
        spec = ModuleSpec(fullname, loader=None, is_package=True)
        spec.submodule_search_locations = [str(package)]
        return spec


def _ignore(*_args: object, **_kwargs: object) -> None:
    pass


def _stand_in(name: str, **attributes: object) -> None:
    """Puts a module with these attributes in the place of one that needs vllm."""
    module = ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module


def _compile_into(namespace: dict[str, object], tree: ast.AST, file: str) -> None:
    """Runs the definitions; their annotations stay text, as in their own file."""
    exec(compile(tree, file, "exec", flags=__future__.annotations.compiler_flag), namespace)


def _relax(module: ModuleType, function: str, rule: str, relaxed: str) -> None:
    """Compiles one function of a module anew with one comparison changed: its limit is written into the code."""
    source = inspect.getsource(getattr(module, function))
    if source.count(rule) != 1:
        raise RuntimeError(f"{module.__name__}.{function} does not hold {rule!r} exactly once")
    _compile_into(vars(module), ast.parse(source.replace(rule, relaxed)), module.__file__)


@dataclass(frozen=True)
class ReleaseCode:
    """What the release cases call."""

    packed_tokens: ModuleType
    preprocessing: ModuleType
    reference_video: ModuleType
    encoder_processing: ModuleType
    denoise_loop: ModuleType
    pipeline: object  # the lifted methods
    to_uint8: object  # the lifted quantiser

    @classmethod
    def load(cls, folder: Path, geometry: Geometry) -> ReleaseCode:
        sys.meta_path.insert(0, _BarePackages(folder))
        platform = types.SimpleNamespace(is_npu=lambda: False, is_cuda=lambda: False)
        _stand_in("vllm_omni.platforms", current_omni_platform=platform)
        _stand_in("vllm_omni.diffusion.forward_context",
                  set_forward_context_denoise_step_idx=_ignore, set_forward_context_denoise_timestep=_ignore,
                  set_forward_context_denoise_total_steps=_ignore)
        diffusion = {name: importlib.import_module(f"{_DIFFUSION}.{name}") for name in (
            "packed_tokens", "packed_sequence", "condition_noise", "time_request", "latent_mask", "denoise_loop")}
        encoder = {name: importlib.import_module(f"{_ENCODER}.{name}") for name in (
            "preprocessing", "reference_video", "encoder_processing")}
        errors = importlib.import_module("vllm_omni.errors")
        lifted = _lift(folder / "diffusion/models/minimax_h3/pipeline_minimax_h3.py", [*diffusion.values(), errors])
        pipeline = type("LiftedPipeline", (), {name: lifted[name] for name in _METHODS})()
        pipeline.device = torch.device("cpu")
        code = cls(packed_tokens=diffusion["packed_tokens"], denoise_loop=diffusion["denoise_loop"],
                   pipeline=pipeline, to_uint8=lifted[_QUANTISER], **encoder)
        code._shrink(geometry)
        return code

    def _shrink(self, geometry: Geometry) -> None:
        """Sets the tiny geometry and lifts the floors: sides of 256 px, outputs of 4 s, reference sounds of 2 s."""
        preprocessing, reference, processing = self.preprocessing, self.reference_video, self.encoder_processing
        preprocessing.MINIMAX_H3_OUTPUT_SHORT_EDGE = geometry.short_edge
        processing.MINIMAX_H3_OUTPUT_SHORT_EDGE = geometry.short_edge  # imported by name
        preprocessing.MINIMAX_H3_OUTPUT_MAX_PIXELS = geometry.max_pixels
        preprocessing.MINIMAX_H3_REFERENCE_IMAGE_SHORT_EDGE = geometry.reference_short_edge
        reference.MINIMAX_H3_BASE_SHORT_EDGE = geometry.short_edge
        reference.MINIMAX_H3_MAX_PIXELS = geometry.max_pixels
        reference.MINIMAX_H3_MIN_REFERENCE_DIMENSION = 1
        processing.MINIMAX_H3_MIN_OUTPUT_SECONDS = MIN_SECONDS
        processing.validate_reference_audio_waveforms = _ignore
        _relax(processing, "encode_media", "length < 80 ", "length < 1 ")
        image_shape = "resolve_minimax_h3_reference_image_shape"
        _relax(preprocessing, image_shape, "min(width, height) < 256 ", "min(width, height) < 1 ")
        setattr(processing, image_shape, getattr(preprocessing, image_shape))


def _lift(file: Path, modules: list[ModuleType]) -> dict[str, object]:
    """Compiles single functions of `file`, wherever they stand in it, with the modules' names in sight."""
    wanted = {*_METHODS, _QUANTISER}
    functions = [node for node in ast.walk(ast.parse(file.read_text()))
                 if isinstance(node, ast.FunctionDef) and node.name in wanted]
    missing = wanted - {node.name for node in functions}
    if missing:
        raise RuntimeError(f"{file.name} has no {', '.join(sorted(missing))}")
    namespace: dict[str, object] = {"logger": types.SimpleNamespace(info=_ignore, debug=_ignore)}
    for module in modules:
        namespace |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    _compile_into(namespace, ast.Module(body=functions, type_ignores=[]), file.name)
    return namespace
