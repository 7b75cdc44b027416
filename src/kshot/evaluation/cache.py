"""Finished predictions in files, so that an evaluation that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.datasets.tasks import Tasks
from kshot.errors import FileFormatError, UserError
from kshot.features import Features

__all__ = ["Cache", "identity"]

# the code that predictions depend on
_ROOMS = ("assets/calibrations", "assets/episodic", "concepts", "inference", "evaluation", "training/episodic")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "blackjax")


class Cache:
    """A folder of predictions, a file for each method, tasks and features.

    A file is written whole or not at all. Its name and its header carry a digest of all that the predictions depend
    on: features, tasks, method, seed, and the code (kshot's version and source, and the versions of NumPy, SciPy,
    scikit-learn, JAX and blackjax). What differs in any of them is computed anew.

    Args:
        folder: made if it is not there.
        features: what the tasks are drawn from.
        seed: of methods that draw.

    """

    _KIND, _FORMAT = "predictions", 1

    def __init__(self, folder: Path, features: Features, *, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._features, self._seed = folder, features, seed

    def get(self, method: Any, name: str, tasks: Tasks) -> tuple[NDArray[Any], float] | None:
        """Give a method's predictions and the seconds they took, or None if they are not here."""
        path, digest = self._place(method, name, tasks)
        if path is None or not path.is_file():
            return None
        arrays, header = files.read(path, kind=self._KIND, version=self._FORMAT)
        if header.get("digest") != digest or "predictions" not in arrays:
            raise FileFormatError(f"{path} holds predictions of something else than its name says: delete it")
        return arrays["predictions"], float(header["seconds"])

    def put(self, method: Any, name: str, tasks: Tasks, predictions: NDArray[Any], seconds: float) -> None:
        """Keep a method's predictions, unless nothing identifies the method."""
        path, digest = self._place(method, name, tasks)
        if path is not None:
            header = {"digest": digest, "method": name, "seconds": seconds}
            files.write(path, {"predictions": predictions}, kind=self._KIND, version=self._FORMAT, metadata=header)

    def _place(self, method: Any, name: str, tasks: Tasks) -> tuple[Path | None, str]:
        known = identity(method)
        if known is None:
            return None, ""
        key = [known, self._seed, self._features_digest, _digest(vars(tasks)), _code()]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        plain = re.sub(r"[^A-Za-z0-9.=]+", "-", name)
        return self._folder / f"{plain}-{tasks.shots}-shot-{digest[:16]}.safetensors", digest

    @cached_property
    def _features_digest(self) -> str:
        return _digest(vars(self._features))


def identity(method: Any) -> str | None:
    """Give words that identify a method wherever it is run, or None where there are none.

    A name identifies itself; one of scikit-learn's own classifiers is its class with its parameters, if these are plain
    values; one of this library's priors is its class with its arrays. A user's own class is not identified: its code
    may change between two runs.

    >>> identity("gauss-iso")
    'gauss-iso'
    """
    if isinstance(method, str):
        return method
    kind = method if isinstance(method, type) else type(method)
    where = f"{kind.__module__}.{kind.__qualname__}"
    if where.startswith("kshot."):
        if isinstance(method, type):
            return where
        if hasattr(method, "parameters"):
            try:
                return f"{where} {_digest({'bias': method.has_bias, **method.parameters()})}"
            except UserError:  # a calibrated prior of the user's own
                return None
        return f"{where} {method!r}" if hasattr(method, "name") else None
    if where.startswith("sklearn.") and not isinstance(method, type) and _is_plain(method.get_params()):
        return f"{where} {sorted(method.get_params().items())!r}"
    return None


def _is_plain(parameters: dict[str, Any]) -> bool:
    return all(isinstance(value, str | int | float | None) for value in parameters.values())


def _digest(parts: dict[str, Any]) -> str:
    """Digest arrays with their names, types and shapes, and JSON values."""
    digest = hashlib.sha256()
    for name, value in sorted(parts.items()):
        array = isinstance(value, np.ndarray)
        header = [name, str(value.dtype), value.shape] if array else [name, value]
        digest.update(json.dumps(header, sort_keys=True, default=str).encode())
        if array:
            digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


@cache
def _code() -> str:
    """Digest the versions of what computes, and the source: a development version keeps its number as it changes."""
    from kshot import __version__

    digest = hashlib.sha256(__version__.encode())
    root = Path(__file__).parent.parent
    for path in sorted(
        path for room in _ROOMS for path in (root / room).rglob("*.*") if "__pycache__" not in path.parts
    ):
        digest.update(path.name.encode() + path.read_bytes())
    for package in _PACKAGES:
        try:
            digest.update(metadata.version(package).encode())
        except metadata.PackageNotFoundError:
            digest.update(b"absent")
    return digest.hexdigest()
