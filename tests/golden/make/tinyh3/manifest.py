"""Copies every small file of the checkpoint into the golden folder and says how the large ones are made.

With `recipe.json` this is the whole checkpoint in 0.3 MB instead of 20.
"""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from . import layout_maps, networks, writer
from .checkpoint import TinyCheckpoint, modular_index

_NOTE = ("files[].path is relative to the checkpoint root, files[].from to this golden folder; a sharded "
         "component's weight_map lies in its copied *.index.json")


def _files_of(root: Path) -> list[Path]:
    """Relative paths, a folder's own files before those of its subfolders."""
    out = []
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        out += [Path(folder, file).relative_to(root) for file in sorted(files)]
    return out


def _weight_entry(path: Path) -> dict:
    layout, *folders = path.parts[:-1]
    if layout == "diffusers":
        return {"path": str(path), "component": folders[0], "map": "identity"}
    partition, component = folders[:2]
    if component == "transformer":
        ref = partition == "Ref2VA"
        return {"path": str(path), "component": "transformer_ref" if ref else "transformer", "map": "dit_original"}
    if component == "video_vae":
        return {"path": str(path), "component": "vae", "map": "vae_original"}
    return {"path": str(path), "component": component, "map": "identity"}


def _operations() -> dict[str, str]:
    frequencies = networks.TRANSFORMER["rope_freq_dim"]
    return {
        "identity": "recipe names and, where the component has them, recipe['buffers']; dtype as in the recipe",
        "copy": "same bytes",
        "interleave_qkv": "rows of q, k, v regrouped per head: head0 (q,k,v), head1 (q,k,v), ...; heads: dit "
                          f"{layout_maps.TRANSFORMER.heads}, vae {layout_maps.VIDEO_VAE.heads}",
        "swap_halves": "second half of dim 0 first",
        "inv_freq": f"F32[{frequencies}]: 1 / 10000^(2i / {2 * frequencies})",
        "zeros": "F32 zeros",
    }


def export(checkpoint: TinyCheckpoint, root: Path, out: Path) -> None:
    """Writes the tokenizer files and configs/ with its manifest.json into `out`, for the checkpoint at `root`."""
    copies: dict[bytes, str] = {}  # contents to the golden folder's one file with them
    for file in sorted((root / "diffusers/tokenizer").iterdir()):
        shutil.copyfile(file, out / file.name)
        copies[file.read_bytes()] = file.name
    _write_plain_vocabulary(out)

    files, weights = [], []
    for path in _files_of(root):
        if path.suffix == ".safetensors":
            weights.append(_weight_entry(path))
            continue
        contents = (root / path).read_bytes()
        if path.name == "modular_model_index.json":  # names the folder it was built in
            contents = writer.to_json(modular_index(".")).encode()
        if contents not in copies:
            copies[contents] = str(Path("configs", path))
            target = out / "configs" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents)
        files.append({"path": str(path), "from": copies[contents]})

    maps = {"dit_original": layout_maps.TRANSFORMER.manifest(sorted(checkpoint.parameters["transformer"])),
            "vae_original": layout_maps.VIDEO_VAE.manifest(sorted(checkpoint.parameters["vae"]))}
    writer.json_file(out / "configs/manifest.json", {
        "note": _NOTE, "files": files, "weights": weights, "operations": _operations(), "maps": maps}, compact=True)


def _write_plain_vocabulary(out: Path) -> None:
    """vocab.json and merges.txt, for readers that want them apart from tokenizer.json."""
    model = json.loads((out / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    writer.json_file(out / "vocab.json", model["vocab"], compact=True)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (out / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
