"""Read any photograph safely: every kind that cameras, phones and browsers write, and a plain reason for the rest."""

from __future__ import annotations

import importlib
import io
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from kshot.datasets.budget import Budget
from kshot.datasets.cropping import shorter_side_crop
from kshot.errors import UserError

if TYPE_CHECKING:
    from PIL import Image
    from PIL.ImageFile import ImageFile

__all__ = ["MAX_JPEG_PIXELS", "MAX_PIXELS", "PhotographError", "read_photograph", "shorter_side_crop", "to_rgb"]

MAX_PIXELS = 100_000_000
"""Pixels that may be held decoded; fewer of the kinds that cost the most."""
MAX_JPEG_PIXELS = 400_000_000
"""Pixels of a JPEG file whose decoder can shrink it on the way, so that `MAX_PIXELS` holds for what comes out."""

# Kinds of file in the order of their likelihood, with the Pillow module that reads each: imported only when reached,
# and no others, because a few of Pillow's readers start other programs (EPS) or are too rarely used to be trusted.
_KINDS = {
    "JPEG": "JpegImagePlugin",
    "PNG": "PngImagePlugin",
    "WEBP": "WebPImagePlugin",
    "GIF": "GifImagePlugin",
    "TIFF": "TiffImagePlugin",
    "BMP": "BmpImagePlugin",
    "AVIF": "AvifImagePlugin",
    "JPEG2000": "Jpeg2KImagePlugin",
    "PPM": "PpmImagePlugin",
}
# What decoding takes at its peak, bytes per pixel, measured with Pillow 13; of all kinds not named here, with
# transparency taken out, about nine. Large pictures wait for each other: any number of threads stays below 1 GB.
_BYTES_PER_PIXEL = {"WEBP": 16, "JPEG2000": 25, "I": 16, "F": 16}
_MEMORY = Budget(1_000_000_000)
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
_NO_HEIF = 'HEIC from a telephone: pip install "kshot[heic]"'
_EARLY_END = ("truncated", "not enough", "unexpected end", "premature", "eof", "too few bytes", "buffer is not large")
_ORIENTATION = 0x0112  # the EXIF tag, 1 to 8


