"""Logistic regressions, all tasks at once, against scikit-learn's, one task after another."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from kshot import Features
from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.evaluation.baselines import BASELINES
from kshot.evaluation.logistic import CS, Multinomial, one_vs_rest, variance_of


@pytest.fixture(scope="module")
def features() -> Features:
    """Features of the size and base weights of the variance that networks have."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 40)
    centres = 3 * random.normal(size=(6, 8))
    X = np.maximum(centres[y] + 3 * random.normal(size=(240, 8)), -1)
    return Features(X, y, base_weights=0.05 * random.normal(size=(20, 8)) + 0.1)


def by_scikit_learn(estimator, features: Features, tasks: Tasks) -> np.ndarray:
    support, query = features.X[tasks.support].astype(float), features.X[tasks.query].astype(float)
    return np.stack(
        [
            estimator.fit(X, y).predict_proba(X_query)
            for X, y, X_query in zip(support, tasks.support_labels, query, strict=True)
        ]
    )


def test_the_constants_are_thirteen_from_1e_5_to_10_in_equal_steps_of_the_logarithm() -> None:
    assert len(CS) == 13 and (CS[0], CS[-1]) == pytest.approx((1e-5, 10))
    assert np.allclose(np.diff(np.log10(CS)), 0.5)


@pytest.mark.parametrize("C", [CS[0], CS[5], CS[-1]])
@pytest.mark.parametrize("ways", [2, 3, 5])
def test_multinomial_is_scikit_learns_optimum_at_the_same_constant(features: Features, C: float, ways: int) -> None:
    tasks = draw_tasks(features.y, ways=ways, shots=4, tasks=8)
    peer = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    np.testing.assert_allclose(Multinomial(C)(features, tasks), by_scikit_learn(peer, features, tasks), atol=1e-6)


@pytest.mark.parametrize("ways", [2, 5])
def test_one_vs_rest_with_a_penalised_intercept_is_liblinears(features: Features, ways: int) -> None:
    tasks = draw_tasks(features.y, ways=ways, shots=4, tasks=8)
    peer = OneVsRestClassifier(LogisticRegression(C=0.01, solver="liblinear", tol=1e-12, max_iter=100_000))
    ours = one_vs_rest(features, tasks, C=0.01, intercept="penalised")
    np.testing.assert_allclose(ours, by_scikit_learn(peer, features, tasks), atol=1e-6)


@pytest.mark.parametrize("ways", [2, 5])
@pytest.mark.parametrize("shots", [1, 6])
def test_one_vs_rest_with_a_free_intercept_is_that_of_scikit_learns_other_solvers(
    features: Features, ways: int, shots: int
) -> None:
    tasks = draw_tasks(features.y, ways=ways, shots=shots, tasks=8)
    peer = OneVsRestClassifier(LogisticRegression(C=0.01, solver="newton-cholesky", tol=1e-10, max_iter=1000))
    ours = one_vs_rest(features, tasks, C=0.01, intercept="free")
    np.testing.assert_allclose(ours, by_scikit_learn(peer, features, tasks), atol=1e-5)


def test_the_names_take_their_constants_from_the_variance_of_the_base_weights(features: Features) -> None:
    assert features.base_weights is not None
    variance = ((features.base_weights - features.base_weights.mean(0)) ** 2).mean()
    assert variance_of(features) == pytest.approx(variance)
    exact = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}
    literal = LogisticRegression(C=2 * variance, fit_intercept=False, **exact)
    rest = OneVsRestClassifier(LogisticRegression(C=2 * variance, **exact))
    liblinear = OneVsRestClassifier(LogisticRegression(C=2 * variance, solver="liblinear", tol=1e-12, max_iter=100_000))
    for ways in (2, 5):
        tasks = draw_tasks(features.y, ways=ways, shots=3, tasks=5)
        # With two classes scikit-learn's one vector is the difference of two, of twice the variance.
        prior = LogisticRegression(C=variance * (2 if ways == 2 else 1), fit_intercept=False, **exact)
        for name, peer in {
            "logreg-sigma2": prior,
            "logreg-2sigma2": literal,
            "logreg-ovr": liblinear,
            "logreg-ovr-free-intercept": rest,
        }.items():
            np.testing.assert_allclose(
                BASELINES[name](features, tasks), by_scikit_learn(peer, features, tasks), atol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("name", ["logreg-sigma2", "logreg-2sigma2", "logreg-ovr", "logreg-ovr-free-intercept"])
def test_regularisation_from_the_base_weights_needs_base_weights(name: str, features: Features) -> None:
    with pytest.raises(ValueError, match="base weights"):
        BASELINES[name](Features(features.X, features.y), draw_tasks(features.y, shots=2, tasks=5))
