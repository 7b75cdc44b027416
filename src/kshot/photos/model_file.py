"""The file of a model: safetensors with JSON metadata, checked as if a stranger had written it."""

from __future__ import annotations

import errno
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.concepts.normalisation import Normalisation
from kshot.errors import FileFormatError, UserError
from kshot.photos.examples import Examples
from kshot.photos.model import BackboneRecord, Head, PhotoModel

__all__ = ["KIND", "VERSION", "read_model", "write_model"]

KIND = "photos"
VERSION = 1
_HEADS = ("closed", "joint")
_NUMBERS = ("temperature", "scale", "old_factor", "old_shift")


def write_model(path: str | Path, model: PhotoModel) -> None:
    """Write a model, atomically: a kill or a full disk at any moment leaves the old file whole."""
    examples = model.examples
    arrays: files.Arrays = {"features": examples.X, "labels": examples.labels, "left_out": model.left_out}
    heads: dict[str, Any] = {}
    for name in _HEADS:
        head = getattr(model, name)
        if head is not None:
            arrays |= {f"{name}_weights": head.weights, f"{name}_bias": head.bias}
            heads[name] = {key: getattr(head, key) for key in _NUMBERS}
    if model.normalisation is not None:
        arrays["centre"] = model.normalisation.centre
    metadata = {
        "classes": examples.classes,
        "files": examples.files,
        "digests": examples.digests,
        "backbone": vars(model.backbone),
        "heads": heads,
        "set_aside": model.set_aside,
        "threshold": model.threshold,
        "doubt": model.doubt,
        "length": None if model.normalisation is None else model.normalisation.length,
        "folds": model.folds,
        "calibration": model.calibration,
    }
    try:
        files.write(path, arrays, kind=KIND, version=VERSION, metadata=metadata)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(f"there is no space left for {path}: make some and try again") from None
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def read_model(path: str | Path) -> PhotoModel:
    """Read what `write_model` wrote, and refuse what it cannot have written."""
    arrays, header = files.read(path, kind=KIND, version=VERSION)
    try:
        return _model(arrays, header)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path} is damaged, or not a model of kshot ({what})") from None


def _model(arrays: files.Arrays, header: dict[str, Any]) -> PhotoModel:
    classes = _strings(header["classes"], "classes")
    if not classes or list(classes) != sorted(set(classes)) or "" in classes:
        raise ValueError("its class names are not sorted, single and whole")
    X = _array(arrays["features"], np.float32, (None, None))
    n, p = X.shape
    labels = _array(arrays["labels"], np.int64, (n,))
    if set(labels.tolist()) != set(range(len(classes))):
        raise ValueError("its labels do not fit its classes")
    examples = Examples(
        X, labels, classes, _strings(header["files"], "files", n), _strings(header["digests"], "digests", n)
    )
    closed, joint = (_head(name, arrays, header["heads"], (len(classes), p)) for name in _HEADS)
    if closed is None and joint is None:
        raise ValueError("it has learned no weights")
    left_out = arrays["left_out"]
    if left_out.size:
        left_out = _array(left_out, np.float32, (n, len(classes) + 1), finite=False)
    else:
        left_out = np.empty((0, 0), np.float32)
    return PhotoModel(
        examples,
        _backbone(header["backbone"]),
        closed,
        joint,
        tuple((int(row), str(name)) for row, name in header["set_aside"]),
        _number(header["threshold"], "threshold"),
        _number(header["doubt"], "doubt"),
        left_out,
        int(header["folds"]),
        dict(header["calibration"]),
        None if header["length"] is None else _normalisation(arrays["centre"], header["length"], p),
    )


def _head(name: str, arrays: files.Arrays, heads: dict[str, Any], shape: tuple[int, int]) -> Head | None:
    if name not in heads:
        return None
    numbers = {what: _number(heads[name][what], what) for what in _NUMBERS}
    if numbers["temperature"] <= 0:
        raise ValueError("a temperature in it is not positive")
    weights = _array(arrays[f"{name}_weights"], np.float32, shape)
    return Head(weights, _array(arrays[f"{name}_bias"], np.float32, shape[:1]), **numbers)


def _normalisation(centre: NDArray[Any], length: Any, p: int) -> Normalisation:
    return Normalisation(_array(centre, np.float32, (p,)), _number(length, "length"))


def _backbone(record: dict[str, Any]) -> BackboneRecord:
    name, content, source = _strings([record["name"], record["hash"], record["source"]], "backbone")
    preprocessing = record["preprocessing"]
    return BackboneRecord(name, content, source, None if preprocessing is None else dict(preprocessing))


def _array(array: NDArray[Any], dtype: type, shape: tuple[int | None, ...], *, finite: bool = True) -> NDArray[Any]:
    fits = array.ndim == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if array.dtype != dtype or not fits or not array.size:
        raise ValueError(f"an array in it is {array.dtype} {array.shape}")
    if finite and not np.isfinite(array).all():
        raise ValueError("a number in it is not finite")
    return array


def _strings(values: Sequence[Any], what: str, count: int | None = None) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"its {what} are not names")
    if count is not None and len(values) != count:
        raise ValueError(f"its {what} are {len(values)}, and its examples {count}")
    return tuple(values)


def _number(value: Any, what: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"its {what} is not a finite number")
    return number
