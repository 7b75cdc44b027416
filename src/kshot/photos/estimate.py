"""How good a model will be, from its examples alone: each is judged by a model that had not seen it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "wilson"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What left-out examples say.

    Arguments:
        confusion: photographs of class a (row) for which b was most probable, (C, C + 1), something else last.
        judged, right: photographs; right is the diagonal.
        low, high: between which the share of right ones likely lies (95 %, Wilson).
        log_likelihood: mean of ln p(true class), per photograph.
        unsure: photographs for which nothing reached the threshold, or too much doubt stood beside a class.
        alike: for each pair of classes the probability that their photographs gave to the other, summed, (C, C).
    """

    confusion: NDArray[np.int64]
    judged: int
    right: int
    low: float
    high: float
    log_likelihood: float
    unsure: int
    alike: Floats

    @classmethod
    def of(
        cls, left_out: NDArray[np.floating], labels: NDArray[np.int64], *, threshold: float, doubt: float = 1.0
    ) -> Estimate:
        """Sum up probabilities of left-out examples, (n, C + 1) or empty; threshold and doubt as in `answers`."""
        if not left_out.size:  # none was left out, so none was judged
            left_out = np.full((len(labels), int(labels.max()) + 2), np.nan)
        ways = left_out.shape[1] - 1
        known = np.isfinite(left_out).all(axis=1)
        proba, labels = left_out[known].astype(np.float64), labels[known]
        confusion = np.zeros((ways, ways + 1), np.int64)
        np.add.at(confusion, (labels, proba.argmax(axis=1)), 1)
        given = np.zeros((ways, ways))
        np.add.at(given, labels, proba[:, :ways])
        alike = given + given.T
        np.fill_diagonal(alike, 0.0)
        right, judged = int(np.trace(confusion[:, :ways])), len(labels)
        own = proba[np.arange(judged), labels]
        likelihood = float(np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean()) if judged else math.nan
        own_class = proba.argmax(axis=1) < ways
        unsure = int(((proba.max(axis=1) < threshold) | (own_class & (proba[:, -1] > doubt))).sum())
        return cls(confusion, judged, right, *wilson(right, judged), likelihood, unsure, alike)

    def most_alike(self) -> tuple[int, int, int] | None:
        """Give the two classes that are told apart worst, and how many photographs were confused; None for one class.

        By the probability that their photographs gave to the other, so that it has an answer when none was confused.
        """
        if len(self.alike) < 2 or not self.judged:
            return None
        a, b = np.unravel_index(int(self.alike.argmax()), self.alike.shape)
        return int(a), int(b), int(self.confusion[a, b] + self.confusion[b, a])


def wilson(right: int, judged: int, *, z: float = 1.959963984540054) -> tuple[float, float]:
    """Give Wilson's interval for a share of `right` in `judged`.

    >>> [round(end, 3) for end in wilson(22, 24)]
    [0.742, 0.977]
    """
    if judged == 0:
        return 0.0, 1.0
    share, square = right / judged, z * z / judged
    centre = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / judged + square / (4 * judged)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)
