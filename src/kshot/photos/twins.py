"""Find old classes that are the same thing as one of the user's: beside such a twin the user's class would not win."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHARE", "find_twins", "old_logits", "softmax", "twins_of_shares"]

SHARE = 0.3
"""Of the old classes' probability, what a twin has on average over a class's photographs."""


def find_twins(
    X: NDArray[np.floating[Any]],
    y: NDArray[np.int64],
    base_weights: NDArray[np.floating[Any]],
    base_bias: NDArray[np.floating[Any]] | None = None,
    *,
    share: float = SHARE,
) -> dict[int, int]:
    """Give the rows of the old classes that are twins, each with the user's class that it is the same thing as.

    Arguments:
        X: the examples' features, (n, p).
        y: their classes, (n,).
        base_weights: (B, p).
        base_bias: (B,) or None.
        share: see `SHARE`.

    Example:
        >>> find_twins(np.array([[9.0, 0], [0, 1]]), np.array([0, 1]), np.eye(2), share=0.9)
        {0: 0}
    """
    return twins_of_shares(softmax(old_logits(X, base_weights, base_bias)), y, share=share)


def old_logits(
    X: NDArray[np.floating[Any]],
    base_weights: NDArray[np.floating[Any]],
    base_bias: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.float64]:
    """Give the network's own logits of its classes, (n, B)."""
    logits: NDArray[np.float64] = X.astype(np.float64) @ base_weights.T.astype(np.float64)
    return logits if base_bias is None else logits + base_bias


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn logits into probabilities along the last axis; one of −∞ has none."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    out: NDArray[np.float64] = grown / grown.sum(axis=-1, keepdims=True)
    return out


def twins_of_shares(shares: NDArray[np.float64], y: NDArray[np.int64], *, share: float = SHARE) -> dict[int, int]:
    """Do the same from the shares of each example, (n, B)."""
    twins: dict[int, int] = {}
    for label in np.unique(y):
        mean = shares[y == label].mean(axis=0)
        for row in np.flatnonzero(mean >= share):
            twins.setdefault(int(row), int(label))
    return dict(sorted(twins.items()))
