"""CIFAR-100 from its standard files, read without trusting them: they are pickles, and a pickle may run any code.

The unpickler here allows nothing but arrays, strings and numbers.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from kshot.datasets.imageset import ImageSet
from kshot.errors import FileFormatError

__all__ = ["find", "load"]

SIDE = 32
# What NumPy's arrays need to be rebuilt, under the names of old and new NumPy versions.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-100 file needs")
        if name == "_reconstruct":
            module = "numpy._core.multiarray"
        return super().find_class(module, name)


def find(root: Path) -> Path | None:
    """Give the folder with CIFAR-100's files `train`, `test` and `meta`: `root` or the one inside it, else None."""
    for folder in (root, root / "cifar-100-python"):
        if all((folder / part).is_file() for part in ("train", "test", "meta")):
            return folder
    return None


def load(root: str | Path) -> tuple[ImageSet, ImageSet]:
    """Read the 50,000 training and the 10,000 test images, with the 100 fine classes.

    An image's id is its part and row, such as `train/41207`.
    """
    folder = find(Path(root))
    if folder is None:
        raise FileNotFoundError(f"there are no CIFAR-100 files (train, test, meta) in {root}")
    (names,) = _unpickle(folder / "meta", "fine_label_names")
    names = tuple(names)
    return _part(folder, "train", names), _part(folder, "test", names)


def _part(folder: Path, part: str, names: tuple[str, ...]) -> ImageSet:
    path = folder / part
    pixels, fine_labels = _unpickle(path, "data", "fine_labels")
    labels = np.asarray(fine_labels, np.int64)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3 * SIDE * SIDE):
        raise FileFormatError(f"{path} is not a CIFAR-100 file: its data are not {len(labels)} rows of 3×32×32 bytes")
    # Stored channel first; channel last is what Pillow, ONNX preprocessing and torch's channels_last want.
    images = np.ascontiguousarray(pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
    return ImageSet(images, labels, names, tuple(f"{part}/{row}" for row in range(len(labels))))


def _unpickle(path: Path, *keys: str) -> list[Any]:
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        return [content[key] for key in keys]
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise FileFormatError(f"{path} is not a CIFAR-100 file, or it is damaged: {error}") from None
