"""Softmax regression by maximum likelihood, which has no finite optimum here and so needs a stopping rule.

With no more examples than features the classes can be separated, and the likelihood grows for ever as the weights do.
What is reported as maximum likelihood is therefore where a solver stopped. Here: L-BFGS (SciPy's, memory 10, at most 50
line-search steps) from zero weights on the mean negative log-likelihood, until no entry of its gradient exceeds 1e-4 or
after 100 iterations: step for step what scikit-learn's `LogisticRegression(C=inf, fit_intercept=False)` does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.evaluation.spread import spread
from kshot.features import Features
from kshot.inference.posterior import softmax
from kshot.inference.tasks import Tasks as Support

__all__ = ["logreg_mle", "maximum_likelihood"]

Floats = NDArray[np.float64]

_PORTION = 50  # tasks that go to a worker at a time
_STOP = {"maxiter": 100, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(np.float64).eps}


def logreg_mle(features: Features, tasks: Tasks) -> Floats:
    """Fit by maximum likelihood as far as the stopping rule goes; give the probabilities, (tasks, queries, ways)."""
    weights = maximum_likelihood(features.X[tasks.support], tasks.support_labels)
    return softmax(features.X[tasks.query].astype(np.float64) @ weights.transpose(0, 2, 1))


def maximum_likelihood(
    X: NDArray[Any], y: NDArray[np.int64], *, base_weights: Floats | None = None, base_bias: Floats | None = None
) -> Floats:
    """Give the weights where the solver stopped, (tasks, ways, p), alone or beside fixed old weights in one softmax.

    Args:
        X: (tasks, n, p) support features.
        y: (tasks, n) labels 0..ways-1.
        base_weights: of the old classes, (B, p).
        base_bias: of the old classes, (B,).

    """
    support = Support.check(X, y, base_weights=base_weights, base_bias=base_bias)
    rest = support.rest(slice(0, support.count))
    if rest is None:  # no old class ever answers
        rest = np.full(support.y.shape, -np.inf)
    return spread(partial(_climb, support.ways), support.X, support.y, rest, portion=_PORTION)


def _climb(ways: int, X: NDArray[Any], y: NDArray[np.int64], rest: Floats) -> Floats:
    """Find the weights of each of some tasks, (tasks, ways, p)."""
    from scipy.optimize import minimize

    dim = X.shape[2]
    weights = np.empty((len(X), ways, dim))
    for task, (own, old) in enumerate(zip(X.astype(np.float64), rest, strict=True)):
        target = np.eye(ways)[y[task]]
        found = minimize(_mean_loss, np.zeros(ways * dim), (own, target, old), "L-BFGS-B", jac=True, options=_STOP)  # type: ignore[call-overload]
        weights[task] = found.x.reshape(ways, dim)
    return weights


def _mean_loss(w: Floats, X: Floats, target: Floats, rest: Floats) -> tuple[float, Floats]:
    """Give −(1/n) Σ_n ln p(y_n | x_n) and its gradient; of the old classes only ln Σ_old exp(f_old) matters."""
    logits = X @ w.reshape(target.shape[1], -1).T
    top = np.maximum(logits.max(axis=1), rest)
    p = np.exp(logits - top[:, None])
    total = p.sum(axis=1) + np.exp(rest - top)
    loss = (np.log(total) + top - (target * logits).sum(axis=1)).mean()
    gradient = (p / total[:, None] - target).T @ X / len(X)
    return float(loss), gradient.ravel()
