"""Logistic regression as a baseline, all tasks at once: the optimum is scikit-learn's, found by this library's solver.

The convention of C is scikit-learn's: the penalty is ‖w‖² / (2C). For three or more classes that is the prior N(0, C·I)
on each class's weights. For two, scikit-learn has one vector w₁ − w₀ with variance C, so C/2 for each class. The
paper's C is another: its prior is N(0, ½C·I), so its C = 2σ² is scikit-learn's C = σ² (`logreg-sigma2`), unless its
text is read literally (`logreg-2sigma2`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior
from kshot.concepts.covariance import Diagonal, ScaledIdentity
from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.features import Features
from kshot.inference import fit_tasks
from kshot.inference.posterior import softmax

__all__ = ["CS", "Multinomial", "one_vs_rest", "prior_of_constant", "variance_of", "zero_mean"]

Floats = NDArray[np.float64]

CS = tuple(float(C) for C in np.logspace(-5, 1, 13))
"""The 13 values of C of the sweep and of cross-validation, scikit-learn's convention: 1e-5 to 10, as in Fig. 4."""

_FREE = 1e5  # the variance of an intercept without a penalty: probabilities are exact to 5e-6, and K keeps its digits


@dataclass(frozen=True)
class Multinomial:
    """Softmax regression without an intercept, `LogisticRegression(C=C, fit_intercept=False)`; a method for `evaluate`.

    >>> Multinomial(C=0.01).name
    'logreg-C=0.01'
    """

    C: float

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"logreg-C={self.C:g}"

    def __call__(self, features: Features, tasks: Tasks) -> Floats:
        """Give the probabilities, (tasks, queries, ways)."""
        prior = prior_of_constant(self.C, ways=tasks.ways, dim=features.X.shape[1])
        _, info = fit_tasks(prior, features.X[tasks.support], tasks.support_labels, X_query=features.X[tasks.query])
        return np.asarray(info.proba)


def prior_of_constant(C: float, *, ways: int, dim: int) -> GaussianPrior:
    """Give the prior whose MAP is scikit-learn's optimum at C."""
    return GaussianPrior(np.zeros(dim), ScaledIdentity(C / 2 if ways == 2 else C, dim=dim))


def variance_of(features: Features) -> float:
    """Give σ², the empirical variance of the base weights around their mean (Section 2.3)."""
    if features.base_weights is None:
        raise UserError("this method takes its regularisation from the base weights, and these features have none")
    return float(features.base_weights.var(axis=0).mean())


def zero_mean(features: Features, variance: float) -> GaussianPrior:
    """Give the prior N(0, variance·I) on the weights of each class, which logistic regression assumes."""
    dim = features.X.shape[1]
    return GaussianPrior(np.zeros(dim), ScaledIdentity(variance, dim=dim))


def logreg_sigma2(features: Features, tasks: Tasks) -> Floats:
    """Fit multinomial logistic regression with prior variance σ²: scikit-learn's C = σ², and 2σ² for two classes."""
    return Multinomial(variance_of(features) * (2 if tasks.ways == 2 else 1))(features, tasks)


def logreg_2sigma2(features: Features, tasks: Tasks) -> Floats:
    """Fit multinomial logistic regression with scikit-learn's C set to 2σ², as the paper's text reads literally."""
    return Multinomial(2 * variance_of(features))(features, tasks)


def logreg_ovr(features: Features, tasks: Tasks) -> Floats:
    """Fit one-vs-rest logistic regression with C = 2σ² and a penalised intercept, scikit-learn's default of 2017.

    That default was liblinear, which counts the intercept among the weights that are penalised.
    """
    return one_vs_rest(features, tasks, C=2 * variance_of(features), intercept="penalised")


def logreg_ovr_free_intercept(features: Features, tasks: Tasks) -> Floats:
    """Fit one-vs-rest logistic regression with C = 2σ² and an intercept without penalty, as all other solvers do."""
    return one_vs_rest(features, tasks, C=2 * variance_of(features), intercept="free")


def one_vs_rest(features: Features, tasks: Tasks, *, C: float, intercept: Literal["penalised", "free"]) -> Floats:
    """Tell each class from the rest by a logistic regression with an intercept; give the scores σ(f_c) / Σ σ(f_c').

    As `OneVsRestClassifier(LogisticRegression(C=C))`, which for two classes fits one regression. Returns (tasks,
    queries, ways).
    """
    dim = features.X.shape[1]
    variances = np.append(np.full(dim, C / 2), C / 2 if intercept == "penalised" else _FREE)
    prior = GaussianPrior(np.zeros(dim + 1), Diagonal(variances), has_bias=True)
    support, query = (features.X[rows].astype(np.float64) for rows in (tasks.support, tasks.query))
    scores = np.empty((*tasks.query.shape, tasks.ways))
    for way in range(1 if tasks.ways == 2 else 0, tasks.ways):
        weights, info = fit_tasks(prior, support, (tasks.support_labels == way).astype(np.int64))
        difference, bias = weights[:, 1] - weights[:, 0], info.intercept[:, 1] - info.intercept[:, 0]
        scores[..., way] = _logistic(np.einsum("tmp,tp->tm", query, difference) + bias[:, None])
    if tasks.ways == 2:
        scores[..., 0] = 1 - scores[..., 1]
    return np.asarray(scores / scores.sum(axis=2, keepdims=True))


def _logistic(f: Floats) -> Floats:
    return softmax(np.stack([np.zeros_like(f), f], axis=-1))[..., 1]
