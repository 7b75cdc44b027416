"""The baseline `temperature`: class means with one temperature, fitted on tasks of base classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Calibration
from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.evaluation.calibrated_prior import backbone_name
from kshot.evaluation.profile import Predictions
from kshot.evaluation.simulation import simulate
from kshot.features import Features
from kshot.inference.posterior import softmax

__all__ = ["class_mean_logits", "class_mean_temperature", "fit_class_mean_temperature"]

Floats = NDArray[np.float64]

_FITTED: WeakKeyDictionary[Features, float] = WeakKeyDictionary()


def class_mean_temperature(features: Features, tasks: Tasks) -> Floats:
    """Classify by the nearest class mean; probabilities are softmax(−T ‖x − mean‖²), (tasks, queries, ways).

    T is one number for all tasks, fitted by the log-likelihood of simulated tasks of base classes: that of the bundled
    backbone, else from the features' own `base_X` and `base_y`.
    """
    logits = class_mean_logits(features.X[tasks.support], features.X[tasks.query], tasks.ways)
    return softmax(_temperature(features) * logits)


def class_mean_logits(support: NDArray[Any], query: NDArray[Any], ways: int) -> Floats:
    """Give −‖x − mean‖² but for the ‖x‖² that all classes share, (tasks, m, ways).

    Arguments:
        support: features, (tasks, ways · shots, p), class after class.
        query: features, (tasks, m, p).
        ways: C.
    """
    means = support.astype(np.float64).reshape(len(support), ways, -1, support.shape[2]).mean(axis=2)
    logits: Floats = 2 * query.astype(np.float64) @ means.swapaxes(1, 2) - (means**2).sum(axis=2)[:, None, :]
    return logits


def fit_class_mean_temperature(
    X: NDArray[np.floating[Any]],
    y: NDArray[Any],
    *,
    ways: int = 5,
    shots: Sequence[int] = (1, 5, 10),
    queries: int = 15,
    tasks: int = 400,
    seed: int = 0,
) -> float:
    """Find the T of the highest mean log-likelihood over simulated tasks and all shots; it scales as 1 / ‖x‖²."""
    rounds = simulate(X, y, ways=ways, shots=shots, queries=queries, tasks=tasks, seed=seed)
    logits = [
        class_mean_logits(X[each.support_rows(k)], X[each.query], ways).swapaxes(1, 2) for k in shots for each in rounds
    ]
    size = math.log(np.mean([np.abs(f).mean() for f in logits]) + np.finfo(np.float64).tiny)
    found, _ = Predictions([*rounds] * len(shots), logits, [0.0] * len(logits)).best_temperature(-size)
    return math.exp(found)


def _temperature(features: Features) -> float:
    name = backbone_name(features)
    bundled = None if name is None else Calibration.bundled_file(name).get("class_mean_temperature")
    if bundled is not None:
        return float(bundled["value"])
    if features.base_X is None or features.base_y is None:
        raise UserError(
            "the baseline temperature takes one number from images of base classes, and these features have none: set "
            "base_X and base_y"
        )
    if features not in _FITTED:
        smallest = int(np.unique(features.base_y, return_counts=True)[1].min())
        shots = [k for k in (1, 5, 10) if k < smallest] or [1]
        queries = max(1, min(15, smallest - max(shots)))
        ways = min(5, len(np.unique(features.base_y)))
        _FITTED[features] = fit_class_mean_temperature(
            features.base_X, features.base_y, ways=ways, shots=shots, queries=queries
        )
    return _FITTED[features]