class PhotographError(UserError):
    """A file that is no photograph, or a damaged or oversized one; `reason` says which in a few words.

    >>> raise PhotographError("IMG_0412.jpg", "damaged: ends too early")
    Traceback (most recent call last):
        ...
    kshot.datasets.photographs.PhotographError: IMG_0412.jpg cannot be used: damaged: ends too early
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        # Both go to args, so that the error survives the way back from another process.
        super().__init__(str(path), reason)
        self.path = Path(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be used: {self.reason}"


def read_photograph(path: str | Path | IO[bytes], *, shorter_side: int | None = None) -> Image.Image:
    """Read a photograph upright, in 8-bit RGB; of an animation the first frame, transparency laid on white.

    Args:
        path: a file, or an open one (then called "photograph" in messages).
        shorter_side: the number of pixels that will be needed along the shorter side. A JPEG is then decoded at a
            half, a quarter or an eighth of its size where that leaves twice as many: far faster for 12 megapixels.

    Raises `PhotographError` for what is not a readable photograph, `FileNotFoundError` for what is not there.

    """
    if isinstance(path, str | Path):
        name = Path(path)
        try:
            # A pipe of that name would be waited for without end, and a device has no end.
            if not stat.S_ISREG(name.stat().st_mode) and not name.is_dir():
                raise PhotographError(name, "not a file")
            opened: IO[bytes] = name.open("rb")
        except PhotographError:  # a ValueError, as the last of these
            raise
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {name}") from None
        except IsADirectoryError:
            raise PhotographError(name, "a folder, not an image") from None
        except OSError as error:
            raise PhotographError(name, f"it cannot be opened ({error.strerror})") from None
        except ValueError as error:  # a zero byte in the name
            raise PhotographError(name, f"it cannot be opened ({error})") from None
        with opened:
            return _read(opened, name, shorter_side)
    return _read(path, Path(getattr(path, "name", "photograph")), shorter_side)


def to_rgb(image: Image.Image) -> Image.Image:
    """Turn a picture of any Pillow mode into upright 8-bit RGB.

    Grey levels of 16 bits keep their upper eight; floating-point ones are taken as 0..1, or as 0..255 where they go
    beyond 1, or stretched to 0..255 where they go beyond that. Transparent parts become white. Colour profiles are
    not applied: networks are trained without.
    """
    from PIL import Image

    image = _upright(image)
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.mode in ("P", "RGB", "L", "1") and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("LA", "PA", "La", "RGBa"):
        image = image.convert("RGBA")
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image)
        return white
    return image if image.mode == "RGB" else image.convert("RGB")


def _read(opened: IO[bytes], name: Path, shorter_side: int | None) -> Image.Image:
    kind, reader = _identify(opened, name)
    try:
        image = reader(opened, "")
        _check_size(image, kind, name)
        stated = image.width * image.height
        if kind == "JPEG":
            _shrink_while_decoding(image, shorter_side)
        # A progressive JPEG's coefficients are held at full size, the others' pixels at the size that comes out.
        pixels = stated if "progressive" in image.info else image.width * image.height
        with _MEMORY.take(pixels * _cost(image, kind)):
            image.load()
            return to_rgb(image)
    except PhotographError:
        raise
    except MemoryError:
        raise PhotographError(name, "too large for this computer's memory") from None
    # Pillow's readers raise a dozen kinds of exception for damaged files: at this one place all mean the same.
    except Exception as error:
        text = str(error)
        if isinstance(error, EOFError | IndexError) or any(word in text.lower() for word in _EARLY_END):
            raise PhotographError(name, "damaged: ends too early") from None
        raise PhotographError(name, f"damaged: {text or type(error).__name__}") from None


def _identify(opened: IO[bytes], name: Path) -> tuple[str, Callable[[IO[bytes], str], ImageFile]]:
    """Tell the kind of file from its first bytes, never from its name."""
    from PIL import Image

    start = opened.read(64)
    opened.seek(0, io.SEEK_SET)
    if not start:
        raise PhotographError(name, "an empty file")
    # AVIF files come in the same box as HEIC, and some name only the box: then what it is compatible with tells.
    if start[4:8] == b"ftyp" and start[8:12] in _HEIF_BRANDS and b"avif" not in start[16:]:
        try:
            importlib.import_module("pillow_heif").register_heif_opener()
        except ImportError:
            raise PhotographError(name, _NO_HEIF) from None
        return "HEIF", Image.OPEN["HEIF"][0]
    for kind, module in _KINDS.items():
        try:
            plugin = importlib.import_module(f"PIL.{module}")
        except ImportError:  # AVIF came to Pillow in 11.3
            continue
        factory, accept = Image.OPEN[kind]
        if accept is not None and accept(start) is True:
            # Not the JPEG factory, which may turn a phone's several pictures in one file into another class.
            return kind, plugin.JpegImageFile if kind == "JPEG" else factory
    raise PhotographError(name, "not an image")


def _check_size(image: Image.Image, kind: str, name: Path) -> None:
    """Refuse a decompression bomb by the size its header states, before a pixel is decoded."""
    width, height = image.size
    # A progressive JPEG is held whole in memory whatever size comes out.
    shrinks = kind == "JPEG" and "progressive" not in image.info
    limit = MAX_JPEG_PIXELS if shrinks else min(MAX_PIXELS, _MEMORY.total // _cost(image, kind))
    if width * height > limit:
        raise PhotographError(
            name, f"too large: {width} × {height} pixels, and at most {limit // 1_000_000} megapixels are read"
        )


def _cost(image: Image.Image, kind: str) -> int:
    """Give the bytes per pixel that decoding takes at its peak, by the kind of file or the kind of pixels."""
    return _BYTES_PER_PIXEL.get(kind) or _BYTES_PER_PIXEL.get(image.mode, 9)


def _shrink_while_decoding(image: Image.Image, shorter_side: int | None) -> None:
    width, height = image.size
    scale = 1
    for larger in (2, 4, 8):
        # Twice as many as needed, so that the filter that follows decides what the picture looks like, not the decoder.
        enough_left = shorter_side is not None and min(width, height) // larger >= 2 * shorter_side
        if enough_left or width * height > MAX_PIXELS * scale**2:
            scale = larger
    image.draft(None, (max(width // scale, 1), max(height // scale, 1)))


def _upright(image: Image.Image) -> Image.Image:
    """Turn and mirror the picture as its EXIF orientation says; a damaged EXIF block says nothing."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        turn = turns.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:
        return image
    if turn is None:
        return image
    turned = image.transpose(turn)
    # Without its EXIF block, or the picture would be turned once more when it is read again.
    turned.info = {key: value for key, value in image.info.items() if key == "transparency"}
    return turned


def _eight_bits(grey: Any) -> Any:
    """Bring grey levels of 16 or 32 bits, or floating-point ones, to 0..255."""
    if grey.dtype.kind == "u" and grey.dtype.itemsize == 2:
        return (grey >> 8).astype(np.uint8)
    finite = np.isfinite(grey)
    known = grey if finite.all() else np.append(grey[finite], np.zeros(1, grey.dtype))
    low, high = float(known.min()), float(known.max())
    if grey.dtype.kind == "f" and low >= 0 and high <= 1:
        shift, scale = 0.0, 255.0
    elif grey.dtype.kind == "i" and low >= 0 and 255 < high <= 65535:
        shift, scale = 0.0, 1 / 257
    elif low < 0 or high > 255:
        shift, scale = low, 255 / max(high - low, 1e-30)
    else:
        shift, scale = 0.0, 1.0
    out = np.empty(grey.shape, np.uint8)
    for row in range(0, len(grey), 256):  # in strips: a hundred megapixels of float32 are not copied five times
        strip = np.where(finite[row : row + 256], grey[row : row + 256], 0.0)
        out[row : row + 256] = np.rint((strip - shift) * scale)
    return out
