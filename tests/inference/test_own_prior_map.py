"""A user's prior, an object with one method, through `fit_tasks`: with its own gradient, or with JAX's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.special import softmax

import kshot
from kshot.concepts import ScaledIdentity
from kshot.errors import MissingExtraError, UserError


class Logistic:
    """A product of logistic densities: neither Gaussian nor any of the library's."""

    def log_prob(self, weights):
        xp = weights.__array_namespace__()
        return -(weights + 2 * xp.log1p(xp.exp(-weights))).sum(axis=-1)


class LogisticWithGradient(Logistic):
    def grad_log_prob(self, weights):
        return -np.tanh(weights / 2)


class ByNumPy:
    def log_prob(self, weights):
        return -np.exp(weights**2).sum(axis=-1)


class WrongShape(LogisticWithGradient):
    def grad_log_prob(self, weights):
        return weights.sum(axis=1)


class Bounded:
    """No density below one."""

    def log_prob(self, weights):
        return np.where((weights > 1).all(axis=-1), 0.0, -np.inf)

    def grad_log_prob(self, weights):
        return np.zeros_like(weights)


X = np.random.default_rng(0).normal(size=(3, 6, 4))
Y = np.tile([0, 0, 1, 1, 2, 2], (3, 1))


def slope(weights: np.ndarray, task: int) -> np.ndarray:
    miss = softmax(X[task] @ weights.T, axis=1) - (Y[task][:, None] == np.arange(3))
    return miss.T @ X[task] + np.tanh(weights / 2)


def test_a_prior_with_a_gradient_needs_no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    weights, info = kshot.fit_tasks(LogisticWithGradient(), X, Y)
    assert info.converged.all()
    for task in range(3):
        assert np.abs(slope(weights[task], task)).max() < 1e-6


@pytest.mark.sample
def test_jax_differentiates_a_prior_of_one_method_in_double_precision() -> None:
    jax = pytest.importorskip("jax")
    weights, info = kshot.fit_tasks(Logistic(), X, Y)
    own, _ = kshot.fit_tasks(LogisticWithGradient(), X, Y)
    assert info.converged.all()
    np.testing.assert_allclose(weights, own, atol=1e-6)
    assert jax.numpy.ones(1).dtype == np.float32, "the user's JAX is left as it was"


@pytest.mark.sample
def test_numpys_functions_in_a_prior_are_refused_with_the_remedy() -> None:
    pytest.importorskip("jax")
    with pytest.raises(UserError, match=r"ByNumPy\.log_prob calls NumPy's.*xp = weights\.__array_namespace__\(\)"):
        kshot.fit_tasks(ByNumPy(), X, Y)


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r'needs jax: pip install "kshot\[sample\]"'):
        kshot.fit_tasks(Logistic(), X, Y)


def test_a_gradient_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(UserError, match="one per entry"):
        kshot.fit_tasks(WrongShape(), X, Y)


def test_a_prior_without_density_where_the_search_begins_is_refused() -> None:
    with pytest.raises(UserError, match="not finite at its mean"):
        kshot.fit_tasks(Bounded(), X, Y)


def test_a_prior_with_a_mean_starts_there_and_one_with_a_bias_gets_a_constant_feature() -> None:
    gaussian = kshot.GaussianPrior(np.arange(5.0), ScaledIdentity(0.5, 5), has_bias=True)

    class Mine:
        mean, has_bias = gaussian.mean, True

        def log_prob(self, weights):
            return gaussian.log_prob(weights)

        def grad_log_prob(self, weights):
            return gaussian.grad_log_prob(weights)

    weights, info = kshot.fit_tasks(Mine(), X, Y)
    expected, exact = kshot.fit_tasks(gaussian, X, Y)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(info.intercept, exact.intercept, atol=1e-6)


class Kink:
    """A Laplace density, whose optimum L-BFGS cannot reach: the gradient jumps there."""

    def log_prob(self, weights):
        return -10 * abs(weights).sum(axis=-1)

    def grad_log_prob(self, weights):
        return -10 * np.sign(weights)


def test_a_search_that_finds_no_optimum_warns() -> None:
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="without an optimum in . of 3 task"):
        _, info = kshot.fit_tasks(Kink(), X, Y)
    assert not info.converged.all()


def test_a_temperature_that_is_no_method_is_refused() -> None:
    prior = LogisticWithGradient()
    prior.temperature = 2.0
    with pytest.raises(UserError, match="must be a method"):
        kshot.fit_tasks(prior, X, Y)


class Branches:
    def log_prob(self, weights):
        if (weights > 5).any():
            return -weights.sum(axis=-1)
        return -(weights**2).sum(axis=-1)


@pytest.mark.sample
def test_a_density_that_branches_on_the_weights_is_told_so() -> None:
    pytest.importorskip("jax")
    with pytest.raises(UserError, match="asks `if` of the weights"):
        kshot.fit_tasks(Branches(), X, Y)
