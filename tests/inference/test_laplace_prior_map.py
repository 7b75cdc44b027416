"""MAP under Laplace priors against the subgradient condition and a smooth problem with the same minimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import kshot
from kshot.inference.proximal import shortest_subgradient


def problem(seed: int, *, ways: int, examples: int, dim: int):
    random = np.random.default_rng(seed)
    y = np.tile(np.arange(ways).repeat(-(-examples // ways))[:examples], (1, 1))
    return random.normal(size=(1, examples, dim)) + np.eye(ways, dim)[y], y


def loss_and_slope(X, y, weights, base=None, weight=None):
    logits = X @ weights.T if base is None else np.column_stack([X @ weights.T, X[:, : base.shape[1]] @ base.T])
    miss = softmax(logits, axis=1)[:, : len(weights)] - (y[:, None] == np.arange(len(weights)))
    weight = np.ones(len(y)) if weight is None else weight
    value = -(weight * log_softmax(logits, axis=1)[np.arange(len(y)), y]).sum()
    return value, (miss * weight[:, None]).T @ X


@given(
    seed=st.integers(0, 10**6),
    examples=st.integers(2, 15),
    dim=st.integers(1, 30),
    ways=st.integers(2, 5),
    log_scale=st.floats(-1.5, 1.5),
    old=st.sampled_from([0, 20]),
    weighted=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_zero_is_a_subgradient(seed, examples, dim, ways, log_scale, old, weighted) -> None:
    random = np.random.default_rng(seed)
    prior = kshot.LaplacePrior(random.normal(size=dim), 10.0**log_scale * random.uniform(0.5, 2, dim))
    X, y = problem(seed, ways=ways, examples=examples, dim=max(dim, ways))
    X = X[..., :dim]
    base = random.normal(size=(old, dim)) if old else None
    weight = random.choice([0.5, 1.0, 2.0], y.shape) if weighted else None
    (weights,), info = kshot.fit_tasks(prior, X, y, ways=ways, base_weights=base, sample_weight=weight)
    value, slope = loss_and_slope(X[0], y[0], weights, base, None if weight is None else weight[0])
    shift = np.where(np.abs(weights - prior.location) < 1e-13, 0.0, weights - prior.location)
    sub = np.where(
        shift == 0, np.maximum(np.abs(slope) - 1 / prior.scale, 0.0), np.abs(slope + np.sign(shift) / prior.scale)
    )
    assert info.converged[0]
    assert sub.max() <= 1e-8 * max(1.0, np.abs(X).max()) + 1e-12
    assert info.objective[0] == pytest.approx(value - prior.log_prob(weights).sum(), abs=1e-9)


@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("ways", [2, 3])
def test_the_minimum_is_that_of_the_smooth_problem_in_positive_and_negative_parts(scale: float, ways: int) -> None:
    """|v| is u₊ + u₋ with v = u₊ − u₋ and both at least 0: L-BFGS-B with bounds has no kinks to stall at."""
    dim = 8
    prior = kshot.LaplacePrior(np.full(dim, 0.2), np.full(dim, scale))
    X, y = problem(1, ways=ways, examples=6, dim=dim)

    def value(parts: np.ndarray) -> tuple[float, np.ndarray]:
        plus, minus = parts.reshape(2, ways, dim)
        loss, slope = loss_and_slope(X[0], y[0], prior.location + plus - minus)
        return loss + parts.sum() / scale, np.stack([slope + 1 / scale, -slope + 1 / scale]).ravel()

    start = np.full(2 * ways * dim, 0.01)
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 5000, "maxfun": 10000}
    peer = minimize(value, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * start.size, options=options)
    _, info = kshot.fit_tasks(prior, X, y)
    normaliser = ways * dim * np.log(2 * scale)
    assert info.objective[0] == pytest.approx(peer.fun + normaliser, abs=1e-8)


def test_most_weights_stay_exactly_where_the_prior_has_them() -> None:
    X, y = problem(0, ways=5, examples=25, dim=200)
    prior = kshot.LaplacePrior(np.full(200, 0.3), np.full(200, 0.3))
    (weights,), info = kshot.fit_tasks(prior, X, y)
    assert info.converged[0]
    assert 0 < np.count_nonzero(weights != 0.3) <= 25 * 4


def test_a_narrow_prior_moves_nothing() -> None:
    X, y = problem(0, ways=3, examples=6, dim=10)
    (weights,), info = kshot.fit_tasks(kshot.LaplacePrior(np.full(10, 0.3), np.full(10, 1e-3)), X, y)
    assert (weights == 0.3).all() and info.iterations[0] == 0 and info.gradient_norm[0] == 0


def test_the_bias_is_one_more_weight() -> None:
    random = np.random.default_rng(0)
    base, bias = random.normal(size=(30, 6)), random.normal(size=30)
    prior = kshot.LaplacePrior.fit(base, bias=bias)
    X, y = problem(4, ways=3, examples=9, dim=6)
    (weights,), info = kshot.fit_tasks(prior, X, y)
    augmented = np.concatenate([X, np.ones((1, 9, 1))], axis=2)
    apart, _ = kshot.fit_tasks(kshot.LaplacePrior(prior.location, prior.scale), augmented, y)
    np.testing.assert_allclose(np.column_stack([weights, info.intercept[0]]), apart[0], atol=1e-9)


def test_the_shortest_subgradient_of_the_absolute_value() -> None:
    sub = shortest_subgradient(np.array([0.5, -2.0, 3.0, 0.5]), np.array([0.0, 0.0, 1.0, -1.0]), np.ones(4))
    np.testing.assert_allclose(sub, [0.0, -1.0, 4.0, -0.5])
