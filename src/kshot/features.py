"""What passes from phase 1 to the rest: features of images, their labels, and the weights of the base classes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot import files
from kshot.errors import FileFormatError, UserError

__all__ = ["Features"]

_BUNDLED = Path(__file__).parent / "assets" / "features"


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """Features of new classes and, where they are known, the base classes that the network was trained on.

    Arrays are checked, converted and copied, so that nobody can write to them; one of the right type that owns its
    memory and is read-only already (`array.setflags(write=False)`) is kept without a copy.

    Arguments:
        X: features of images of the new classes, (n, p), kept as float32. Never with a constant feature 1: for a prior
            with a bias the library appends it.
        y: labels 0, 1, ..., (n,).
        names: the new classes' names; by default "0", "1", ...
        base_weights: the last layer's weights W̃, one row per base class, (C_base, p).
        base_bias: its biases, (C_base,).
        base_names: the base classes' names; by default "0", "1", ...
        base_X: features of test images of base classes, (m, p).
        base_y: their labels, (m,): which row of `base_weights` each belongs to.
        base_groups: a superclass per base class, (C_base,), words or numbers.
        source: where it all comes from, a dictionary of JSON values: backbone, data set, which image each row is.

    Example:
        >>> features = Features([[0.0, 1.0], [1.0, 0.0]], [0, 1], names=["cat", "dog"], base_weights=np.eye(3, 2))
        >>> features
        Features(2 examples of 2 classes, 2 features, 3 base classes)
        >>> features.names, features.base_names, features.X.dtype
        (('cat', 'dog'), ('0', '1', '2'), dtype('float32'))
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    names: tuple[str, ...]
    base_weights: NDArray[np.float64] | None
    base_bias: NDArray[np.float64] | None
    base_names: tuple[str, ...] | None
    base_X: NDArray[np.float32] | None  # noqa: N815
    base_y: NDArray[np.int64] | None
    base_groups: tuple[str | int, ...] | None
    source: dict[str, Any] = field(default_factory=dict)

    _KIND: ClassVar[str] = "features"
    _FORMAT: ClassVar[int] = 1

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        names: Sequence[str] | None = None,
        base_weights: ArrayLike | None = None,
        base_bias: ArrayLike | None = None,
        base_names: Sequence[str] | None = None,
        base_X: ArrayLike | None = None,
        base_y: ArrayLike | None = None,
        base_groups: Sequence[str | int] | NDArray[Any] | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        X = _numbers(X, "X", ndim=2, dtype=np.float32)
        y = _labels(y, "y", count=len(X), below=None if names is None else len(names))
        values: dict[str, Any] = {"X": X, "y": y, "names": _names(names, "names", count=int(y.max()) + 1, exact=False)}
        values |= {"base_weights": None, "base_bias": None, "base_names": None}
        values |= {"base_X": None, "base_y": None, "base_groups": None}
        width = X.shape[1]
        base_count = None
        if base_weights is not None:
            values["base_weights"] = _numbers(base_weights, "base_weights", ndim=2, dtype=np.float64, width=width)
            base_count = len(values["base_weights"])
        elif base_names is not None:
            base_count = len(base_names)
        if base_bias is not None:
            _needs(base_weights, "base_bias", "base_weights")
            values["base_bias"] = _numbers(base_bias, "base_bias", ndim=1, dtype=np.float64, count=base_count)
        if base_count is not None:
            values["base_names"] = _names(base_names, "base_names", count=base_count)
        if (base_X is None) != (base_y is None):
            raise UserError("base_X and base_y belong together: give both or neither")
        if base_X is not None and base_y is not None:
            values["base_X"] = _numbers(base_X, "base_X", ndim=2, dtype=np.float32, width=width)
            values["base_y"] = _labels(base_y, "base_y", count=len(values["base_X"]), below=base_count)
        if base_groups is not None:
            _needs(base_count, "base_groups", "base_weights")
            values["base_groups"] = _groups(base_groups, count=base_count)
        values["source"] = _json_values(source)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def backbone(self) -> str:
        """The name of the network that the features come from; empty where `source` does not say."""
        given = self.source.get("backbone", "")
        return str(given.get("name", "") if isinstance(given, dict) else given)

    def save(self, path: str | Path, *, dtype: Literal["float32", "float16"] = "float32") -> None:
        """Write everything to `path`; with "float16" the features take half the space and keep three digits."""
        if dtype not in ("float32", "float16"):
            raise UserError(f"dtype must be float32 or float16, and it is {dtype!r}")
        arrays: dict[str, NDArray[Any]] = {"source": _packed(self.source), "y": self.y.astype(np.int32)}
        for name, features in (("X", self.X), ("base_X", self.base_X)):
            if features is not None:
                arrays[name] = _stored(features, name, dtype)
        for name, weights in (("base_weights", self.base_weights), ("base_bias", self.base_bias)):
            if weights is not None:  # a network's weights are float32: stored so where nothing is lost
                single = weights.astype(np.float32)
                arrays[name] = single if np.array_equal(single, weights) else weights
        if self.base_y is not None:
            arrays["base_y"] = self.base_y.astype(np.int32)
        metadata = {"names": self.names, "base_names": self.base_names, "base_groups": self.base_groups}
        files.write(path, arrays, kind=self._KIND, version=self._FORMAT, metadata=metadata)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Features:
        """Read bundled features by their name, or the file that `save` wrote."""
        bundled = {path.stem: path for path in sorted(_BUNDLED.glob("*.safetensors"))}
        path = bundled.get(str(name_or_path), Path(name_or_path))
        if not path.is_file():
            known = f"the bundled features are {', '.join(bundled)}" if bundled else "no features are bundled"
            raise FileNotFoundError(f"there is no features file {name_or_path}, and {known}")
        arrays, header = files.read(path, kind=cls._KIND, version=cls._FORMAT)
        for (
            array
        ) in arrays.values():  # nobody else has them, and a copy of all features would cost as much memory again
            array.setflags(write=False)
        try:
            arguments = {name: header[name] for name in ("names", "base_names", "base_groups")}
            arguments |= {"source": _unpacked(arrays.pop("source")), **arrays}
            unknown = arguments.keys() - {each.name for each in fields(cls)}
            return cls(**{name: value for name, value in arguments.items() if name not in unknown})
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None

    def __repr__(self) -> str:
        parts = [f"{len(self.X)} examples of {len(self.names)} classes", f"{self.X.shape[1]} features"]
        if self.base_names is not None:
            bias = " with a bias" if self.base_bias is not None else ""
            parts.append(f"{len(self.base_names)} base classes{bias}")
        if self.base_X is not None:
            parts.append(f"{len(self.base_X)} examples of base classes")
        return f"Features({', '.join(parts)})"


