"""Calibrate a pretrained backbone for photographs: normalised features, closed and beside its own classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Calibration, GaussianPrior, Normalisation, ScaledIdentity
from kshot.evaluation.background import calibrate_background
from kshot.evaluation.calibrate import calibrate
from kshot.inference import InferenceMethod

__all__ = ["calibrate_pretrained"]

_WAYS = 5


def calibrate_pretrained(
    X: NDArray[np.floating[Any]],
    y: NDArray[np.int64],
    *,
    base_weights: NDArray[np.float64],
    base_bias: NDArray[np.float64] | None = None,
    shots: Sequence[int] = (1, 2, 5, 10, 20),
    inference: Sequence[InferenceMethod] = ("map",),
    tasks: int | None = None,
    seed: int = 0,
) -> dict[str, Calibration]:
    """Fit what `gauss-iso-calibrated` needs, from images of base classes; the joint setting where these are 20 or more.

    Args:
        X: features of images of base classes, (n, p).
        y: which row of the base weights each is of, (n,).
        base_weights: of the backbone's own classes, (B, p).
        base_bias: likewise, (B,).
        shots: numbers of examples per class.
        inference: the methods to fit the closed setting for.
        tasks: see `kshot.calibrate`.
        seed: decides the simulated tasks.

    Returns calibrations by setting and method, "closed:map", "joint:map", ...

    """
    normalisation = Normalisation.fit(X, y)
    Z = normalisation(X)
    dim = base_weights.shape[1]
    prior = GaussianPrior(np.zeros(dim), ScaledIdentity(float(base_weights.var(axis=0).mean()), dim=dim))
    found = {}
    for method in inference:
        fitted = calibrate(prior, Z, y, _WAYS, shots, method, seed=seed, tasks=tasks).calibration
        found[f"closed:{method}"] = replace(fitted, normalisation=normalisation)
    if len(np.unique(y)) >= 4 * _WAYS and "map" in inference:
        found["joint:map"] = calibrate_background(
            prior,
            X,
            y,
            base_weights=base_weights,
            base_bias=base_bias,
            closed=found["closed:map"],
            ways=_WAYS,
            shots=shots,
            seed=seed,
        )
    return found
