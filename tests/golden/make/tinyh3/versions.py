"""The pinned package versions, which installed ones differ, and what a run writes about itself.

Imports no pinned package, so that a wrong version is reported before it can break an import.
"""
from __future__ import annotations

import importlib.util
import json
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent.parent


def pinned() -> dict[str, str]:
    """Package name to version, as the requirements files beside make_golden.py state them."""
    lines = [line for name in ("requirements.txt", "requirements-no-deps.txt")
             for line in (_FOLDER / name).read_text().splitlines()]
    return dict(line.split("==") for line in lines if "==" in line)


def vllm_omni_folder(given: Path | None) -> Path | None:
    """The package's folder: the given one, else the installed one; looked up without running its __init__."""
    if given is not None:
        return given
    spec = importlib.util.find_spec("vllm_omni")
    return Path(spec.submodule_search_locations[0]) if spec else None


def vllm_omni_version(folder: Path) -> str:
    version_file = folder / "_version.py"
    found = re.search(r"version = '([^']+)'", version_file.read_text()) if version_file.exists() else None
    return found[1] if found else "unknown"


def differences(vllm_omni: Path | None) -> list[str]:
    """A sentence for every pinned package of which another version is there; vllm-omni may be absent."""
    found = []
    for package, wanted in pinned().items():
        if package == "vllm-omni":
            installed = vllm_omni_version(vllm_omni) if vllm_omni else wanted
        else:
            try:
                installed = metadata.version(package)
            except metadata.PackageNotFoundError:
                installed = "absent"
        # torch's "+cu132" and the like name the build, not the version
        if installed.split("+")[0] != wanted:
            found.append(f"{package} {installed} (pinned {wanted})")
    return found


def used(vllm_omni: str | None) -> dict[str, str]:
    """The versions that decide about values, in the order in which the files list them."""
    import diffusers
    import numpy
    import PIL
    import torch
    import transformers

    out = {"python": platform.python_version(), "torch": torch.__version__, "diffusers": diffusers.__version__,
           "transformers": transformers.__version__, "numpy": numpy.__version__, "pillow": PIL.__version__}
    return out if vllm_omni is None else {**out, "vllm_omni": vllm_omni}


@dataclass(frozen=True)
class RunInfo:
    """What identifies one run; repeated in the header of every file it writes."""

    seed: int
    variant: str
    versions: dict[str, str]
    unpinned: bool

    @property
    def request_seed(self) -> int:
        return self.seed + 1000

    @property
    def unpinned_mark(self) -> dict[str, str]:
        """Empty for a run with the pinned versions, which therefore leaves no trace of the question."""
        return {"pinned_versions": "no"} if self.unpinned else {}

    def header(self) -> dict[str, str]:
        return {"weight_seed": str(self.seed), "variant": self.variant,
                "versions": json.dumps(self.versions, sort_keys=True), **self.unpinned_mark}
