"""New classes learned beside a logit that is known for every example: the old classes', however it was made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Diagonal, GaussianPrior
from kshot.inference.dispatch import fit_tasks

__all__ = ["fit_beside"]

Floats = NDArray[np.float64]

_FIXED = 1e-12  # the variance of a weight that must not move


def fit_beside(
    variance: float, X: NDArray[np.floating], y: NDArray[np.int64], rest: Floats, *, ways: int | None = None
) -> Floats:
    """Give the MAP weights under N(0, variance · I) in p(c | x) = exp(w_c·x) / (Σ_c' exp(w_c'·x) + exp(rest)).

    In `fit_tasks` old classes act on the same features as new ones. Where they do not, all that matters of them is
    `rest`: it is made one more feature, on which a single old class has weight 1 and the new ones cannot act.

    Arguments:
        variance: of the prior.
        X: (tasks, n, p).
        y: (tasks, n), labels 0..C − 1.
        rest: ln Σ exp of the old classes' logits at each example, (tasks, n).
        ways: C, where the last classes have no examples.

    Returns (tasks, C, p).

    Example: one class of one example, which must win from a background of logit 0.
        >>> fit_beside(1.0, np.ones((1, 1, 1)), np.zeros((1, 1), int), np.zeros((1, 1))).round(3)
        array([[[0.401]]])
    """
    p = X.shape[2]
    prior = GaussianPrior(np.zeros(p + 1), Diagonal(np.append(np.full(p, variance), _FIXED)))
    joined = np.concatenate([X.astype(np.float64), rest[..., None]], axis=2)
    weights, _ = fit_tasks(prior, joined, y, base_weights=np.eye(p + 1)[-1:], ways=ways)
    return weights[..., :-1]
