"""Fill tasks up to one of a few shapes, so that another number of examples does not compile again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.inference.likelihood import Likelihood
from kshot.inference.reduction import Reduction

__all__ = ["padded", "unpadded"]

Floats = NDArray[np.float64]

_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80)


def padded(
    reduction: Reduction, likelihood: Likelihood, start: Floats, *, dim: int
) -> tuple[dict[str, Floats], Floats]:
    """Give the arrays of `targets.log_density` and the start, in padded shapes that depend on n and dim only.

    Examples are added with weight 0; coordinates with no effect on the logits, which are standard normal then.

    Arguments:
        reduction: the task's coordinates.
        likelihood: of this one task.
        start: (chains, rows, columns).
        dim: no task has a higher rank.
    """
    target = likelihood.target[:, 0]
    n = target.shape[1]
    rows, arrays = size(max(n, 1)) - n, dict(reduction.arrays)
    width = len(arrays["factor"])
    extra = 0 if reduction.family in ("own", "laplace") else size(max(min(n, dim), 1)) - width
    arrays["factor"] = np.pad(arrays["factor"], ((0, extra), (0, rows)))
    arrays["offset"] = np.pad(arrays["offset"], (0, rows))
    arrays["target"] = np.pad(target, ((0, 0), (0, rows)))
    arrays["weight"] = np.pad(np.ones(n) if likelihood.weight is None else likelihood.weight[0], (0, rows))
    arrays["rest"] = np.pad(np.full(n, -np.inf) if likelihood.rest is None else likelihood.rest[0], (0, rows))
    if reduction.family == "mixture":
        arrays["means"] = np.pad(arrays["means"], ((0, 0), (0, extra)))
        inverse = np.tile(np.eye(width + extra), (len(arrays["means"]), 1, 1))
        inverse[:, :width, :width] = arrays["inverse"]
        arrays["inverse"] = inverse
    fill = np.zeros((*start.shape[:2], extra))
    return arrays, np.concatenate([start[..., :width], fill, start[..., width:]], axis=2)


def unpadded(q: Floats, reduction: Reduction) -> Floats:
    """Take the padding out of draws, (..., columns)."""
    width = len(reduction.arrays["factor"])
    return np.concatenate([q[..., :width], q[..., q.shape[-1] - (reduction.columns - width) :]], axis=-1)


def size(n: int) -> int:
    """Round up to one of a few sizes: ..., 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, ...

    >>> [size(n) for n in (1, 5, 7, 26, 50, 81, 101, 5000)]
    [1, 5, 8, 30, 50, 100, 120, 5000]
    """
    scale = 1
    while n > _SIZES[-1] * scale:
        scale *= 10
    return next(s * scale for s in _SIZES if s * scale >= n)
