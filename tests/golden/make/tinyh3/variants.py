"""What the two variants change: schedule shifts, geometry, sizes of the component inputs. The networks are the same.

Variant A is the repository's folder. B differs in as many numbers as possible, for an implementation that was fitted
to A's.
"""
from __future__ import annotations

from dataclasses import dataclass

MIN_SECONDS = 0.5  # the lifted duration floor of the short requests
DIFFUSERS_MIN_SECONDS = 5.0


@dataclass(frozen=True)
class Geometry:
    """The canvas rules' pixel numbers, of which the release has 768, 768 x 1344 and 2048."""

    short_edge: int
    max_pixels: int
    reference_short_edge: int


@dataclass(frozen=True)
class ReferenceLayout:
    """A ref2va sequence at release size."""

    num_frames: int
    height: int
    width: int
    references: tuple[str, ...]
    visual_latents: tuple[tuple[int, int, int], ...]
    audio_latents: tuple[int, ...]


@dataclass(frozen=True)
class ComponentSizes:
    """Inputs of the goldens that are no requests. Pictures are (height, width, pattern), clips (frames, height, width,
    pattern), latents (t, h, w), waves (channels, samples, pattern)."""

    key: int  # stands where a weight's hash has the seed
    still: tuple[int, int, int]
    clips: tuple[tuple[int, int, int, int], ...]
    latents: tuple[tuple[int, int, int], ...]  # the last is not 5n+2 long: it has to be padded and trimmed
    tiled: tuple[int, int, int]
    tiled_latent: tuple[int, int, int]
    f16_latent: tuple[int, int, int]
    wave: tuple[int, int, int]
    audio_latents: int
    shifts: tuple[float, ...]
    points: tuple[int, ...]
    chain: tuple[float, int]  # shift and sigma points of the Euler steps
    image: tuple[int, int, int]
    clip: tuple[int, int, int, int]
    lanczos: tuple[tuple[int, int], ...]  # (width, height)
    rng_seeds: tuple[int, ...]
    rng_sizes: tuple[int, ...]
    rng_sequence: tuple[int, tuple[int, ...]]  # a seed and the sizes drawn one after the other
    text_rows: int
    canvases: tuple[tuple[int, int, int], ...]  # (frames, height, width)
    reference_layout: ReferenceLayout
    resample: tuple[tuple[int, int], ...]  # (rate, samples)
    resample_pattern: int


@dataclass(frozen=True)
class Variant:
    name: str
    shifts: dict[str, float]
    geometry: Geometry
    sigma_points: int
    components: ComponentSizes


_A = Variant(
    name="A",
    shifts={"video": 12.0, "audio": 3.0},  # as released
    geometry=Geometry(short_edge=32, max_pixels=32 * 64, reference_short_edge=64),
    sigma_points=4,
    components=ComponentSizes(
        key=1,
        still=(64, 96, 3),
        clips=((22, 32, 64, 5), (39, 32, 32, 9)),
        latents=((7, 1, 3), (12, 1, 1), (9, 1, 1)),
        tiled=(96, 112, 8),
        tiled_latent=(7, 6, 7),
        f16_latent=(7, 1, 1),
        wave=(2, 4010, 7),
        audio_latents=9,
        shifts=(12.0, 3.0, 1.0),
        points=(2, 5, 9, 50, 51),
        chain=(12.0, 9),
        image=(70, 100, 2),
        clip=(3, 35, 50, 4),
        lanczos=((96, 64), (160, 128)),
        rng_seeds=(0, 42, 1234, 2**40 + 7),
        rng_sizes=(16, 17, 40, 1000),
        rng_sequence=(7, (24, 100, 17, 64)),
        text_rows=77,
        canvases=((124, 768, 1344), (362, 768, 1344), (124, 1344, 768), (345, 1024, 1024)),
        reference_layout=ReferenceLayout(
            124, 768, 1344, references=("image", "video+sound", "audio", "video"),
            visual_latents=((1, 128, 214), (37, 48, 84), (22, 64, 64)), audio_latents=(207, 83)),
        resample=((44100, 703), (48000, 600), (16000, 201)),
        resample_pattern=21,
    ),
)

_B = Variant(
    name="B",
    shifts={"video": 7.0, "audio": 2.0},
    geometry=Geometry(short_edge=32, max_pixels=32 * 96, reference_short_edge=96),
    sigma_points=7,
    components=ComponentSizes(
        key=2,
        still=(96, 64, 13),
        clips=((39, 64, 32, 15), (30, 32, 32, 19)),
        latents=((12, 2, 1), (7, 1, 2), (15, 1, 1)),
        tiled=(112, 96, 18),
        tiled_latent=(7, 7, 6),
        f16_latent=(12, 1, 1),
        wave=(2, 2403, 17),
        audio_latents=13,
        shifts=(7.0, 2.0, 9.5),
        points=(3, 7, 11, 26),
        chain=(7.0, 7),
        image=(130, 90, 12),
        clip=(5, 60, 45, 14),
        lanczos=((64, 96), (128, 192)),
        rng_seeds=(3, 99, 20260, 2**33 + 5),
        rng_sizes=(31, 33, 48, 777),
        rng_sequence=(11, (33, 16, 250, 96)),
        text_rows=131,
        canvases=((141, 1344, 768), (243, 768, 1024), (294, 512, 2016), (328, 768, 768)),
        reference_layout=ReferenceLayout(
            141, 1344, 768, references=("image", "image", "video", "audio"),
            visual_latents=((1, 128, 170), (1, 214, 128), (57, 84, 48)), audio_latents=(333,)),
        resample=((22050, 700), (48000, 1537)),
        resample_pattern=22,
    ),
)

VARIANTS = {variant.name: variant for variant in (_A, _B)}
