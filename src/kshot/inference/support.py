"""The examples of one task as a scikit-learn user gives them: arrays or data frames, and labels of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError

__all__ = ["Support", "checked_queries", "joined", "labels"]

Floats = NDArray[np.float64]

_FLOATS = (np.float64, np.float32)


@dataclass(frozen=True, eq=False)
class Support:
    """All examples that a classifier has learned from.

    Arguments:
        X: features, (n, p), float32 or float64.
        y: labels, (n,).
        weight: (n,), or None when all are 1.
    """

    X: NDArray[np.floating[Any]]
    y: NDArray[Any]
    weight: Floats | None

    @classmethod
    def check(cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool) -> Support:
        """Check the arguments of `fit`, and with `reset` let the estimator remember the features' number and names."""
        if y is not None:
            y = labels(y, "y")
        if not (_is_plain(estimator, X, reset=reset) and _are_plain(y, len(X))):
            from sklearn.utils.multiclass import check_classification_targets
            from sklearn.utils.validation import validate_data

            X, y = validate_data(estimator, X, y, reset=reset, dtype=_FLOATS)
            check_classification_targets(y)
        elif reset:
            estimator.n_features_in_ = X.shape[1]
        weight = None
        if sample_weight is not None:
            from sklearn.utils.validation import _check_sample_weight

            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return cls(X.copy(), y, weight)

    def extended(self, more: Support) -> Support:
        """Give these examples and more."""
        weight = None
        if self.weight is not None or more.weight is not None:
            weight = np.concatenate([np.ones(len(s.y)) if s.weight is None else s.weight for s in (self, more)])
        return Support(np.concatenate([self.X, more.X]), joined([self.y, more.y]), weight)


def checked_queries(estimator: Any, X: Any) -> NDArray[np.floating[Any]]:
    """Check features to predict, (m, p), against those that the estimator was fitted with."""
    if _is_plain(estimator, X, reset=False):
        return np.asarray(X)
    from sklearn.utils.validation import validate_data

    return np.asarray(validate_data(estimator, X, reset=False, dtype=_FLOATS))


def labels(y: Any, name: str) -> NDArray[Any]:
    """Give labels as an array of one kind; strings beside numbers would silently become strings."""
    given = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if given.dtype != object:
        return given
    kinds = {isinstance(label, str) for label in given.ravel().tolist()}
    if len(kinds) > 1:
        raise UserError(f"{name} holds labels of mixed types: make all of them strings")
    return np.asarray(given.tolist())


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join labels of one kind."""
    if len({part.dtype.kind in "US" for part in parts}) > 1:
        raise UserError("y and the known classes hold labels of mixed types: make all of them strings")
    return np.concatenate(parts)


def _is_plain(estimator: Any, X: Any, *, reset: bool) -> bool:
    """Say whether nothing is wrong with an array X; scikit-learn's checks, which name what is wrong, take longer."""
    return (
        isinstance(X, np.ndarray)
        and X.dtype in _FLOATS
        and X.ndim == 2
        and X.size > 0
        and not hasattr(estimator, "feature_names_in_")
        and (reset or X.shape[1] == estimator.n_features_in_)
        and bool(np.isfinite(X.sum(dtype=np.float64)))
    )


def _are_plain(y: Any, count: int) -> bool:
    return isinstance(y, np.ndarray) and y.shape == (count,) and y.dtype.kind in "biuU"
