"""Bring a picture's shorter side to a length and cut out the centre, as networks are trained and tested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kshot.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Interpolation", "shorter_side_crop"]

Interpolation = Literal["bilinear", "bicubic", "lanczos"]


def shorter_side_crop(
    image: Image.Image, size: int, *, resize: int | None = None, interpolation: Interpolation = "bicubic"
) -> Image.Image:
    """Scale the shorter side to `resize` (by default `size`), keeping the aspect ratio, and cut the central square.

    The pixels are those of the whole resized picture, but only the central ones are computed: a picture of
    1 × 100,000 pixels never becomes one of 256 × 25,600,000.
    """
    from PIL import Image

    resize = resize or size
    if resize < size:
        raise UserError(f"resize is at least the crop's {size} pixels, and not {resize}")
    width, height = image.size
    scale = resize / min(width, height)
    resized = round(width * scale), round(height * scale)
    x, y = (resized[0] - size) // 2, (resized[1] - size) // 2
    if resized == image.size:
        return image.crop((x, y, x + size, y + size))
    across, down = width / resized[0], height / resized[1]
    # Pillow's filters look beyond the box, so that its edges come out as they would in the whole picture.
    box = (x * across, y * down, min((x + size) * across, width), min((y + size) * down, height))
    return image.resize((size, size), Image.Resampling[interpolation.upper()], box)
