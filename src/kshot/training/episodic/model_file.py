"""The file of a trained episodic method: its weights, what made them, and its predictions on stated tasks."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.datasets.tasks import Tasks
from kshot.errors import FileFormatError, UserError

__all__ = ["EpisodicModel", "bundled", "task_digest"]

_BUNDLED = Path(__file__).parents[2] / "assets" / "episodic"
_KIND, _FORMAT = "episodic model", 1


@dataclass(frozen=True, eq=False)
class EpisodicModel:
    """A trained episodic method.

    Args:
        recipe: the recipe as plain data: method, network, ways, shots and the rest.
        names: the base classes it was trained on.
        mean, std: normalisation of its images, on 0..255.
        weights: its parameters and buffers by name.
        data: the data set and split it was trained on, as `Features.source["data"]` names it.
        provenance: seed, epochs, seconds, command.
        predictions: probabilities (tasks, queries, ways) on tasks, by `task_digest`.

    """

    recipe: dict[str, Any]
    names: tuple[str, ...]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    weights: Mapping[str, NDArray[Any]]
    data: str
    provenance: dict[str, Any] = field(default_factory=dict)
    predictions: Mapping[str, NDArray[np.float16]] = field(default_factory=dict)

    @property
    def images_seen(self) -> int:
        """How many images it was trained on, each counted as often as it was seen."""
        recipe = self.recipe
        per_episode = recipe["ways"] * (recipe["shots"] + recipe["queries"])
        return int(self.provenance["epochs"] * recipe["episodes"] * recipe["batch"] * per_episode)

    def with_predictions(self, ids: Sequence[str], tasks: Tasks, proba: NDArray[np.float64]) -> EpisodicModel:
        """Add the predictions on these tasks, kept as float16."""
        return replace(self, predictions={**self.predictions, task_digest(ids, tasks): proba.astype(np.float16)})

    def predicted(self, ids: Sequence[str], tasks: Tasks) -> NDArray[np.float64] | None:
        """Give the kept predictions on these very tasks, normalised again, or None if there are none.

        Args:
            ids: the image of each row that tasks refer to.
            tasks: what to predict.

        """
        kept = self.predictions.get(task_digest(ids, tasks))
        if kept is None:
            return None
        wide = kept.astype(np.float64)
        normalised: NDArray[np.float64] = wide / wide.sum(axis=2, keepdims=True)
        return normalised

    def save(self, path: str | Path, *, dtype: Literal["float16", "float32"] = "float32") -> None:
        """Write everything to `path`; with "float16" the weights take half the space and keep three digits."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, weight in self.weights.items():
            arrays[f"weights/{name}"] = weight.astype(dtype) if weight.dtype.kind == "f" else weight
        for digest, proba in self.predictions.items():
            arrays[f"predictions/{digest}"] = _packed(proba)
        metadata = {
            "recipe": self.recipe,
            "names": self.names,
            "mean": self.mean,
            "std": self.std,
            "data": self.data,
            "provenance": self.provenance,
            "shapes": {digest: proba.shape for digest, proba in self.predictions.items()},
        }
        files.write(path, arrays, kind=_KIND, version=_FORMAT, metadata=metadata)

    @classmethod
    def load(cls, path: str | Path) -> EpisodicModel:
        """Read the file that `save` wrote; weights come as float32."""
        arrays, header = files.read(path, kind=_KIND, version=_FORMAT)
        try:
            weights = {
                name.removeprefix("weights/"): array.astype(np.float32) if array.dtype.kind == "f" else array
                for name, array in arrays.items()
                if name.startswith("weights/")
            }
            predictions = {
                digest: _unpacked(arrays[f"predictions/{digest}"], shape) for digest, shape in header["shapes"].items()
            }
            return cls(
                recipe=header["recipe"],
                names=tuple(header["names"]),
                mean=tuple(header["mean"]),
                std=tuple(header["std"]),
                weights=weights,
                data=header["data"],
                provenance=header["provenance"],
                predictions=predictions,
            )
        except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None


def bundled(method: str, data: str, *, shots: int) -> EpisodicModel:
    """Read the bundled model of a method on a data set, trained at the number of shots nearest to `shots`.

    Args:
        method: such as "protonet", or with the shots it was trained at: "protonet-5shot".
        data: as `Features.source["data"]` has it: "cifar100 paper".
        shots: of the tasks to predict.

    """
    place = data.split()[0] if data else ""
    base, _, only = method.rpartition("-") if method.endswith("shot") else (method, "", "")
    found = {}
    for path in sorted(_BUNDLED.glob(f"{base}-{place}*.safetensors")):
        trained = path.stem.removeprefix(f"{base}-{place}").removeprefix("-")
        if trained.endswith("shot") or not trained:
            found[trained] = path
    if only:
        found = {trained: path for trained, path in found.items() if trained == only}
    if not found:
        raise UserError(
            f"no {method} trained on {data or 'these images'} is bundled: train one by kshot train --method {base}, "
            "and give kshot.evaluation.episodic.Episodic.load(FILE) as the method"
        )
    # Nearest in ratio, the fewer shots where two are equally near.
    nearest = min(found, key=lambda trained: abs(np.log(int(trained.removesuffix("shot") or 1) / shots)))
    return _load(found[nearest])


@lru_cache(maxsize=32)
def _load(path: Path) -> EpisodicModel:
    """Read a bundled model once: a report asks for its predictions and for what it cost to train."""
    return EpisodicModel.load(path)


def task_digest(ids: Sequence[str], tasks: Tasks) -> str:
    """Give a name of these very tasks: which images are examples and queries of which class, whatever the features."""
    hashed = hashlib.sha256(f"{tasks.ways} ways".encode())
    for rows in (tasks.support, tasks.query):
        hashed.update("\n".join(ids[row] for row in rows.ravel().tolist()).encode())
    return hashed.hexdigest()[:32]


def _packed(proba: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Compress, with high and low bytes apart: the high ones are much alike."""
    planes = np.ascontiguousarray(proba).view(np.uint8).reshape(-1, 2).T
    return np.frombuffer(zlib.compress(planes.tobytes(), 9), np.uint8)


def _unpacked(packed: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[np.float16]:
    planes = np.frombuffer(zlib.decompress(packed.tobytes()), np.uint8).reshape(2, -1)
    return np.ascontiguousarray(planes.T).view(np.float16).reshape(shape)
