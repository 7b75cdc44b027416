"""What a network expects of its images: resize, centre crop, mean and standard deviation; a part of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.cropping import Interpolation, shorter_side_crop
from kshot.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["NAMED", "Preprocessing"]

Layout = Literal["NCHW", "NHWC"]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Turn pictures into a network's input: (pixels − mean) / std of the centre, as float32.

    Args:
        crop: side in pixels of the square that the network takes, cut from the picture's centre.
        resize: length that the picture's shorter side is brought to first; None stands for `crop`, so that pictures of
            exactly the network's size go in unchanged.
        interpolation: filter of the resize, with antialiasing.
        mean: per channel, red, green and blue, on the scale of 0..255.
        std: likewise.
        layout: order of the axes that come out: "NCHW", or "NHWC" as networks from TensorFlow have it.

    >>> half = Preprocessing(crop=2, mean=(0, 0, 0), std=(255, 255, 255))
    >>> half.apply_batch(np.full((5, 8, 8, 3), 51, np.uint8)).shape
    (5, 3, 2, 2)

    """

    crop: int
    resize: int | None = None
    interpolation: Interpolation = "bicubic"
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    layout: Layout = "NCHW"

    def __post_init__(self) -> None:
        # Lists come from JSON files; tuples keep the object hashable.
        object.__setattr__(self, "mean", _three("mean", self.mean))
        object.__setattr__(self, "std", _three("std", self.std))
        if not _is_length(self.crop):
            raise UserError(f"preprocessing: crop is a number of pixels from 1 to 4096, and not {self.crop!r}")
        if self.resize is not None and not (_is_length(self.resize) and self.resize >= self.crop):
            raise UserError(
                f"preprocessing: resize is None or at least the crop's {self.crop}, and not {self.resize!r}"
            )
        if min(self.std) <= 0:
            raise UserError(f"preprocessing: std holds three numbers above 0, and not {self.std}")
        for name, value, known in (
            ("interpolation", self.interpolation, get_args(Interpolation)),
            ("layout", self.layout, get_args(Layout)),
        ):
            if value not in known:
                raise UserError(f"preprocessing: {name} is one of {', '.join(known)}, and not {value!r}")

    @property
    def shorter_side(self) -> int:
        """Length that a picture's shorter side is brought to; what `read_photograph` needs to know."""
        return self.resize or self.crop

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one input of the network."""
        return (3, self.crop, self.crop) if self.layout == "NCHW" else (self.crop, self.crop, 3)

    def pixels(self, image: Image.Image | NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resize and crop one picture (RGB, or uint8 of shape (h, w, 3)) to uint8 (crop, crop, 3)."""
        from PIL import Image

        if isinstance(image, np.ndarray):
            image = Image.fromarray(_checked(image, dimensions=3))
        crop = shorter_side_crop(image, self.crop, resize=self.resize, interpolation=self.interpolation)
        return np.asarray(crop)

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Map uint8 (n, crop, crop, 3) to the network's input, (n, 3, crop, crop) for "NCHW"."""
        axes = (0, 3, 1, 2) if self.layout == "NCHW" else (0, 1, 2, 3)
        along = (3, 1, 1) if self.layout == "NCHW" else (3,)
        mean, std = (np.array(values, np.float32).reshape(along) for values in (self.mean, self.std))
        # Bytes are moved into place before they become numbers of four bytes: four times faster than the other way.
        result: NDArray[np.float32] = np.ascontiguousarray(pixels.transpose(axes)) - mean
        result /= std
        return result

    def apply(self, image: Image.Image | NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn one picture (RGB, or uint8 of shape (h, w, 3)) into one input of the network, (3, crop, crop)."""
        (one,) = self.normalise(self.pixels(image)[None])
        return np.asarray(one)

    def apply_batch(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn uint8 (n, h, w, 3) into the network's input, (n, 3, crop, crop)."""
        images = _checked(images, dimensions=4)
        if len(images) == 0:
            return np.empty((0, *self.shape), np.float32)
        if images.shape[1:3] != (self.shorter_side, self.shorter_side):
            images = np.stack([self.pixels(image) for image in images])
        start = (images.shape[1] - self.crop) // 2
        return self.normalise(images[:, start : start + self.crop, start : start + self.crop])

    def to_json(self) -> dict[str, Any]:
        """Give the fields as a dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Build what `to_json` gave, refusing what it cannot have given."""
        if not isinstance(values, Mapping):
            raise UserError("preprocessing: a JSON object is needed, such as " + EXAMPLE)
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UserError(f"preprocessing: {unknown[0]!r} is not one of {', '.join(sorted(known))}")
        if missing := [name for name in ("crop", "mean", "std") if name not in values]:
            raise UserError(f"preprocessing: {missing[0]!r} is missing; an example is {EXAMPLE}")
        return cls(**values)

    @classmethod
    def named(cls, name: str, *, crop: int = 224) -> Preprocessing:
        """Give one of the usual conventions (`NAMED`) for a network that takes images of `crop` pixels."""
        if name not in NAMED:
            raise UserError(f"preprocessing: {name!r} is not one of {', '.join(NAMED)}, and no Preprocessing")
        # The usual 0.875 of the picture's shorter side, 224 of 256.
        return replace(NAMED[name], crop=crop, resize=round(crop / 0.875))


def _three(name: str, values: Any) -> tuple[float, float, float]:
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise UserError(f"preprocessing: {name} holds three numbers, and not {values!r}") from None
    if not np.isfinite([red, green, blue]).all():
        raise UserError(f"preprocessing: {name} holds three finite numbers, and not {values!r}")
    return red, green, blue


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4096


def _checked(images: NDArray[np.uint8], *, dimensions: int) -> NDArray[np.uint8]:
    shape = "(n, h, w, 3)" if dimensions == 4 else "(h, w, 3)"
    if images.dtype != np.uint8 or images.ndim != dimensions or images.shape[-1] != 3:
        raise UserError(f"images as an array are uint8 of shape {shape}, and not {images.dtype} of {images.shape}")
    return np.ascontiguousarray(images)


EXAMPLE = '{"crop": 224, "resize": 256, "mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}'

NAMED = {
    "imagenet": Preprocessing(
        crop=224, resize=256, interpolation="bilinear", mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)
    ),
    "inception": Preprocessing(crop=224, resize=256, mean=(127.5, 127.5, 127.5), std=(127.5, 127.5, 127.5)),
    "efficientnet-lite": Preprocessing(crop=224, resize=256, mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0)),
    "zero-to-one": Preprocessing(crop=224, resize=256, mean=(0.0, 0.0, 0.0), std=(255.0, 255.0, 255.0)),
}
"""Conventions: torchvision's and most of timm's; −1..1 of Inception and TensorFlow; EfficientNet-Lite's; 0..1"""
