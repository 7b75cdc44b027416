"""MAP under any prior with a gradient by SciPy's L-BFGS, one task at a time, as the paper does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Prior
from kshot.errors import UserError
from kshot.inference.fit import Fit
from kshot.inference.gradients import value_and_gradient
from kshot.inference.likelihood import Likelihood
from kshot.inference.tasks import Tasks

__all__ = ["TOLERANCE", "lbfgs_map"]

Floats = NDArray[np.float64]

# Of the gradient over max(1, max|X|). A line search that compares values cannot get below the root of their rounding.
TOLERANCE = 1e-6


def lbfgs_map(
    prior: Prior, tasks: Tasks, *, start: Floats | None = None, indices: NDArray[np.intp] | None = None
) -> Fit:
    """Minimise −ln p(W) − Σ_n s_n ln p(y_n | x_n, W) over the raw weights of each task.

    A task has converged when the gradient in each class's weights is at most 1e-6 · max(1, max|X|) long.

    Arguments:
        prior: anything with `log_prob`.
        tasks: the tasks.
        start: where to begin, (tasks, C, dim); by default the prior's `mean`, or zero.
        indices: which tasks to solve, (t,); by default all.
    """
    has_bias = bool(getattr(prior, "has_bias", False))
    dim = tasks.X.shape[2] + has_bias
    indices = np.arange(tasks.count) if indices is None else indices
    if start is None:
        mean = np.broadcast_to(np.asarray(getattr(prior, "mean", 0.0), dtype=np.float64), (dim,))
        start = np.broadcast_to(mean, (indices.size, tasks.ways, dim))
    gradient = value_and_gradient(prior)
    fit = Fit.empty(indices.size, tasks.ways, dim)
    for row, task in enumerate(indices):
        part = slice(int(task), int(task) + 1)
        X = tasks.features(part, constant=has_bias)[0]
        _one_task(gradient, X, tasks.likelihood(part), start[row], fit, row)
    return fit


def _one_task(
    log_prior: Callable[[Floats], tuple[float, Floats]],
    X: Floats,
    likelihood: Likelihood,
    start: Floats,
    fit: Fit,
    row: int,
) -> None:
    from scipy.optimize import minimize

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(start.shape)
        p, loss = likelihood.evaluate((weights @ X.T)[:, None])
        value, slope = log_prior(weights)
        return float(loss[0]) - value, (-likelihood.pull(p)[:, 0] @ X - slope).ravel()

    scale = max(1.0, float(np.abs(X).max(initial=0.0)))
    value, _ = objective(start.ravel())
    if not np.isfinite(value):
        raise UserError(
            "the prior's log_prob is not finite at its mean (or at zero weights), where the search begins: "
            "give it a `mean` of positive density"
        )
    options: Any = {"maxcor": 30, "maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-9 * scale, "maxls": 50}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    value, slope = objective(found.x)
    norm = float(np.linalg.norm(slope.reshape(start.shape), axis=1).max())
    fit.weights[row], fit.objective[row], fit.gradient_norm[row] = found.x.reshape(start.shape), value, norm
    fit.iterations[row], fit.converged[row] = found.nit, norm <= TOLERANCE * scale
