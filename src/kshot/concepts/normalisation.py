"""Features of one length about a centre: what a pretrained network's few-shot classes are told apart by best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts.covariance import Floats
from kshot.errors import FileFormatError, UserError

__all__ = ["Normalisation"]


@dataclass(frozen=True, eq=False)
class Normalisation:
    """z = length · (x − centre) / ‖x − centre‖: how far a photograph's features are from the centre says little.

    A weight vector's logit w·z is then a cosine similarity. (Wang et al., SimpleShot, 2019, call it CL2N.)

    Arguments:
        centre: the mean of the features of base images, (p,).
        length: the mean of their distances from it, so that a prior's variance keeps its meaning.

    Example:
        >>> Normalisation([1.0, 0.0], 2.0)([[4.0, 4.0], [1.0, -7.0]])
        array([[ 1.2,  1.6],
               [ 0. , -2. ]])
    """

    centre: NDArray[np.float32]
    length: float

    def __post_init__(self) -> None:
        centre = np.array(self.centre, dtype=np.float32)
        if centre.ndim != 1 or not np.isfinite(centre).all() or not (np.isfinite(self.length) and self.length > 0):
            raise UserError("a normalisation needs a centre of finite numbers and a positive length")
        centre.setflags(write=False)
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "length", float(self.length))

    @classmethod
    def fit(cls, X: ArrayLike, y: ArrayLike) -> Self:
        """Take centre and length from features of base images, (n, p), every class counting the same."""
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        means = np.stack([rows[labels == label].mean(axis=0) for label in np.unique(labels)])
        centre = means.mean(axis=0)
        return cls(centre.astype(np.float32), float(np.linalg.norm(rows - centre, axis=1).mean()))

    def __call__(self, X: ArrayLike) -> Floats:
        """Give the normalised features, (..., p); one that is the centre itself stays there, at zero."""
        away = np.asarray(X, dtype=np.float64) - self.centre
        size = np.linalg.norm(away, axis=-1, keepdims=True)
        away *= self.length / np.where(size > 0, size, 1.0)
        return np.asarray(away)

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON values; nine digits of each number of the centre give the same float32 again."""
        return {"centre": [float(f"{value:.9g}") for value in self.centre], "length": self.length}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild it from what `to_json` gave."""
        try:
            return cls(np.array(values["centre"], dtype=np.float32), float(values["length"]))
        except (KeyError, TypeError, ValueError):
            raise FileFormatError("this is no normalisation: centre or length is missing or no number") from None
