"""How temperature and background change with the number of classes: a power of it, fitted on simulated tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Calibration
from kshot.concepts.temperature import FITTED_WAYS
from kshot.evaluation.background import Simulated, new_logits, simulate_unrelated, weighted_loss
from kshot.evaluation.profile import Predictions, predict
from kshot.evaluation.simulation import simulate

__all__ = ["closed_exponent", "joint_exponents"]

WAYS = (2, 3, 10, 20)
"""Numbers of classes besides five, as far as there are base classes for them."""

_SHOTS, _QUERIES = (1, 5, 10), 10
_CLASSES = 600  # in all tasks of one number of classes


def closed_exponent(calibration: Calibration, prior: Any, Z: NDArray[Any], y: NDArray[Any], *, seed: int = 0) -> float:
    """Fit γ of T(k) (C / 5)^−γ by the mean log-likelihood of tasks of 2 to 20 classes, all counting the same.

    Args:
        calibration: of the closed setting by MAP, fitted with five classes.
        prior: the one that it is for, before it is scaled.
        Z: features as the calibration has them, (n, p).
        y: classes, (n,).
        seed: decides the tasks.

    """
    from scipy.optimize import minimize_scalar

    scaled = prior.scaled(calibration.scale)
    tried: list[tuple[int, int, Predictions]] = []
    for ways, shots in _usable(y, per_class=1):
        rounds = simulate(Z, y, ways=ways, shots=shots, queries=_QUERIES, tasks=max(20, _CLASSES // ways), seed=seed)
        tried += [(ways, k, predict(scaled, Z, rounds, k, "map", seed=seed)) for k in shots]
    if not tried:
        return 0.0

    def loss(exponent: float) -> float:
        lost = 0.0
        for ways, k, predictions in tried:
            log_temperature = math.log(calibration.temperature(k)) - exponent * math.log(ways / FITTED_WAYS)
            lost -= float(predictions.log_likelihood(log_temperature).mean()) / math.log(ways)
        return lost / len(tried)

    return float(minimize_scalar(loss, bounds=(-0.5, 1.0), method="bounded").x)


def joint_exponents(
    calibration: Calibration,
    variance: float,
    X: NDArray[Any],
    Z: NDArray[Any],
    y: NDArray[Any],
    base: tuple[NDArray[np.float64], NDArray[np.float64] | None],
    *,
    seed: int = 0,
) -> tuple[float, float]:
    """Fit γ of the temperature, T(k) (C / 5)^−γ, and δ of the old classes' weight, weight(k) (C / 5)^δ, together.

    Args:
        calibration: of the joint setting, fitted with five classes, with a background.
        variance: of the scaled prior.
        X: features as they are, (n, p).
        Z: and normalised.
        y: rows of the base weights, (n,).
        base: all base weights and biases.
        seed: decides the tasks.

    """
    from scipy.optimize import minimize

    background = calibration.background
    assert background is not None
    tried: list[tuple[int, int, list[Simulated], list[NDArray[np.float64]]]] = []
    share = math.log(calibration.report["share"] / (1 - calibration.report["share"]))
    for ways, shots in _usable(y, per_class=4):
        for k in shots:
            rounds = simulate_unrelated(
                X, y, *base, ways=ways, shots=k, rounds=3, tasks=max(8, 100 // ways), queries=_QUERIES, seed=seed
            )
            tried.append((ways, k, rounds, [new_logits(variance, Z, each) for each in rounds]))
    if not tried:
        return 0.0, 0.0

    def loss(point: NDArray[np.float64]) -> float:
        lost = 0.0
        for ways, k, rounds, logits in tried:
            more = math.log(ways / FITTED_WAYS)
            temperature = calibration.temperature(k) * math.exp(-point[0] * more)
            # The tasks have as many unrelated photographs as known ones.
            shift = math.log(background.weight(k)) - share + point[1] * more
            parts = zip(logits, rounds, strict=True)
            lost += float(np.mean([weighted_loss(f, each, temperature, shift) for f, each in parts])) / math.log(
                1 + ways
            )
        return lost / len(tried)

    found = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-4}).x
    return float(found[0]), float(found[1])


def _usable(y: NDArray[Any], *, per_class: int) -> list[tuple[int, Sequence[int]]]:
    """Give the numbers of classes that there are `per_class` times as many base classes for, and the shots."""
    labels, counts = np.unique(y, return_counts=True)
    shots = [k for k in _SHOTS if k + _QUERIES <= counts.min()]
    return [(ways, shots) for ways in WAYS if per_class * ways <= len(labels)] if shots else []
