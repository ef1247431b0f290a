"""The requests of both variants, and how requests.json tells them."""
from __future__ import annotations

from dataclasses import dataclass, field

from .media import Media, audio, image, video, wave, wave_i16
from .networks import FPS
from .variants import DIFFUSERS_MIN_SECONDS, MIN_SECONDS, Variant

PROMPT = "a red fox trots through the snow, 雪 crunching; the singer hums <Picture 1>'s tune at 24fps"
PROMPT_CHINESE = "一只红色的狐狸🦊在雪地里小跑，歌手轻声哼唱🎶；镜头缓慢向左摇，24fps。"
PROMPT_SPACES = "a  red fox   trots\nthrough the snow;\n\n the  singer hums\t<Picture 2>'s tune "

POSTERIOR_SEED = 42  # of the noise with which conditions are sampled from the VAE; no request changes it

# How much of a case is kept besides the request's own stages.
INTERNALS = "internals"  # the first block of the transformer and all pixels
PIXELS = "pixels"  # all pixels
LEAN = "lean"  # nothing that follows from the recorded U8 media

_NOISE = {
    "diffusers": "one generator(seed) for everything, drawn in this order: per visual condition in packed order "
                 "randn(1,24,t,h,w); video randn(1,24,T,h,w); audio randn(2*A,32). "
                 "condition = 0.999*clean + 0.001*noise",
    "release": "a fresh generator(seed) for every draw: per visual condition randn(1,24,max(T + number of visual "
               "conditions, t),h,w) of which the first t latent frames are kept; video randn(1,24,T,h,w); audio "
               "randn(2*A,32). condition = 0.999*clean + 0.001*noise; audio conditions stay clean",
}
_WEIGHTS_IN_DTYPE = ("DiT and text encoder are stored BF16 with the recipe's F32 exceptions; dtype says how they are "
                     "computed")
MEDIA_NOTE = ("media[].tensor and audio_tensor name tensors in the case's file: images [H,W,3] u8, videos [T,H,W,3] "
              "u8, audio [channels,samples] f32, or i16 to be divided by 32768. 'media' is the order in which the "
              "request hands them over, 'packed_order' the order in the sequence.")


@dataclass(frozen=True, eq=False)
class Case:
    """One request and what is recorded of it."""

    name: str
    asked: dict[str, object]
    sigma_points: int
    shifts: dict[str, float]
    media: list[Media] = field(default_factory=list)
    prompt: str = PROMPT
    detail: str = LEAN
    kept_samples: int = 8000
    dtype: str = "float32"
    keeps_duration_floor: bool = False
    shifts_from: str = "checkpoint"

    @property
    def task(self) -> str:
        return self.name.split("_")[0]

    @property
    def recipe(self) -> str:
        """Whose rules are followed: the release's serving code or diffusers' pipeline."""
        return "release" if self.name.endswith("_release") else "diffusers"

    @property
    def transformer(self) -> str:
        return "transformer_ref" if self.task == "ref2va" else "transformer"

    def packed_order(self) -> list[int]:
        """The release sorts references by kind, diffusers keeps the client's order."""
        order = list(range(len(self.media)))
        if self.recipe == "release":
            order.sort(key=lambda i: ("image", "video", "audio").index(self.media[i].kind))
        return order

    def media_tensors(self) -> dict[str, object]:
        return {name: tensor for i, item in enumerate(self.media) for name, tensor in item.tensors(i).items()}

    def describe(self, variant: Variant, request_seed: int, resolved: dict[str, object]) -> dict:
        """The case's entry of requests.json."""
        return {
            "name": self.name, "file": f"{self.name}.safetensors", "recipe": self.recipe, "task": self.task,
            "transformer": {"diffusers": self.transformer,
                            "original": "Ref2VA" if self.task == "ref2va" else "FL2VA"},
            "prompt": self.prompt, "asked": self.asked, "resolved": resolved,
            "sigma_points": self.sigma_points, "forwards": self.sigma_points - 1, "shifts": self.shifts,
            "shifts_from": self.shifts_from, "torch_seed": request_seed, "posterior_seed": POSTERIOR_SEED,
            "noise": _NOISE[self.recipe], "condition_timestep": 0.999, "audio_condition_timestep": 1.0,
            "dtype": self.dtype, "decode_dtype": self.dtype, "geometry": self._geometry(variant),
            "media": [self._describe_media(i) for i in range(len(self.media))], "packed_order": self.packed_order(),
            "audio_kept_samples": self.kept_samples, "weights_in_dtype": _WEIGHTS_IN_DTYPE,
        }

    def _geometry(self, variant: Variant) -> dict[str, object]:
        geometry = variant.geometry
        out: dict[str, object] = {
            "canvas_short_edge": geometry.short_edge, "canvas_max_pixels": geometry.max_pixels, "canvas_multiple": 32,
            "reference_image_short_edge": geometry.reference_short_edge, "fps": FPS,
            "min_duration_seconds": DIFFUSERS_MIN_SECONDS if self.keeps_duration_floor else MIN_SECONDS}
        if self.recipe == "release":
            out["lifted_release_floors"] = "sides >= 256 px, reference seconds >= 2, output seconds >= 4"
        return out

    def _describe_media(self, index: int) -> dict[str, object]:
        item = self.media[index]
        out: dict[str, object] = {"index": index, "kind": item.kind, "role": item.role}
        if item.kind == "image":
            out |= {"tensor": item.pixel_tensor(index), "height": item.pixels.shape[0], "width": item.pixels.shape[1]}
            if item.role != "reference":
                cropped = self.recipe == "diffusers" and index > 0  # diffusers stretches only the first of two
                out["fit"] = "cover then centre crop" if cropped else "stretch"
        elif item.kind == "video":
            frames, height, width, _ = item.pixels.shape
            out |= {"tensor": item.pixel_tensor(index), "fps": item.fps, "frames": frames, "height": height,
                    "width": width}
        if item.sound is not None:
            channels, samples = item.sound.shape
            out |= {"audio_tensor": item.sound_tensor(index), "sample_rate": item.sample_rate, "channels": channels,
                    "samples": samples}
        return out


