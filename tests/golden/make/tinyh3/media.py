"""Test pictures, clips and sounds by formula, and the media of a request."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .networks import SAMPLE_RATE
from .weights import uniform


def picture(height: int, width: int, pattern: int) -> np.ndarray:
    """Ramps that reflect at 255, differently steep per channel, under boxes with hard edges; [H,W,3] U8."""
    y, x = np.mgrid[:height, :width]
    boxes = x // max(1, width // 4) + y // max(1, height // 3) + pattern
    planes = []
    for c in range(3):
        ramp = (x * (3 + c) + y * (5 - c) + 37 * pattern + 61 * c) % 510
        ramp = np.minimum(ramp, 510 - ramp)
        planes.append(np.clip(ramp + np.where((boxes + c) % 3 == 0, 40, -20), 0, 255))
    return np.stack(planes, axis=-1).astype(np.uint8)


def moving_pictures(frames: int, height: int, width: int, pattern: int) -> np.ndarray:
    """A picture that rolls down by 1 and right by 2 pixels a frame and changes every third; [T,H,W,3] U8."""
    return np.stack([np.roll(picture(height, width, pattern + i // 3), (i, 2 * i), axis=(0, 1))
                     for i in range(frames)])


def wave(channels: int, samples: int, pattern: int) -> torch.Tensor:
    """Two sines and hashed noise, different per channel; [C,N] F32 within 0.65."""
    seconds = np.arange(samples, dtype=np.float64) / SAMPLE_RATE

    def sine(hertz: float) -> np.ndarray:
        return np.sin(2 * np.pi * hertz * seconds)

    rows = [0.35 * sine(180.0 + 70 * c + 30 * pattern) + 0.2 * sine(2100.0 + 300 * c)
            + 0.1 * (2 * uniform(f"wave:{pattern}:{c}", samples) - 1) for c in range(channels)]
    return torch.from_numpy(np.stack(rows).astype(np.float32))


def wave_i16(channels: int, samples: int, pattern: int) -> torch.Tensor:
    return (wave(channels, samples, pattern) * 32767.0).round().to(torch.int16)


@dataclass(frozen=True, eq=False)
class Media:
    """One input of a request, as the client hands it over."""

    kind: str  # image, video or audio
    role: str = "reference"  # or first or last: a keyframe
    pixels: np.ndarray | None = None
    fps: float | None = None
    sound: torch.Tensor | None = None
    sample_rate: int | None = None

    def samples(self) -> torch.Tensor | None:
        """The sound as F32 in [-1,1), I16 scaled as a WAV reader does."""
        if self.sound is None or self.sound.dtype != torch.int16:
            return self.sound
        return self.sound.float() / 32768.0

    def pixel_tensor(self, index: int) -> str:
        return f"media.{index}.{self.kind}_u8"

    def sound_tensor(self, index: int) -> str:
        return f"media.{index}.audio_" + ("i16" if self.sound.dtype == torch.int16 else "f32")

    def tensors(self, index: int) -> dict[str, np.ndarray | torch.Tensor]:
        """The raw input by the names that requests.json gives it."""
        out: dict[str, np.ndarray | torch.Tensor] = {}
        if self.pixels is not None:
            out[self.pixel_tensor(index)] = self.pixels
        if self.sound is not None:
            out[self.sound_tensor(index)] = self.sound
        return out


def image(height: int, width: int, pattern: int, role: str = "reference") -> Media:
    return Media("image", role, pixels=picture(height, width, pattern))


def video(frames: int, height: int, width: int, pattern: int, fps: float, sound: torch.Tensor | None = None) -> Media:
    return Media("video", pixels=moving_pictures(frames, height, width, pattern), fps=float(fps), sound=sound,
                 sample_rate=None if sound is None else SAMPLE_RATE)


def audio(sound: torch.Tensor) -> Media:
    return Media("audio", sound=sound, sample_rate=SAMPLE_RATE)
