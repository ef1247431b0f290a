#!/usr/bin/env python3
"""Compares two golden folders of one seed and variant up to rounding, and names every file that goes beyond.

    python tests/golden/make/compare.py OLD NEW

`diff -r` is the stricter test and holds between runs on one machine. With another CPU the libraries may add in another
order: the last bits differ, and a rounding to F16, BF16 or U8 may tip over.
"""
from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

# stats.json is a summary with rounded numbers: whatever it says, the tensors say better.
_NOT_COMPARED = {"stats.json"}
# A header fact that is measured, hence subject to rounding itself.
_MEASURED_METADATA = {"f16_against_f32"}


@dataclass(frozen=True)
class Limits:
    relative_rms: float
    levels: int  # of U8 pixels
    changed_share: float  # of those


_F32 = Limits(relative_rms=1e-4, levels=1, changed_share=0.005)
_F16_DECODE = Limits(relative_rms=1e-3, levels=1, changed_share=0.1)
# In BF16 a flipped bit grows: one code on two machines came to 1.0e-2, and to 3 levels in 35 % of the pixels.
_BF16 = Limits(relative_rms=4e-2, levels=4, changed_share=0.6)


def _limits(file: str) -> Limits:
    return _BF16 if "bf16" in file else _F16_DECODE if "f16" in file else _F32


def _relative_rms(old: torch.Tensor, new: torch.Tensor) -> float:
    return float((new.double() - old.double()).norm() / old.double().norm().clamp_min(1e-30))


def _tensor_fault(old: torch.Tensor, new: torch.Tensor, limits: Limits) -> tuple[float, str | None]:
    """How far `new` is from `old`, and what is wrong with that."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return 0.0, f"{list(old.shape)} {old.dtype} became {list(new.shape)} {new.dtype}"
    if torch.equal(old, new):
        return 0.0, None
    if old.is_floating_point():
        error = _relative_rms(old, new)
        return error, None if error <= limits.relative_rms else f"relative RMS {error:.1e}"
    if old.dtype != torch.uint8:
        return 0.0, "integers differ"
    difference = (new.int() - old.int()).abs()
    levels, share = int(difference.max()), float((difference > 0).float().mean())
    within = levels <= limits.levels and share <= limits.changed_share
    return 0.0, None if within else f"{levels} levels in {share:.2%} of values"


def _compare_safetensors(old_path: Path, new_path: Path) -> tuple[str, list[str]]:
    """A summary and the faults of a file that is in both folders."""
    faults, worst, differing = [], 0.0, 0
    with safe_open(old_path, "pt") as old, safe_open(new_path, "pt") as new:
        before, after = (
            {k: v for k, v in file.metadata().items() if k not in _MEASURED_METADATA} for file in (old, new))
        if before != after:
            faults.append("metadata differ")
        names = set(old.keys())
        if names != set(new.keys()):
            faults.append(f"names differ: {', '.join(sorted(names ^ set(new.keys())))}")
        for name in sorted(names & set(new.keys())):
            a, b = old.get_tensor(name), new.get_tensor(name)
            error, fault = _tensor_fault(a, b, _limits(old_path.name))
            worst, differing = max(worst, error), differing + (not torch.equal(a, b))
            if fault:
                faults.append(f"{name}: {fault}")
    return f"{differing} of {len(names)} tensors differ, relative RMS up to {worst:.1e}", faults


def _files(folder: Path) -> set[Path]:
    """The golden files; the folder in the repository also holds how they are made."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()
            and path.relative_to(folder).parts[0] not in ("make", "README.md")}


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    old, new = Path(sys.argv[1]), Path(sys.argv[2])
    old_files, new_files = _files(old), _files(new)
    failed = [f"{path}: only in one folder" for path in sorted(old_files ^ new_files)]
    equal = 0
    for path in sorted(old_files & new_files):
        if (old / path).read_bytes() == (new / path).read_bytes():
            equal += 1
        elif path.suffix == ".safetensors":
            summary, faults = _compare_safetensors(old / path, new / path)
            print(f"{path}: {summary}")
            failed += [f"{path}: {fault}" for fault in faults]
        elif path.name not in _NOT_COMPARED:
            failed.append(f"{path}: contents differ")
    print(f"{equal} of {len(old_files & new_files)} files are equal byte for byte")
    for fault in failed:
        print(f"beyond rounding: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
