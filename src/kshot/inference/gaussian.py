"""MAP under a Gaussian prior, by the exact reduction to the n×n kernel (Section 2.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior
from kshot.inference.coordinates import Dual
from kshot.inference.fit import Fit
from kshot.inference.frame import ByDimensions, Frame, frame
from kshot.inference.likelihood import Likelihood, dot
from kshot.inference.newton import TOLERANCE, Minimum, minimise
from kshot.inference.tasks import Tasks

__all__ = ["batch_size", "gaussian_map"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ROUNDING = 1e-9  # of the logits: more would show in the gradient
_CACHE_BYTES = 6 * 2**20  # a batch's kernels and vectors: more fall out of the cache, fewer wait for Python
_FEATURE_BYTES = 16 * 2**20  # a batch's features in float64


def gaussian_map(prior: GaussianPrior, tasks: Tasks) -> Fit:
    """Find the MAP of every task under N(μ, Σ): w_c = μ + ΣXᵀa_c with n numbers a_c per class.

    A task has converged when its residual (see `frame.py`) is at most 1e-8. Where K a loses its digits (contradictory
    labels under a broad prior, features of 1e8) a task is solved again in orthonormal coordinates of its examples'
    span.
    """
    fit = Fit.empty(tasks.count, tasks.ways, prior.dim)
    for part in tasks.batches(batch_size(tasks.X.shape[1], tasks.ways, prior.dim)):
        X = tasks.features(part, constant=prior.has_bias)
        # The mean's logit is shared by all new classes: without old ones it cancels.
        likelihood = tasks.likelihood(part, mean_logits=X @ prior.mean if tasks.base_weights is not None else None)
        coordinates = frame(X, prior.covariance)
        start = _start(coordinates.coordinates, likelihood) if isinstance(coordinates.coordinates, Dual) else None
        found = minimise(coordinates.coordinates, likelihood, start=start, measure=coordinates.measure)
        _record(fit, prior, coordinates, found, part)
        poor = np.flatnonzero(~(found.residual <= TOLERANCE) | (coordinates.rounding(found.point) > _ROUNDING))
        if poor.size:
            coordinates = ByDimensions.of_rank(X[poor], prior.covariance)
            found = minimise(coordinates.coordinates, likelihood.take(poor), measure=coordinates.measure, precise=True)
            _record(fit, prior, coordinates, found, part.start + poor)
    fit.objective[:] -= tasks.ways * prior.log_prob(prior.mean)  # the normaliser of p(W)
    return fit


def batch_size(examples: int, ways: int, dim: int) -> int:
    """Give the number of tasks whose kernels and work vectors fill the cache, with features that fit in memory."""
    return max(1, min(_CACHE_BYTES // (8 * examples * (examples + 10 * ways)), _FEATURE_BYTES // (8 * examples * dim)))


def _record(fit: Fit, prior: GaussianPrior, coordinates: Frame, found: Minimum, tasks: slice | Indices) -> None:
    view = fit.weights[tasks] if isinstance(tasks, slice) else None  # to write there at once, without a copy
    weights = coordinates.weights(found.point, out=view)
    if prior.mean.any():
        weights += prior.mean
    if view is None:
        fit.weights[tasks] = weights
    fit.gradient_norm[tasks] = coordinates.gradient_norm(found.descent)
    fit.converged[tasks] = found.residual <= TOLERANCE
    fit.iterations[tasks] += found.steps
    fit.objective[tasks] = found.objective


def _start(dual: Dual, likelihood: Likelihood) -> Floats | None:
    """Give a = α S(Y − 1/C), the direction of the class means, with the α that suits the examples' mean margin."""
    if likelihood.rest is not None:
        return None
    C, _, n = likelihood.target.shape
    weight = np.ones(likelihood.target.shape[1:]) if likelihood.weight is None else likelihood.weight
    a = likelihood.target - weight / C
    tiny = np.finfo(np.float64).tiny
    margin = np.maximum(dot(a, dual.image(a)) / np.maximum(weight.sum(axis=1), tiny) * (C / (C - 1)), tiny)
    x = np.log1p(margin)
    for _ in range(
        5
    ):  # were all margins equal, x = α · margin would solve x (eˣ + C − 1) = C · margin: Newton, from above
        grown = np.exp(x)
        x = np.maximum(x - (x * (grown + C - 1) - C * margin) / (grown * (1 + x) + C - 1), 0.0)
    a *= np.repeat(x / margin, n).reshape(-1, n)
    return np.asarray(a)
