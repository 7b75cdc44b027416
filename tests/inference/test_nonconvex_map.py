"""MAP under Student-t and mixture priors against finite differences and brute force from many starts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax, softmax

import kshot
from kshot.concepts import Cholesky, Diagonal, ScaledIdentity
from kshot.inference import mixture as mixture_module


def problem(seed: int, *, ways: int, examples: int, dim: int, scale: float = 1.0):
    random = np.random.default_rng(seed)
    return scale * random.normal(size=(1, examples, dim)), random.integers(0, ways, (1, examples))


def objective(prior, X, y, base=None):
    features = np.column_stack([X, np.ones(len(X))]) if prior.has_bias else X

    def value(weights: np.ndarray) -> float:
        logits = features @ weights.T
        if base is not None:
            logits = np.column_stack([logits, X @ base.T])
        return float(-prior.log_prob(weights).sum() - log_softmax(logits, axis=1)[np.arange(len(y)), y].sum())

    return value


def brute_force(prior, X, y, starts: np.ndarray) -> float:
    """The lowest of the minima that SciPy's L-BFGS finds from many starts, (S, ways, dim)."""
    value = objective(prior, X, y)

    def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(starts.shape[1:])
        miss = softmax(X @ weights.T, axis=1) - (y[:, None] == np.arange(len(weights)))
        return value(weights), (miss.T @ X - prior.grad_log_prob(weights)).ravel()

    return min(minimize(both, start.ravel(), jac=True, method="L-BFGS-B", tol=1e-10).fun for start in starts)


def slope(value, weights: np.ndarray) -> float:
    def flat(w: np.ndarray) -> float:
        return value(w.reshape(weights.shape))

    forward, backward = (approx_fprime(weights.ravel(), flat, step) for step in (1e-6, -1e-6))
    return float(np.abs((forward + backward) / 2).max())


def student_t(dim: int, dof: float, seed: int = 0, *, has_bias: bool = False) -> kshot.StudentTPrior:
    random = np.random.default_rng(seed)
    half = random.normal(size=(dim, dim))
    return kshot.StudentTPrior(random.normal(size=dim), Cholesky.from_dense(half @ half.T + np.eye(dim)), dof, has_bias)


def mixture(kind: str, dim: int, components: int, seed: int, *, spread: float, has_bias: bool = False):
    random = np.random.default_rng(seed)
    means = spread * random.normal(size=(components, dim))
    covariances = []
    for _ in range(components):
        variance = random.uniform(0.1, 1.5)
        half = random.normal(size=(dim, dim))
        covariances.append(
            {
                "iso": ScaledIdentity(variance, dim),
                "diag": Diagonal(variance * random.uniform(0.5, 2, dim)),
                "full": Cholesky.from_dense(variance * (half @ half.T / dim + 0.3 * np.eye(dim))),
            }[kind]
        )
    return kshot.MixturePrior(random.dirichlet(np.ones(components) * 5), means, tuple(covariances), has_bias)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dof", [0.5, 3.0, 100.0])
def test_a_student_t_map_is_the_lowest_minimum(seed: int, dof: float) -> None:
    ways = 2 + seed % 2
    prior = student_t(2, dof, seed)
    X, y = problem(seed, ways=ways, examples=4, dim=2, scale=3.0)
    (weights,), info = kshot.fit_tasks(prior, X, y, ways=ways)
    value = objective(prior, X[0], y[0])
    assert info.converged[0] and slope(value, weights) < 1e-5
    assert info.objective[0] == pytest.approx(value(weights), abs=1e-9)
    starts = (
        prior.mean + np.random.default_rng(1).normal(size=(20, ways, 2)) * np.geomspace(0.01, 30, 20)[:, None, None]
    )
    assert info.objective[0] <= brute_force(prior, X[0], y[0], starts) + 1e-6


def test_one_of_two_classes_may_do_all_the_work() -> None:
    """A heavy tail prefers one long vector to two of half the length: the symmetric point is a saddle."""
    prior = kshot.StudentTPrior(np.zeros(1), ScaledIdentity(1.0, 1), 0.5)
    X, y = np.repeat([[[1.0], [-1.0]]], 20, axis=1), np.repeat([[0, 1]], 20, axis=1)
    (weights,), info = kshot.fit_tasks(prior, X, y)
    value = objective(prior, X[0], y[0])
    grid = np.linspace(-6, 6, 61)
    lowest = min(value(np.array([[a], [b]])) for a in grid for b in grid)
    assert info.objective[0] <= lowest + 1e-9
    assert abs(abs(weights[0, 0]) - abs(weights[1, 0])) > 0.1
    assert set(info.start[0]) == {0, 1}


def test_the_exponent_keeps_the_dimension_of_the_weights() -> None:
    """With two examples in six dimensions the reduced coordinates are two, and (ν + 2)/2 would have another mode."""
    prior = student_t(6, 2.0)
    X, y = problem(3, ways=2, examples=2, dim=6)
    y[0] = [0, 1]
    (weights,), info = kshot.fit_tasks(prior, X, y)
    assert info.converged[0] and slope(objective(prior, X[0], y[0]), weights) < 1e-5


