"""What the paper's methods are compared with: nearest neighbour, class means, and any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.features import Features
from kshot.inference.posterior import softmax

__all__ = ["BASELINES", "class_mean", "nearest", "with_sklearn"]

Proba = NDArray[np.float64]

COSINE_SCALE = 10.0
"""What the cosine similarity is multiplied by before the softmax, as cosine classifiers commonly begin with."""


def nearest(features: Features, tasks: Tasks) -> Proba:
    """Classify by the nearest support example in cosine distance (Section 4, baseline i).

    The rule gives no probabilities of its own: these are softmax(10 · largest cosine similarity to a class's examples).
    Returns (tasks, queries, ways).
    """
    support, query = _normalised(features.X[tasks.support]), _normalised(features.X[tasks.query])
    similarity = query @ support.transpose(0, 2, 1)
    per_class = similarity.reshape(*similarity.shape[:2], tasks.ways, -1).max(axis=3)
    return softmax(COSINE_SCALE * per_class)


def class_mean(features: Features, tasks: Tasks) -> Proba:
    """Classify by the nearest class mean in Euclidean distance; probabilities are softmax(−‖x − mean‖²).

    This is a Prototypical Network's rule on features that were not trained for it. Returns (tasks, queries, ways).
    """
    support = features.X[tasks.support].astype(np.float64)
    query = features.X[tasks.query].astype(np.float64)
    means = support.reshape(len(tasks), tasks.ways, -1, support.shape[2]).mean(axis=2)
    # ‖x − m‖² without the ‖x‖² that all classes share.
    logits = 2 * query @ means.transpose(0, 2, 1) - (means**2).sum(axis=2)[:, None, :]
    return softmax(logits)


def with_sklearn(estimator: Any, features: Features, tasks: Tasks) -> Proba:
    """Fit a clone of a scikit-learn classifier to each task, through joblib, and give its probabilities.

    A user's joblib backend (`joblib.parallel_config`) spreads the tasks over machines. A classifier without
    `predict_proba` gets probability 1 for the class it predicts. Returns (tasks, queries, ways).
    """
    import joblib

    chunks = np.array_split(np.arange(len(tasks)), max(1, len(tasks) // 25))
    parts = joblib.Parallel(n_jobs=-1)(
        joblib.delayed(_fit_chunk)(
            estimator,
            features.X[tasks.support[rows]],
            tasks.support_labels[rows],
            features.X[tasks.query[rows]],
            tasks.ways,
        )
        for rows in chunks
    )
    return np.concatenate(parts)


def _fit_chunk(
    estimator: Any, support: NDArray[np.float32], labels: NDArray[np.int64], query: NDArray[np.float32], ways: int
) -> Proba:
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits

    out = np.zeros((*query.shape[:2], ways))
    with threadpool_limits(1):
        for task in range(len(support)):
            fitted = clone(estimator).fit(support[task].astype(np.float64), labels[task])
            if hasattr(fitted, "predict_proba"):
                out[task] = fitted.predict_proba(query[task].astype(np.float64))
            else:
                chosen = fitted.predict(query[task].astype(np.float64))
                out[task, np.arange(len(chosen)), chosen] = 1
    return out


def _variance(features: Features) -> float:
    """Give σ², the empirical variance of the base weights around their mean (Section 2.3)."""
    if features.base_weights is None:
        raise UserError("this method takes its regularisation from the base weights, and these features have none")
    return float(features.base_weights.var(axis=0).mean())


def _logreg_sigma2(features: Features, tasks: Tasks) -> Proba:
    """Fit multinomial logistic regression with prior variance σ²: scikit-learn's C = σ², and 2σ² for two classes."""
    from sklearn.linear_model import LogisticRegression

    scale = _variance(features) * (2 if tasks.ways == 2 else 1)
    return with_sklearn(LogisticRegression(C=scale, fit_intercept=False, max_iter=1000), features, tasks)


def _logreg_2sigma2(features: Features, tasks: Tasks) -> Proba:
    """Fit multinomial logistic regression with scikit-learn's C set to 2σ², as the paper's text reads literally."""
    from sklearn.linear_model import LogisticRegression

    return with_sklearn(
        LogisticRegression(C=2 * _variance(features), fit_intercept=False, max_iter=1000), features, tasks
    )


def _logreg_ovr(features: Features, tasks: Tasks) -> Proba:
    """Fit one-vs-rest logistic regression with an intercept and C = 2σ², scikit-learn's default of 2017."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    one = LogisticRegression(C=2 * _variance(features), solver="liblinear", max_iter=1000)
    return with_sklearn(OneVsRestClassifier(one), features, tasks)


BASELINES: dict[str, Callable[[Features, Tasks], Proba]] = {
    "nearest": nearest,
    "class-mean": class_mean,
    "logreg-sigma2": _logreg_sigma2,
    "logreg-2sigma2": _logreg_2sigma2,
    "logreg-ovr": _logreg_ovr,
}


@dataclass(frozen=True)
class SklearnMethod:
    """A scikit-learn classifier in place of a method's name."""

    estimator: Any

    def __call__(self, features: Features, tasks: Tasks) -> Proba:
        """Give the probabilities (tasks, queries, ways)."""
        return with_sklearn(self.estimator, features, tasks)


def _normalised(rows: NDArray[np.float32]) -> Proba:
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1, keepdims=True)
    unit: Proba = wide / np.where(norms > 0, norms, 1)
    return unit
