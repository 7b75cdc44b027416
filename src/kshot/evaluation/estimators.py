"""Any scikit-learn classifier as a method: fitted to each task alone, the tasks spread by joblib."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.evaluation.spread import spread
from kshot.features import Features

__all__ = ["SklearnMethod", "with_sklearn"]

_PORTION = 25  # tasks that go to a worker at a time


@dataclass(frozen=True)
class SklearnMethod:
    """A scikit-learn classifier in place of a method's name."""

    estimator: Any

    def __call__(self, features: Features, tasks: Tasks) -> NDArray[Any]:
        """Give what `with_sklearn` gives."""
        return with_sklearn(self.estimator, features, tasks)


def with_sklearn(estimator: Any, features: Features, tasks: Tasks) -> NDArray[Any]:
    """Fit a clone of a scikit-learn classifier to each task, through joblib.

    Returns the probabilities (tasks, queries, ways) or, of a classifier without `predict_proba`, its answers (tasks,
    queries): whole numbers, of which only accuracy can be computed.
    """
    support, query = features.X[tasks.support], features.X[tasks.query]
    return spread(partial(_fit_each, estimator), support, tasks.support_labels, query, portion=_PORTION)


def _fit_each(
    estimator: Any, support: NDArray[np.float32], labels: NDArray[np.int64], query: NDArray[np.float32]
) -> NDArray[Any]:
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits

    out = []
    with threadpool_limits(1):
        for X, y, X_query in zip(support.astype(np.float64), labels, query.astype(np.float64), strict=True):
            fitted = clone(estimator).fit(X, y)
            out.append(fitted.predict_proba(X_query) if hasattr(fitted, "predict_proba") else fitted.predict(X_query))
    return np.stack(out)
