"""One run: the checkpoint, then the requests, then the components, then the tables about them."""
from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import diffusers
import torch
import transformers

from . import components, diffusers_cases, manifest, original_layout, release_cases, tables, versions, writer
from .cases import MEDIA_NOTE, Case, cases
from .checkpoint import TinyCheckpoint
from .release_source import ReleaseCode
from .variants import VARIANTS, Variant
from .versions import RunInfo

_COMPONENTS = "components"


class BadArguments(Exception):
    """The arguments name no cases, or cases that cannot run here."""


def _selected(tasks: str, known: dict[str, Case]) -> list[str]:
    names = [*known, _COMPONENTS] if tasks == "all" else tasks.split(",")
    unknown = sorted(set(names) - {*known, _COMPONENTS})
    if unknown:
        raise BadArguments(f"unknown tasks: {', '.join(unknown)}; there are {', '.join([*known, _COMPONENTS])}")
    return names


@torch.no_grad()
def make(seed: int, variant_name: str, tasks: str, out: Path, ckpt: Path | None, vllm_omni: Path | None,
         unpinned: bool) -> None:
    """Makes the folder beside `out` and moves it there at the end, so that `out` is whole or absent."""
    variant = VARIANTS[variant_name]
    known = cases(variant)
    names = _selected(tasks, known)
    release_code = None
    if any(known[name].recipe == "release" for name in names if name != _COMPONENTS):
        if vllm_omni is None:
            raise BadArguments("the release cases need vllm-omni (install it, say --vllm-omni, or leave them out)")
        release_code = ReleaseCode.load(vllm_omni, variant.geometry)
    used = versions.used(versions.vllm_omni_version(vllm_omni) if release_code else None)
    print(", ".join(f"{package} {version}" for package, version in used.items()), flush=True)
    info = RunInfo(seed, variant.name, used, unpinned)

    # one thread: the order of sums, and with it the last bits, depends on their number
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    diffusers.logging.set_verbosity_error()

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        golden, root = Path(scratch, "golden"), ckpt or Path(scratch, "ckpt")
        golden.mkdir(mode=0o755)
        checkpoint = _write_checkpoint(root, golden, info, variant)
        run = _Run(golden, root, variant, info, release_code)
        run.requests([known[name] for name in names if name != _COMPONENTS])
        if _COMPONENTS in names:
            run.components(checkpoint)
        run.finish(list(known))
        os.replace(golden, out)  # takes the place of an empty folder


def _write_checkpoint(root: Path, golden: Path, info: RunInfo, variant: Variant) -> TinyCheckpoint:
    started = time.monotonic()
    checkpoint = TinyCheckpoint.build(info.seed, variant.shifts)
    checkpoint.write_diffusers(root / "diffusers")
    original_layout.write(checkpoint, root / "original")
    writer.json_file(golden / "recipe.json", checkpoint.recipe() | info.unpinned_mark, compact=True)
    manifest.export(checkpoint, root, golden)
    print(f"checkpoint: {time.monotonic() - started:.1f} s", flush=True)
    return checkpoint


class _Run:
    def __init__(self, golden: Path, root: Path, variant: Variant, info: RunInfo,
                 release_code: ReleaseCode | None) -> None:
        self.golden, self.root, self.variant, self.info = golden, root, variant, info
        self.release_code = release_code
        self.entries: dict[str, dict] = {}  # of requests.json, by case
        self.statistics: dict[str, dict] = {}  # of stats.json

    def _pipeline(self, dtype: str) -> object:
        return diffusers_cases.load_pipeline(self.root / "diffusers", dtype, self.variant.geometry)

    def requests(self, selected: list[Case]) -> None:
        for dtype in ("float32", "bfloat16"):
            of_dtype = [case for case in selected if case.dtype == dtype]
            pipeline = self._pipeline(dtype) if of_dtype else None
            for case in of_dtype:
                started = time.monotonic()
                if case.recipe == "release":
                    resolved, statistics = release_cases.run(
                        pipeline, self.release_code, case, self.info, self.golden)
                else:
                    resolved, statistics = diffusers_cases.run(pipeline, case, self.info, self.golden)
                self.entries[case.name] = case.describe(self.variant, self.info.request_seed, resolved)
                self.statistics[case.name] = statistics
                print(f"{case.name}: {time.monotonic() - started:.2f} s, frames {statistics['frames']}, "
                      f"std {statistics['frame_mean_std'][1]}, saturated {statistics['frame_saturated_fraction']}, "
                      f"audio std {statistics['audio_std']}, clipped {statistics['audio_clipped_fraction']}",
                      flush=True)

    def components(self, checkpoint: TinyCheckpoint) -> None:
        pipeline, sizes = self._pipeline("float32"), self.variant.components
        common = (sizes, self.info, self.golden)
        self.statistics["vae"] = components.video_vae(pipeline, *common)
        self.statistics["vae_f16"] = components.video_vae_f16(pipeline, *common)
        self.statistics["audio_vae"] = components.audio_vae(pipeline, *common)
        self.statistics["resample"] = components.resample(*common)
        components.scheduler(*common)
        components.text_frontend(pipeline, *common)
        writer.json_file(self.golden / "layout_real.json", tables.release_size_layouts(self.variant), compact=True)
        errors = tables.random_numbers(self.variant, self.info, self.golden)
        writer.json_file(self.golden / "tables.json", {
            "tokenizer": tables.token_ids(checkpoint.tokenizer, self.variant),
            "split_tiles": tables.tiles(pipeline.vae), "rng_max_abs_diff_of_numpy_port": errors}, compact=True)
        print(f"components: F16 decode {self.statistics['vae_f16']['f16_against_f32']}, normal sampler's port within "
              f"{max(errors.values()):.1e}", flush=True)

    def finish(self, order: list[str]) -> None:
        info = self.info
        writer.json_file(self.golden / "requests.json", {
            "format": 1, "variant": info.variant, "weight_seed": info.seed, "versions": info.versions,
            **info.unpinned_mark, "media_note": MEDIA_NOTE,
            "cases": [self.entries[name] for name in order if name in self.entries]})
        writer.json_file(self.golden / "stats.json", {
            "versions": info.versions, **info.unpinned_mark, "request_seed": info.request_seed,
            "weight_seed": info.seed, "variant": info.variant, "runs": self.statistics}, compact=True)
        total = sum(file.stat().st_size for file in self.golden.rglob("*") if file.is_file())
        print(f"golden files: {total / 1e6:.2f} MB", flush=True)
