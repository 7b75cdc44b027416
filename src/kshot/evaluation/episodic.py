"""The episodic methods on the same tasks as all others: by committed predictions, or by torch from the images.

They do not use the features, only which image each row is (`Features.source["images"]`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kshot.datasets import miniimagenet
from kshot.datasets.imageset import ImageSet
from kshot.datasets.locate import locate
from kshot.datasets.splits import open_data
from kshot.datasets.tasks import Tasks
from kshot.errors import MissingExtraError, UserError
from kshot.features import Features
from kshot.training import require_torch
from kshot.training.episodic import METHODS, UNTRAINED
from kshot.training.episodic.model_file import EpisodicModel, bundled

__all__ = ["Episodic", "is_episodic", "kept"]

_NAME = re.compile(rf"({'|'.join([*METHODS, *UNTRAINED])})(-\d+shot)?")


def is_episodic(name: str) -> bool:
    """Say whether a method's name is that of an episodic one.

    >>> is_episodic("protonet"), is_episodic("matching-fce-5shot"), is_episodic("gauss-iso")
    (True, True, False)
    """
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Episodic:
    """An episodic method as a function of (features, tasks), such as `kshot.evaluate` takes.

    Args:
        name: "protonet" takes for each number of shots the model trained at the nearest one; "protonet-1shot" and
            "protonet-5shot" are one model at all numbers of shots (Table 1).
        model: one's own; by default those bundled for the features' data set.
        data: folder of the images, by default the data set's in $KSHOT_DATA; needed where no predictions are kept.

    """

    name: str
    model: EpisodicModel | None = None
    data: str | Path | None = None

    @classmethod
    def load(cls, path: str | Path, *, data: str | Path | None = None) -> Episodic:
        """Read the file that `kshot train --method` wrote; `data` is the folder of the images to predict."""
        model = EpisodicModel.load(path)
        return cls(f"{model.recipe['method']}-{model.recipe['shots']}shot", model, data)

    def __call__(self, features: Features, tasks: Tasks) -> NDArray[np.float64]:
        """Give the probabilities (tasks, queries, ways)."""
        ids = features.source.get("images")
        if not ids or len(ids) != len(features.y):
            raise UserError(
                f"{self.name} looks at the images themselves, and these features do not say which image each row is: "
                "extract them by kshot extract"
            )
        data = str(features.source.get("data", ""))
        model = self.model or bundled(self.name, data, shots=tasks.shots)
        seen = sorted(set(model.names) & set(features.names))
        if seen and model.recipe["method"] not in UNTRAINED:
            raise UserError(f"this {self.name} was trained on the class {seen[0]!r}, which is to be new: train another")
        kept = model.predicted(ids, tasks)
        if kept is not None:
            return kept
        try:
            require_torch()
        except MissingExtraError:
            raise MissingExtraError(f"{self.name} on tasks without kept predictions", "torch", extra="train") from None
        return _predicted(model, _images(data, self.data), ids, tasks)


def kept(name: str, features: Features, tasks: Tasks) -> bool:
    """Say whether a bundled model of that name has its predictions on these very tasks: neither torch nor images."""
    ids = features.source.get("images")
    if not ids:
        return False
    try:
        model = bundled(name, str(features.source.get("data", "")), shots=tasks.shots)
    except UserError:
        return False
    return model.predicted(ids, tasks) is not None


def _predicted(model: EpisodicModel, images: ImageSet, ids: list[str], tasks: Tasks) -> NDArray[np.float64]:
    from kshot.training.episodic.methods import from_model
    from kshot.training.episodic.predict import predict

    place = {name: row for row, name in enumerate(images.ids)}
    missing = next((name for name in ids if name not in place), None)
    if missing is not None:
        raise UserError(f"the image {missing} of the features is not in the folder of the data")
    method, normalisation = from_model(model)
    rows = np.array([place[name] for name in ids])
    return predict(method, images.images[rows], tasks, normalisation=normalisation, size=model.recipe["size"])


@lru_cache(maxsize=1)
def _images(source: str, data: str | Path | None) -> ImageSet:
    """Read the images of the new classes of a data set, or of a folder."""
    name, _, kind = source.partition(" ")
    root = locate(name) if data is None else Path(data)
    if miniimagenet.find(root):
        return miniimagenet.load(root, ("test",))[0]
    split = open_data(root, split="cifar-fs" if kind == "cifar-fs" else "paper")
    return split.base if split.new is None else split.new
