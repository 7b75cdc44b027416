"""Logistic regression with C chosen by cross-validation within each task (Section 4, baseline ii), all tasks at once.

What `LogisticRegressionCV(Cs=CS, cv=min(5, k), fit_intercept=False)` does: stratified folds without shuffling, the mean
of the folds' scores, the first (strongest) C among equally good ones, and a fit to all examples at that C. With one
example per class there is nothing to hold out, and every figure is NaN.
"""

from __future__ import annotations

from functools import partial
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.evaluation import metrics
from kshot.evaluation.logistic import CS, prior_of_constant
from kshot.evaluation.outcome import unanswered
from kshot.evaluation.spread import spread
from kshot.features import Features
from kshot.inference import fit_tasks

__all__ = ["chosen_constants", "logreg_cv", "logreg_cv_logloss"]

Floats = NDArray[np.float64]
Score = Literal["accuracy", "log-loss"]

_FOLDS = 5
_PORTION = 100  # tasks that go to a worker at a time
# The last scores of tasks that are still in use: the two methods differ only in which of them they look at.
_KNOWN: WeakKeyDictionary[Tasks, tuple[Features, Floats]] = WeakKeyDictionary()


def logreg_cv(features: Features, tasks: Tasks) -> Floats:
    """Choose C by the accuracy on held-out examples, scikit-learn's default; NaN with one example per class."""
    return _cross_validated(features, tasks, "accuracy")


def logreg_cv_logloss(features: Features, tasks: Tasks) -> Floats:
    """Choose C by the log-likelihood of held-out examples; NaN with one example per class."""
    return _cross_validated(features, tasks, "log-loss")


def chosen_constants(features: Features, tasks: Tasks, *, score: Score = "accuracy") -> Floats:
    """Give the C that cross-validation chooses in each task, (tasks,), in scikit-learn's convention."""
    # The sum over folds and the first of the largest sums, rounding included, as scikit-learn does.
    scores = _scores(features, tasks)[:, 0 if score == "accuracy" else 1]
    best = scores.sum(axis=1).argmax(axis=1)
    return np.asarray(np.array(CS)[best])


def _scores(features: Features, tasks: Tasks) -> Floats:
    """Give both scores of the held-out examples, (tasks, 2, folds, constants); the fits are the same for both."""
    known = _KNOWN.get(tasks)
    if known is not None and known[0] is features:
        return known[1]
    scores = spread(partial(_held_out, tasks.ways), features.X[tasks.support], tasks.support_labels, portion=_PORTION)
    _KNOWN[tasks] = features, scores
    return scores


def _held_out(ways: int, X: NDArray[np.float32], y: NDArray[np.int64]) -> Floats:
    from sklearn.model_selection import StratifiedKFold

    # Labels stand in the same order in every task, and so do the folds.
    folds = list(StratifiedKFold(min(_FOLDS, X.shape[1] // ways)).split(y[0], y[0]))
    scores = np.empty((len(X), 2, len(folds), len(CS)))
    for fold, (kept, out) in enumerate(folds):
        for index, C in enumerate(CS):
            prior = prior_of_constant(C, ways=ways, dim=X.shape[2])
            _, info = fit_tasks(prior, X[:, kept], y[:, kept], X_query=X[:, out])
            proba = np.asarray(info.proba)
            scores[:, 0, fold, index] = metrics.accuracy(proba, y[:, out])
            scores[:, 1, fold, index] = metrics.log_likelihood(proba, y[:, out])
    return scores


def _cross_validated(features: Features, tasks: Tasks, score: Score) -> Floats:
    proba = unanswered(tasks)
    if tasks.shots == 1:
        return proba
    chosen = chosen_constants(features, tasks, score=score)
    for C in np.unique(chosen):
        own = np.flatnonzero(chosen == C)
        prior = prior_of_constant(C, ways=tasks.ways, dim=features.X.shape[1])
        support, query = features.X[tasks.support[own]], features.X[tasks.query[own]]
        _, info = fit_tasks(prior, support, tasks.support_labels[own], X_query=query)
        proba[own] = info.proba
    return proba
