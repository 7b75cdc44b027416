"""Many k-shot tasks as one checked object: support features, labels, example weights, and the old classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError
from kshot.inference.likelihood import Likelihood

__all__ = ["Tasks", "with_constant"]

Floats = NDArray[np.float64]

_ROW_BYTES = 16 * 2**20  # old logits are computed for as many rows at a time as this holds


@dataclass(frozen=True, eq=False)
class Tasks:
    """Tasks of equal shape; `check` makes one of a user's arrays.

    Arguments:
        X: support features, (tasks, n, p), float32 or float64, without a constant feature.
        y: labels in 0..ways − 1, (tasks, n); −1 is an example of an old class.
        ways: C, the number of new classes, with or without examples.
        weight: s_n ≥ 0, (tasks, n), 0 for padding; None when all are 1.
        base_weights: the old classes' weights, (B, p), or None.
        base_bias: their biases, (B,), or None.
    """

    X: NDArray[np.floating[Any]]
    y: NDArray[np.int64]
    ways: int
    weight: Floats | None = None
    base_weights: Floats | None = None
    base_bias: Floats | None = None

    @classmethod
    def check(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ways: int | None = None,
        mask: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_weights: ArrayLike | None = None,
        base_bias: ArrayLike | None = None,
    ) -> Tasks:
        """Check what `fit_tasks` was given, or say in a sentence what is wrong with it."""
        features = as_features(X, "X", ndim=3)
        if features.shape[1] == 0:
            raise UserError(f"X holds no examples, its shape is {features.shape}: give each task at least one")
        weight = _weights(features.shape[:2], mask, sample_weight)
        present = None if weight is None else weight > 0
        check_finite(features if present is None or present.all() else features[present], "X")
        labels = _labels(y, features.shape[:2], present)
        base, bias = check_base(base_weights, base_bias, width=features.shape[2])
        highest = int(labels.max(initial=-1))
        ways = highest + 1 if ways is None else ways
        if highest >= ways:
            raise UserError(f"y holds the label {highest}, and ways={ways} allows 0 to {ways - 1} only")
        if ways < (2 if base is None else 1):
            raise UserError(
                "y holds one class only, and there is nothing to tell it from: give examples of a second class, "
                "or base_weights to learn it in the presence of old classes"
            )
        if base is None and (labels < 0).any():
            raise UserError("y holds a negative label, and labels must be 0, 1, 2, ...")
        return cls(features, labels, ways, weight, base, bias)

    @property
    def count(self) -> int:
        """The number of tasks."""
        return len(self.X)

    def batches(self, size: int) -> Iterator[slice]:
        """Split the tasks into parts of at most `size`."""
        for start in range(0, self.count, size):
            yield slice(start, min(start + size, self.count))

    def features(self, part: slice, *, constant: bool) -> Floats:
        """Give these tasks' features in float64, (t, n, p), zero where the weight is; a last feature 1 if asked."""
        X = self.X[part]
        if constant:
            X = with_constant(X)
        if self.weight is not None and not self.weight[part].all():
            X = np.where((self.weight[part] > 0)[..., None], X, 0.0)
        return np.ascontiguousarray(X, dtype=np.float64)

    def rest(self, part: slice) -> Floats | None:
        """Give ln Σ_old exp(w̃_c·x + b̃_c) of each example, (t, n): all that matters of the old classes (Section 4.1)."""
        if self.base_weights is None:
            return None
        X = self.features(part, constant=False)
        rows = X.reshape(-1, X.shape[2])
        out = np.empty(len(rows))
        step = max(1, _ROW_BYTES // (8 * len(self.base_weights)))
        for start in range(0, len(rows), step):
            logits = rows[start : start + step] @ self.base_weights.T
            if self.base_bias is not None:
                logits += self.base_bias
            top = logits.max(axis=1)
            logits -= top[:, None]
            np.exp(logits, out=logits)
            out[start : start + step] = top + np.log(logits.sum(axis=1))
        return out.reshape(X.shape[:2])

    def likelihood(self, part: slice, *, mean_logits: Floats | None = None) -> Likelihood:
        """Give the likelihood as a function of f − `mean_logits`, (t, n): a logit that all new classes share.

        Without old classes the shared logit cancels; with them it is taken from theirs.
        """
        y, weight = self.y[part], None if self.weight is None else self.weight[part]
        target = (y == np.arange(self.ways)[:, None, None]).astype(np.float64)
        if weight is not None:
            target *= weight
        rest = self.rest(part)
        if rest is not None and mean_logits is not None:
            rest = rest - mean_logits
        return Likelihood(target, weight, rest)

    def examples_per_class(self) -> Floats:
        """Give each task's mean support weight per new class that has examples, (tasks,); 0 where none has."""
        weight = np.ones(self.y.shape) if self.weight is None else self.weight
        totals = np.stack([np.where(self.y == c, weight, 0.0).sum(axis=1) for c in range(self.ways)])
        present = (totals > 0).sum(axis=0)
        return np.asarray(totals.sum(axis=0) / np.maximum(present, 1))


def with_constant(X: NDArray[Any]) -> NDArray[Any]:
    """Append the constant feature 1 on which the bias acts, (..., p) -> (..., p + 1)."""
    return np.concatenate([X, np.ones((*X.shape[:-1], 1), X.dtype)], axis=-1)


def as_features(X: ArrayLike, name: str, *, ndim: int) -> NDArray[np.floating[Any]]:
    """Give `X` as an array of floats with `ndim` dimensions; float32 and float64 are not copied."""
    try:
        array = np.asarray(X)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be an array of numbers with {ndim} dimensions, all rows of one length") from None
    if array.ndim != ndim or array.shape[0] == 0 or array.shape[-1] == 0:
        raise UserError(
            f"{name} must have {ndim} dimensions and at least one task and feature, and its shape is {array.shape}"
        )
    return array


def check_finite(array: NDArray[np.floating[Any]], name: str) -> None:
    """Refuse NaN and infinity."""
    # The sum is finite only if all are (it may overflow where none is wrong, hence the second look).
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=None if array.dtype == np.float64 else np.float64)
    if not np.isfinite(total) and not np.isfinite(array).all():
        where = ", ".join(str(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name} holds a NaN or an infinity (the first at index [{where}]): leave such examples out")


def check_base(
    base_weights: ArrayLike | None, base_bias: ArrayLike | None, *, width: int
) -> tuple[Floats | None, Floats | None]:
    """Check the old classes' weights (B, p) and biases (B,) against the width of the features."""
    if base_weights is None:
        if base_bias is not None:
            raise UserError("base_bias was given without base_weights: give both, or neither")
        return None, None
    weights = as_features(base_weights, "base_weights", ndim=2).astype(np.float64, copy=False)
    check_finite(weights, "base_weights")
    if weights.shape[1] != width:
        raise UserError(f"base_weights has {weights.shape[1]} columns, and the features have {width}")
    if base_bias is None:
        return weights, None
    bias = as_features(base_bias, "base_bias", ndim=1).astype(np.float64, copy=False)
    check_finite(bias, "base_bias")
    if bias.shape != weights.shape[:1]:
        raise UserError(f"base_bias must have one number per old class, {len(weights)}, and its shape is {bias.shape}")
    return weights, bias


def _weights(shape: tuple[int, ...], mask: ArrayLike | None, sample_weight: ArrayLike | None) -> Floats | None:
    """Give s_n, 0 for padding, or None when all are 1."""
    if mask is None and sample_weight is None:
        return None
    weight = np.ones(shape)
    if sample_weight is not None:
        given = np.asarray(sample_weight, dtype=np.float64)
        if given.shape != shape:
            raise UserError(f"sample_weight must have shape {shape}, one number per example, and it has {given.shape}")
        weight = given.copy()
    if mask is not None:
        keep = np.asarray(mask)
        if keep.shape != shape or keep.dtype != np.bool_:
            raise UserError(
                f"mask must be an array of True and False of shape {shape}, and it is {keep.dtype} {keep.shape}"
            )
        weight[~keep] = 0.0
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise UserError("sample_weight must hold finite numbers that are not negative")
    return None if (weight == 1).all() else weight


def _labels(y: ArrayLike, shape: tuple[int, ...], present: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    given = np.asarray(y)
    if given.shape != shape:
        raise UserError(f"y must have one label per example, shape {shape}, and its shape is {given.shape}")
    if present is not None:
        given = np.where(present, given, 0)
    try:
        labels = given.astype(np.int64)
        whole = bool((labels == given).all())
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise UserError("y must hold whole numbers 0, 1, 2, ... (kshot.KShotClassifier takes labels of any kind)")
    return labels