def _numbers(
    values: ArrayLike, name: str, *, ndim: int, dtype: Any, width: int | None = None, count: int | None = None
) -> NDArray[Any]:
    """Give `values` as a read-only array of `dtype`, of the asked shape and finite, that nobody else writes to."""
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 is reported below, as an infinity
            array = values if _is_frozen(values, dtype) else np.array(values, dtype=dtype)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be an array of numbers with {ndim} dimension(s)") from None
    if array.ndim != ndim or not array.size:
        raise UserError(f"{name} must have {ndim} dimension(s) and not be empty, and its shape is {array.shape}")
    if width is not None and array.shape[1] != width:
        raise UserError(f"{name} has {array.shape[1]} columns, and X has {width}: they must come from one network")
    if count is not None and len(array) != count:
        raise UserError(f"{name} must have {count} entries, one per row of base_weights, and it has {len(array)}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise UserError(f"{name} holds a NaN or an infinity in row {row}: leave such rows out")
    array.setflags(write=False)
    return array


def _is_frozen(values: ArrayLike, dtype: Any) -> TypeGuard[NDArray[Any]]:
    """Say whether `values` is an array that cannot change: read-only, and no view of one that is not."""
    return type(values) is np.ndarray and values.dtype == dtype and values.base is None and not values.flags.writeable


def _labels(values: ArrayLike, name: str, *, count: int, below: int | None) -> NDArray[np.int64]:
    """Give labels 0, 1, ... as a read-only int64 array."""
    array = np.asarray(values)
    remedy = f"names, {name} = np.unique({name}, return_inverse=True) makes them from any labels"
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not (array == np.floor(array)).all():
        raise UserError(f"{name} must be a vector of whole numbers 0, 1, ...; {remedy}")
    if len(array) != count:
        raise UserError(f"{name} must have one label per row of {name[:-1]}X, {count} of them, and it has {len(array)}")
    if array.min() < 0 or (below is not None and array.max() >= below):
        limit = "" if below is None else f" and below {below}, the number of classes"
        raise UserError(f"{name} must hold labels from 0 up{limit}, and they go from {array.min()} to {array.max()}")
    labels = array.astype(np.int64)
    labels.setflags(write=False)
    return labels


def _names(values: Sequence[str] | None, name: str, *, count: int, exact: bool = True) -> tuple[str, ...]:
    """Give a tuple of distinct names, of `count` (or, unless `exact`, at least so many) classes."""
    names = tuple(str(value) for value in (range(count) if values is None else values))
    if len(names) < count or (exact and len(names) != count):
        raise UserError(f"{name} must have one name per class, {count} of them, and it has {len(names)}")
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise UserError(f"{name} holds {twice!r} twice: give each class a name of its own")
    return names


def _groups(values: Sequence[str | int] | NDArray[Any], *, count: int | None) -> tuple[str | int, ...]:
    groups = tuple(np.asarray(values).tolist())
    if len(groups) != count or not all(isinstance(group, str | int) for group in groups):
        raise UserError(
            f"base_groups must have one superclass, a word or a whole number, per base class, {count} of them, and it "
            f"has {len(groups)}"
        )
    return groups


def _needs(other: object, name: str, needed: str) -> None:
    if other is None:
        raise UserError(f"{name} needs {needed}: give both or neither")


def _json_values(source: dict[str, Any] | None) -> dict[str, Any]:
    """Copy `source` as JSON would keep it; NumPy's arrays and numbers become lists and numbers."""
    try:
        plain = json.loads(json.dumps(source or {}, default=lambda value: value.tolist()))
    except (TypeError, ValueError, AttributeError):
        raise UserError("source must be a dictionary of JSON values: words, numbers, lists and dictionaries") from None
    if not isinstance(plain, dict):
        raise UserError(f"source must be a dictionary, and it is a {type(source).__name__}")
    return plain


def _stored(features: NDArray[np.float32], name: str, dtype: str) -> NDArray[Any]:
    largest = float(np.abs(features).max())
    if dtype == "float16" and largest > float(np.finfo(np.float16).max):
        raise UserError(f"{name} goes up to {largest:.3g}, too large for float16: save with dtype='float32'")
    return features.astype(dtype)


def _packed(source: dict[str, Any]) -> NDArray[np.uint8]:
    """Give the dictionary as compressed bytes: the ids of all images are long in a header, and much alike."""
    return np.frombuffer(zlib.compress(json.dumps(source).encode(), 9), dtype=np.uint8)


def _unpacked(packed: NDArray[np.uint8]) -> dict[str, Any]:
    source: dict[str, Any] = json.loads(zlib.decompress(packed.tobytes()))
    return source
