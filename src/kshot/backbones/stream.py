"""Decode pictures in threads beside the network's computing, batch by batch, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.photographs import PhotographError, read_photograph, to_rgb
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Batch", "Picture", "array_batches", "picture_batches", "pixels_of"]

Picture: TypeAlias = Union[str, Path, "Image.Image", NDArray[np.uint8]]
Outcome: TypeAlias = NDArray[np.uint8] | PhotographError | FileNotFoundError
Run: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Features (m, p) of some pictures, their rows (m,) among all that were given, and what was skipped among them."""

    features: NDArray[np.float32]
    rows: NDArray[np.int64]
    skipped: tuple[tuple[int, PhotographError], ...] = ()


def picture_batches(
    pictures: Iterable[Picture], run: Run, preprocessing: Preprocessing, *, batch_size: int, workers: int, skip: bool
) -> Iterator[Batch]:
    """Give the features of pictures in their order; a damaged one is skipped and named, or raised."""
    rows: list[int] = []
    pixels: list[NDArray[np.uint8]] = []
    skipped: list[tuple[int, PhotographError]] = []

    def compute() -> Batch:
        features = run(preprocessing.normalise(np.stack(pixels))) if pixels else np.empty((0, 0), np.float32)
        batch = Batch(features, np.array(rows, np.int64), tuple(skipped))
        for collected in (rows, pixels, skipped):
            collected.clear()
        return batch

    # Two batches ahead: one that waits while another is computed, and one in the making.
    for row, outcome in enumerate(_in_threads(pictures, preprocessing, workers=workers, ahead=2 * batch_size)):
        if isinstance(outcome, Exception):
            if not skip:
                raise outcome
            skipped.append((row, outcome if isinstance(outcome, PhotographError) else _gone(outcome)))
        else:
            rows.append(row)
            pixels.append(outcome)
        if len(pixels) == batch_size:
            yield compute()
    if pixels or skipped:
        yield compute()


def array_batches(
    images: NDArray[np.uint8], run: Run, preprocessing: Preprocessing, *, batch_size: int
) -> Iterator[Batch]:
    """Give the features of images that are an array (n, h, w, 3) already."""
    for start in range(0, len(images), batch_size):
        part = images[start : start + batch_size]
        yield Batch(run(preprocessing.apply_batch(part)), np.arange(start, start + len(part)))


def pixels_of(picture: Picture, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Read, turn upright, resize and crop one picture to uint8 (crop, crop, 3)."""
    if isinstance(picture, str | Path):
        return preprocessing.pixels(read_photograph(picture, shorter_side=preprocessing.shorter_side))
    return preprocessing.pixels(to_rgb(_as_image(picture)))


def _in_threads(
    pictures: Iterable[Picture], preprocessing: Preprocessing, *, workers: int, ahead: int
) -> Iterator[Outcome]:
    waiting: deque[Future[Outcome]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="kshot-decode") as pool:
        try:
            for picture in pictures:
                waiting.append(pool.submit(_outcome, picture, preprocessing))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _outcome(picture: Picture, preprocessing: Preprocessing) -> Outcome:
    try:
        return pixels_of(picture, preprocessing)
    except (PhotographError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError):
            error.filename = picture
        return error


def _gone(error: FileNotFoundError) -> PhotographError:
    return PhotographError(error.filename, "it is not there")


def _as_image(picture: Any) -> Image.Image:
    from PIL import Image

    if isinstance(picture, Image.Image):
        try:
            picture.load()
        except Exception as error:
            raise PhotographError(getattr(picture, "filename", "") or "the image", f"damaged: {error}") from None
        return picture
    if isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.size:
        # Grey (h, w), colour (h, w, 3), or colour with transparency (h, w, 4).
        if picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (3, 4)):
            return Image.fromarray(picture)
        raise UserError(f"an image as an array is uint8 of shape (h, w, 3), and not of shape {picture.shape}")
    kind = f"{picture.dtype} array" if isinstance(picture, np.ndarray) else type(picture).__name__
    raise UserError(f"an image is a path, a Pillow image or a uint8 array of shape (h, w, 3), and not a {kind}")
