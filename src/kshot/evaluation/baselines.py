"""What the paper's methods are compared with, by name: nearest neighbour, class means, logistic regressions, an SVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.evaluation.cross_validation import logreg_cv, logreg_cv_logloss
from kshot.evaluation.estimators import SklearnMethod, with_sklearn
from kshot.evaluation.logistic import logreg_2sigma2, logreg_ovr, logreg_ovr_free_intercept, logreg_sigma2
from kshot.evaluation.maximum_likelihood import logreg_mle
from kshot.evaluation.temperature import class_mean_logits, class_mean_temperature
from kshot.features import Features
from kshot.inference.posterior import softmax

__all__ = ["BASELINES", "SklearnMethod", "class_mean", "nearest", "svm", "with_sklearn"]

Proba = NDArray[np.float64]

COSINE_SCALE = 10.0
"""What the cosine similarity is multiplied by before the softmax, as cosine classifiers commonly begin with."""


def nearest(features: Features, tasks: Tasks) -> Proba:
    """Classify by the nearest support example in cosine distance (Section 4, baseline i).

    The rule gives no probabilities of its own: these are softmax(10 · largest cosine similarity to a class's examples).
    Returns (tasks, queries, ways).
    """
    unit = _normalised(features.X)
    per_class = np.empty((*tasks.query.shape, tasks.ways))
    for task, (support, query) in enumerate(zip(tasks.support, tasks.query, strict=True)):  # each fits in the cache
        similarity = unit[query] @ unit[support].T
        per_class[task] = similarity.reshape(len(query), tasks.ways, -1).max(axis=2)
    return softmax(COSINE_SCALE * per_class)


def class_mean(features: Features, tasks: Tasks) -> Proba:
    """Classify by the nearest class mean in Euclidean distance; probabilities are softmax(−‖x − mean‖²).

    This is a Prototypical Network's rule on features that were not trained for it. Returns (tasks, queries, ways).
    """
    return softmax(class_mean_logits(features.X[tasks.support], features.X[tasks.query], tasks.ways))


def svm(features: Features, tasks: Tasks) -> NDArray[np.int64]:
    """Fit scikit-learn's support vector machine as it comes: RBF kernel, C = 1, gamma "scale", one-vs-one.

    It gives answers only, (tasks, queries): figures of probabilities are NaN.
    """
    from sklearn.svm import SVC

    return np.asarray(with_sklearn(SVC(), features, tasks))


BASELINES: dict[str, Callable[[Features, Tasks], NDArray[Any]]] = {
    "nearest": nearest,
    "class-mean": class_mean,
    "logreg-cv": logreg_cv,
    "logreg-cv-logloss": logreg_cv_logloss,
    "logreg-sigma2": logreg_sigma2,
    "logreg-2sigma2": logreg_2sigma2,
    "logreg-ovr": logreg_ovr,
    "logreg-ovr-free-intercept": logreg_ovr_free_intercept,
    "logreg-mle": logreg_mle,
    "svm": svm,
    "temperature": class_mean_temperature,
}


def _normalised(rows: NDArray[np.float32]) -> Proba:
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1, keepdims=True)
    unit: Proba = wide / np.where(norms > 0, norms, 1)
    return unit