def _size(height: int, width: int, num_frames: int) -> dict[str, object]:
    return {"height": height, "width": width, "num_frames": num_frames}


def cases(variant: Variant) -> dict[str, Case]:
    """The variant's cases by name, in the order of requests.json."""

    def case(name: str, asked: dict[str, object], media: list[Media] | None = None, **more: object) -> Case:
        return Case(name, asked, **{"sigma_points": variant.sigma_points, "shifts": variant.shifts,
                                    "media": media or [], **more})

    made = _cases_a(case) if variant.name == "A" else _cases_b(case)
    return {c.name: c for c in made}


def _cases_a(case) -> list[Case]:
    return [
        case("t2va", _size(64, 96, 22), detail=INTERNALS),
        case("fl2va_first", _size(64, 32, 22), [image(100, 120, 2, "first")]),
        case("fl2va_last", _size(64, 32, 22), [image(64, 96, 1, "last")]),
        # the first fits as it is, the last is cover-cropped
        case("fl2va_first_last", _size(64, 64, 22), [image(64, 64, 9, "first"), image(100, 120, 2, "last")],
             detail=PIXELS),
        case("ref2va_image", _size(64, 32, 22), [image(48, 80, 4)]),
        # a mono second that is cut to 22/24 s and doubled
        case("ref2va_image_audio", _size(32, 64, 22), [image(80, 48, 5), audio(wave(1, 32000, 1))]),
        # 30 to 24 fps, an odd number of frames for the text encoder, a soundtrack
        case("ref2va_video_sound", _size(32, 64, 39),
             [video(45, 30, 50, 6, 30, wave(2, 8010, 2)), image(64, 64, 7), audio(wave(1, 8000, 3))],
             detail=INTERNALS),
        # 120 frames snap to 124, past the floor that the short cases lift
        case("t2va_124", _size(32, 32, 120), sigma_points=3, prompt="a robot dancing", keeps_duration_floor=True),
        case("t2va_bf16", _size(64, 32, 22), detail=INTERNALS, dtype="bfloat16"),
        case("t2va_release", {"aspect_ratio": "9:16", "duration_seconds": 0.9}, kept_samples=4000),
        case("fl2va_first_last_release", {"num_frames": 22},
             [image(80, 48, 11, "first"), image(60, 90, 12, "last")], kept_samples=4000),
        # handed over in the order that the release reverses
        case("ref2va_mixed_release", {"num_frames": 20},
             [audio(wave_i16(1, 8000, 5)), video(25, 32, 32, 14, 24, wave_i16(2, 4010, 6)), image(40, 64, 13)],
             kept_samples=4000),
    ]


def _cases_b(case) -> list[Case]:
    return [
        case("t2va", _size(96, 64, 39), prompt=PROMPT_CHINESE, detail=INTERNALS),
        case("t2va_default_canvas", {"num_frames": 24}, prompt=PROMPT_SPACES),
        case("fl2va_first", {"num_frames": 37}, [image(160, 60, 22, "first")], prompt=PROMPT_SPACES),
        case("fl2va_last", _size(96, 32, 22), [image(64, 96, 21, "last")], prompt=PROMPT_CHINESE),
        case("fl2va_first_last", _size(96, 64, 39), [image(90, 100, 29, "first"), image(50, 120, 24, "last")],
             prompt=PROMPT_SPACES, detail=PIXELS),
        case("ref2va_image", _size(96, 32, 22), [image(48, 80, 24), image(150, 60, 25)], prompt=PROMPT_CHINESE),
        case("ref2va_video_sound", _size(96, 32, 39),
             [video(33, 60, 40, 26, 24, wave_i16(1, 5600, 22)), image(64, 96, 27)], detail=INTERNALS, sigma_points=5),
        case("ref2va_mixed", _size(64, 32, 39),
             [audio(wave_i16(2, 9605, 23)), image(70, 40, 31), video(50, 48, 64, 32, 25), image(40, 90, 33)],
             prompt=PROMPT_SPACES),
        case("t2va_141", _size(32, 32, 125), sigma_points=3, prompt=PROMPT_CHINESE, keeps_duration_floor=True),
        case("t2va_bf16", _size(64, 64, 22), prompt=PROMPT_CHINESE, detail=INTERNALS, dtype="bfloat16"),
        case("t2va_release", {"aspect_ratio": "9:16", "duration_seconds": 1.3}, prompt=PROMPT_CHINESE,
             shifts={"video": 5.0, "audio": 4.0}, shifts_from="request"),
        case("fl2va_first_last_release", {"num_frames": 30},
             [image(120, 50, 34, "first"), image(60, 90, 35, "last")], prompt=PROMPT_SPACES),
        case("ref2va_mixed_release", {"num_frames": 39, "aspect_ratio": "9:16"},
             [audio(wave_i16(2, 7200, 36)), image(60, 90, 37), video(28, 64, 32, 38, 24), image(90, 48, 39)],
             prompt=PROMPT_CHINESE),
    ]