def test_a_light_tail_is_a_gaussian() -> None:
    gaussian = kshot.GaussianPrior(np.zeros(4), ScaledIdentity(2.0, 4))
    X, y = problem(0, ways=3, examples=6, dim=4)
    heavy, _ = kshot.fit_tasks(kshot.StudentTPrior(np.zeros(4), ScaledIdentity(2.0, 4), 1e9), X, y, ways=3)
    np.testing.assert_allclose(heavy, kshot.fit_tasks(gaussian, X, y, ways=3)[0], atol=1e-6)


@pytest.mark.parametrize("examples", [3, 20])
def test_a_student_t_beside_old_classes_and_with_a_bias_has_no_slope(examples: int) -> None:
    prior = student_t(4, 3.0, has_bias=True)
    X, y = problem(5, ways=3, examples=examples, dim=3)
    base = np.random.default_rng(0).normal(size=(9, 3))
    (weights,), info = kshot.fit_tasks(prior, X, y, ways=3, base_weights=base)
    everything = np.column_stack([weights, info.intercept[0]])
    assert info.converged[0] and slope(objective(prior, X[0], y[0], base), everything) < 1e-5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["iso", "diag", "full"])
@pytest.mark.parametrize("spread", [0.7, 4.0])
def test_a_mixture_map_is_the_lowest_minimum(seed: int, kind: str, spread: float) -> None:
    prior = mixture(kind, 2, 3, seed, spread=spread)
    X, y = problem(seed, ways=2, examples=4, dim=2, scale=2.0)
    (weights,), info = kshot.fit_tasks(prior, X, y, ways=2)
    value = objective(prior, X[0], y[0])
    assert info.converged[0] and slope(value, weights) < 1e-5
    assert info.objective[0] == pytest.approx(value(weights), abs=1e-8)
    pairs = np.array([[a, b] for a in prior.means for b in prior.means])
    noise = np.random.default_rng(1).normal(size=(2, 1, 2, 2)) * 0.5
    starts = (pairs + noise).reshape(-1, 2, 2)
    assert info.objective[0] <= brute_force(prior, X[0], y[0], starts) + 1e-6


def test_the_start_that_won_is_told() -> None:
    """Two far components in many dimensions: each class ends near the one that its examples point to."""
    means = np.zeros((2, 8))
    means[0, 0], means[1, 1] = 3.0, 3.0
    prior = kshot.MixturePrior([0.5, 0.5], means, (ScaledIdentity(0.05, 8), ScaledIdentity(0.05, 8)))
    X = np.zeros((1, 2, 8))
    X[0, 0, 0], X[0, 1, 1] = 2.0, 2.0
    (weights,), info = kshot.fit_tasks(prior, X, [[0, 1]])
    assert info.start.tolist() == [[0, 1]]
    assert prior.responsibilities(weights).argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["iso", "diag", "full"])
def test_a_mixture_beside_old_classes_and_with_a_bias_has_no_slope(kind: str) -> None:
    random = np.random.default_rng(0)
    base = random.normal(size=(40, 5))
    prior = kshot.MixturePrior.fit(base, components=2, covariance=kind, bias=random.normal(size=40))
    X, y = problem(2, ways=3, examples=7, dim=5)
    (weights,), info = kshot.fit_tasks(prior, X, y, ways=3, base_weights=base)
    everything = np.column_stack([weights, info.intercept[0]])
    assert info.converged[0] and slope(objective(prior, X[0], y[0], base), everything) < 1e-5


def test_a_mixture_of_one_is_a_gaussian() -> None:
    covariance = Diagonal(np.array([0.5, 1.0, 2.0]))
    X, y = problem(0, ways=3, examples=6, dim=3)
    one, _ = kshot.fit_tasks(kshot.MixturePrior([1.0], np.ones((1, 3)), (covariance,)), X, y, ways=3)
    gaussian, _ = kshot.fit_tasks(kshot.GaussianPrior(np.ones(3), covariance), X, y, ways=3)
    np.testing.assert_allclose(one, gaussian, atol=1e-7)


def test_a_mixture_that_lbfgs_ends_has_converged_by_the_rule_of_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    """EM cut short: the gradient, written from its definition, is at most 1e-6 · max(1, max|X|) long."""
    monkeypatch.setattr(mixture_module, "_ROUNDS", 1)
    prior = mixture("diag", 3, 2, 0, spread=0.5)
    X, y = problem(1, ways=3, examples=9, dim=3, scale=100.0)
    weights, info = kshot.fit_tasks(prior, X, y, ways=3)
    miss = softmax(X[0] @ weights[0].T, axis=1) - (y[0][:, None] == np.arange(3))
    length = np.linalg.norm(miss.T @ X[0] - prior.grad_log_prob(weights[0]), axis=1).max()
    assert info.gradient_norm[0] == pytest.approx(length, rel=1e-2, abs=1e-7)
    assert info.converged[0] == (length <= 1e-6 * np.abs(X).max()) and info.converged[0]
