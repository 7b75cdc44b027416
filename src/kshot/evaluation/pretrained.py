"""Calibrate a pretrained backbone for photographs: normalised features, closed and beside its own classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Calibration, GaussianPrior, Normalisation, ScaledIdentity
from kshot.concepts.temperature import FITTED_WAYS
from kshot.evaluation.background import calibrate_background
from kshot.evaluation.calibrate import calibrate
from kshot.evaluation.ways import closed_exponent, joint_exponents
from kshot.inference import InferenceMethod

__all__ = ["calibrate_pretrained"]


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
    dim, sigma2 = base_weights.shape[1], float(base_weights.var(axis=0).mean())
    prior = GaussianPrior(np.zeros(dim), ScaledIdentity(sigma2, dim=dim))
    found, exponent = {}, 0.0
    for method in inference:
        fitted = calibrate(prior, Z, y, FITTED_WAYS, shots, method, seed=seed, tasks=tasks).calibration
        if method == "map":
            exponent = closed_exponent(fitted, prior, Z, y, seed=seed)
        found[f"closed:{method}"] = replace(fitted, normalisation=normalisation, exponent=exponent)
    if len(np.unique(y)) >= 4 * FITTED_WAYS and "map" in inference:
        joint = calibrate_background(
            prior,
            X,
            y,
            base_weights=base_weights,
            base_bias=base_bias,
            closed=found["closed:map"],
            ways=FITTED_WAYS,
            shots=shots,
            seed=seed,
        )
        assert joint.background is not None
        variance = joint.scale * sigma2
        gamma, delta = joint_exponents(joint, variance, X, Z, y, (base_weights, base_bias), seed=seed)
        background = replace(joint.background, exponent=delta)
        found["joint:map"] = replace(joint, background=background, exponent=gamma)
    return found
