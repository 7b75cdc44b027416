"""Where the Laplace approximation's Gaussian is centred: not at the MAP but where the expected gradient vanishes.

The softmax posterior leans away from the prior: its mean is farther out than its mode, and a Gaussian about the mode is
too unsure. With the covariance of the curvature at the MAP held fixed, the Gaussian nearest to the posterior (in
Kullback-Leibler divergence) has the mean at which E_q[∇ ln p(W, y)] = 0 (Opper & Archambeau, 2009). To find it is a
concave problem with n numbers per class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.inference.factorise import Curvature, factors
from kshot.inference.likelihood import Likelihood
from kshot.inference.predictive import normal_draws

__all__ = ["mean_shift"]

Floats = NDArray[np.float64]

_DRAWS = 64  # quasi-random
_STEPS = 30
_ENOUGH = 1e-3  # of the gradient in a logit, a probability


def mean_shift(curvature: Curvature, likelihood: Likelihood, X: Floats, f: Floats) -> Floats:
    """Give Δ, (C, t, n), such that the mean is w_c = MAP + Σ_c XᵀΔ_c.

    Arguments:
        curvature: at the MAP.
        likelihood: of these tasks.
        X: their features, (t, n, dim).
        f: their logits at the MAP, (C, t, n).
    """
    ways, tasks, n = f.shape
    noise = factors(curvature.covariance(X, X).reshape(-1, ways, ways)).reshape(tasks, n, ways, ways)
    spread = np.ascontiguousarray(np.einsum("sd,tncd->csnt", normal_draws(_DRAWS, ways, seed=0), noise))
    # Average over draws as if they were examples: (C, draws · n, t), with the tasks last as the rows are then long.
    mode = _average(likelihood, f, np.zeros((ways, 1, n, tasks)))
    kernel = curvature.local.kernel(X, X)
    mean = _average(likelihood, f, spread)
    # diag(p̄) − p̄p̄ᵀ of the averaged probabilities bounds the averaged curvature, so that steps do not overshoot.
    bound = Curvature.of(curvature.local, X, mean, likelihood.weight)
    shift = np.zeros_like(f)
    for _ in range(_STEPS):
        residual = mode - mean
        if likelihood.weight is not None:
            residual *= likelihood.weight
        residual -= shift
        going = np.abs(residual).max(axis=(0, 2), initial=0.0) > _ENOUGH
        if not going.any():
            break
        # A task that has arrived stays where it is, so that its answer does not depend on the others of its batch.
        step = np.where(going[:, None], bound.solve(kernel, residual), 0.0)
        shift += step
        f = f + (kernel @ step[..., None])[..., 0]
        mean = _average(likelihood, f, spread)
    return shift


def _average(likelihood: Likelihood, f: Floats, spread: Floats) -> Floats:
    """Give the mean over draws of the probabilities at f + spread, (C, t, n)."""
    logits = f.transpose(0, 2, 1)[:, None] + spread
    top = logits.max(axis=0)
    rest = None if likelihood.rest is None else np.ascontiguousarray(likelihood.rest.T)
    if rest is not None:
        np.maximum(top, rest, out=top)
    logits -= top
    np.exp(logits, out=logits)
    total = logits.sum(axis=0)
    if rest is not None:
        total += np.exp(rest - top)
    logits /= total
    return np.ascontiguousarray(logits.mean(axis=1).transpose(0, 2, 1))
