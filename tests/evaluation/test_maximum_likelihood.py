"""Maximum likelihood with a stopping rule: scikit-learn's steps, with and without old classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from kshot import Features
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.maximum_likelihood import _mean_loss, logreg_mle, maximum_likelihood


@pytest.fixture(scope="module")
def features() -> Features:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 40)
    return Features(random.normal(size=(5, 30))[y] + random.normal(size=(200, 30)), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shots", [1, 4])
def test_it_stops_where_scikit_learns_unpenalised_regression_stops(features: Features, shots: int) -> None:
    tasks = draw_tasks(features.y, ways=3, shots=shots, tasks=8)
    weights = maximum_likelihood(features.X[tasks.support], tasks.support_labels)
    proba = logreg_mle(features, tasks)
    for task in range(8):
        peer = LogisticRegression(C=np.inf, fit_intercept=False)  # lbfgs, tol=1e-4, max_iter=100
        peer.fit(features.X[tasks.support[task]].astype(float), tasks.support_labels[task])
        np.testing.assert_allclose(weights[task], peer.coef_, atol=1e-6)
        query = features.X[tasks.query[task]].astype(float)
        np.testing.assert_allclose(proba[task], peer.predict_proba(query), atol=1e-6)


def test_beside_old_classes_it_is_the_whole_softmax_with_their_rows_fixed(features: Features) -> None:
    random = np.random.default_rng(1)
    old, bias = random.normal(size=(7, 30)), random.normal(size=7)
    tasks = draw_tasks(features.y, ways=2, shots=3, tasks=4)
    weights = maximum_likelihood(features.X[tasks.support], tasks.support_labels, base_weights=old, base_bias=bias)
    for task in range(4):
        X, y = features.X[tasks.support[task]].astype(float), tasks.support_labels[task]

        def loss(w, X=X, y=y):
            logits = np.hstack([X @ old.T + bias, X @ w.reshape(2, -1).T])
            p = np.exp(log_softmax(logits, axis=1))[:, 7:]
            value = -log_softmax(logits, axis=1)[np.arange(len(y)), 7 + y].mean()
            return value, ((p - np.eye(2)[y]).T @ X / len(y)).ravel()

        options = {"maxiter": 100, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
        found = minimize(loss, np.zeros(60), jac=True, method="L-BFGS-B", options=options)
        np.testing.assert_allclose(weights[task].ravel(), found.x, atol=1e-6)
        assert np.abs(loss(weights[task].ravel())[1]).max() <= 1e-4


@pytest.mark.parametrize("rest", [np.linspace(-1, 1, 6), np.full(6, -np.inf)])
def test_the_gradient_is_the_losses(rest: np.ndarray) -> None:
    random = np.random.default_rng(2)
    others = random.normal(size=(6, 4)), np.eye(3)[[0, 1, 2, 0, 1, 2]], rest
    loss, gradient = (lambda w, *args, part=part: _mean_loss(w, *args)[part] for part in (0, 1))
    assert check_grad(loss, gradient, random.normal(size=12), *others) < 1e-6


def test_the_weights_are_finite_although_the_optimum_is_not(features: Features) -> None:
    tasks = draw_tasks(features.y, ways=5, shots=1, tasks=5)
    proba = logreg_mle(features, tasks)
    assert np.isfinite(proba).all() and np.allclose(proba.sum(2), 1)
