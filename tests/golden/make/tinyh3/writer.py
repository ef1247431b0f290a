"""Writes files so that equal contents always give equal bytes."""
from __future__ import annotations

import json
from pathlib import Path

import torch

_DTYPE_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.uint8: "U8", torch.bool: "BOOL",
}


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """The little-endian value bytes in C order."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def safetensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Writes one safetensors file.

    The library's own writer emits metadata in hash order, which differs from run to run as soon as there are
    two keys. Here the keys are sorted. Wide elements come first, as in the library, which keeps them aligned.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded = encoded.ljust((len(encoded) + 7) // 8 * 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for name in names:
            file.write(raw_bytes(tensors[name]))


def to_json(value: object, compact: bool = False) -> str:
    """Configs are indented for readers; long tables are one line."""
    return json.dumps(value, indent=None if compact else 1, ensure_ascii=False)


def json_file(path: Path, value: object, compact: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(value, compact), encoding="utf-8")
