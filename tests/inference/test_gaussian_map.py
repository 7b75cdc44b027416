"""MAP under Gaussian priors against scikit-learn, gradients computed another way, and the laws of the model."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

import kshot
from kshot.concepts import Cholesky, Diagonal, ScaledIdentity
from kshot.inference.coordinates import Dual
from kshot.inference.frame import example_residual
from kshot.inference.lbfgs import lbfgs_map
from kshot.inference.likelihood import Likelihood
from kshot.inference.newton import minimise
from kshot.inference.tasks import Tasks


def iso(dim: int, variance: float = 1.0, mean: float = 0.0) -> kshot.GaussianPrior:
    return kshot.GaussianPrior(np.full(dim, mean), ScaledIdentity(variance, dim))


def draw(tasks: int, ways: int, shots: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(ways), shots), (tasks, 1))
    centres = random.normal(size=(tasks, ways, dim))
    return centres[np.arange(tasks)[:, None], y] + random.normal(size=(tasks, ways * shots, dim)), y


def negative_log_posterior(prior, X, y, weights, *, weight=None, base=None, base_bias=None):
    """The objective of one task from its definition: all classes, old and new, in one softmax."""
    features = np.column_stack([X, np.ones(len(X))]) if prior.has_bias else X
    logits = features @ weights.T
    if base is not None:
        logits = np.column_stack([logits, X @ base.T + (0 if base_bias is None else base_bias)])
    chosen = log_softmax(logits, axis=1)[np.arange(len(y)), y]
    return -prior.log_prob(weights).sum() - (chosen if weight is None else weight * chosen).sum()


def gradient(prior, X, y, weights, *, weight=None, base=None, base_bias=None):
    """Its gradient in the new classes' weights, (C, dim)."""
    features = np.column_stack([X, np.ones(len(X))]) if prior.has_bias else X
    logits = features @ weights.T
    old = np.empty((len(X), 0)) if base is None else X @ base.T + (0 if base_bias is None else base_bias)
    p = np.exp(logits - logsumexp(np.column_stack([logits, old]), axis=1)[:, None])
    miss = p - (y[:, None] == np.arange(len(weights)))
    return (miss if weight is None else miss * weight[:, None]).T @ features - prior.grad_log_prob(weights)


def joined(weights: np.ndarray, info: kshot.inference.Info, prior: kshot.GaussianPrior) -> np.ndarray:
    return np.concatenate([weights, info.intercept[..., None]], axis=2) if prior.has_bias else weights


@pytest.mark.parametrize("variance", [1e-4, 1e-2, 1.0, 1e2])
@pytest.mark.parametrize("ways", [2, 3, 5, 20])
def test_weights_are_scikit_learns(variance: float, ways: int) -> None:
    for shots in (1, 5, 10, 50):
        X, y = draw(1, ways, shots, dim=5, seed=shots)
        (weights,), info = kshot.fit_tasks(iso(5, variance), X, y)
        assert info.converged.all()
        # The paper's prior is N(0, ½C): three or more classes need scikit-learn's C = σ², two its C = 2σ² for w₁ − w₀.
        C = 2 * variance if ways == 2 else variance
        peer = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it cannot get below its own rounding
            peer.fit(X[0], y[0])
        if ways == 2:
            np.testing.assert_allclose(weights[1] - weights[0], peer.coef_[0], atol=1e-6)
        else:
            np.testing.assert_allclose(weights, peer.coef_ - peer.coef_.mean(axis=0), atol=1e-6)


@given(
    seed=st.integers(0, 10**6),
    examples=st.integers(1, 14),
    dim=st.integers(1, 9),
    ways=st.integers(1, 6),
    log_variance=st.floats(-4, 3.5),
    kind=st.sampled_from(["iso", "diag", "full"]),
    has_bias=st.booleans(),
    weighted=st.booleans(),
    old=st.sampled_from([0, 1, 30, 1000]),
    scale=st.sampled_from([1e-3, 1.0, 20.0]),
)
@example(  # full Newton steps bounce between the two sides of this one for ever
    seed=1,
    examples=11,
    dim=1,
    ways=1,
    log_variance=0.0,
    kind="iso",
    has_bias=True,
    weighted=True,
    old=30,
    scale=1e-3,
)
@settings(deadline=None, max_examples=200)
def test_the_optimum_is_an_optimum(
    seed, examples, dim, ways, log_variance, kind, has_bias, weighted, old, scale
) -> None:
    random = np.random.default_rng(seed)
    ways = max(ways, 1 if old else 2)
    size = dim + has_bias
    variances = 10.0**log_variance * random.uniform(0.3, 3, size)
    if kind == "iso":
        covariance = ScaledIdentity(10.0**log_variance, size)
    elif kind == "diag":
        covariance = Diagonal(variances)
    else:
        half = random.normal(size=(size, 2 * size)) * np.sqrt(variances)[:, None]
        covariance = Cholesky.from_dense(half @ half.T / size + np.diag(variances))
    prior = kshot.GaussianPrior(random.normal(size=size), covariance, has_bias)
    X = scale * random.normal(size=(2, examples, dim))
    y = random.integers(0, ways, (2, examples))
    weight = random.choice([0.0, 0.5, 1.0, 3.0], (2, examples)) if weighted else None
    base, bias = (random.normal(size=(old, dim)), 2 * random.normal(size=old)) if old else (None, None)
    weights, info = kshot.fit_tasks(
        prior, X, y, sample_weight=weight, base_weights=base, base_bias=bias, ways=ways, X_query=X
    )
    assert info.converged.all() and np.isfinite(weights).all()
    np.testing.assert_allclose(info.proba.sum(axis=2), 1)
    everything = joined(weights, info, prior)
    for task in range(2):
        extra = {"weight": None if weight is None else weight[task], "base": base, "base_bias": bias}
        slope = gradient(prior, X[task], y[task], everything[task], **extra)
        assert np.abs(slope).max() <= 1e-8 * max(1.0, np.abs(X[task]).max())
        assert np.linalg.norm(slope, axis=1).max() <= info.gradient_norm[task] + 1e-8 * max(1.0, np.abs(X[task]).max())
        value = negative_log_posterior(prior, X[task], y[task], everything[task], **extra)
        assert info.objective[task] == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("variance", [1e-4, 3000.0])
@pytest.mark.parametrize("online", [False, True])
def test_extreme_scales_and_repeated_and_zero_examples_have_an_optimum(scale, variance, online) -> None:
    X, y = draw(3, 3, 4, dim=20, seed=1)
    X[0, 4:8], X[0, 11] = X[0, :4], 0.0  # the same features under two labels, and no features at all
    X[1] = X[1, 0]
    y[2] = np.random.default_rng(0).integers(0, 3, 12)
    X *= scale
    base = np.random.default_rng(2).normal(size=(1000, 20)) / max(scale, 1.0) if online else None
    prior = iso(20, variance)
    weights, info = kshot.fit_tasks(prior, X, y, base_weights=base, X_query=X)
    assert info.converged.all() and np.isfinite(info.proba).all()
    np.testing.assert_allclose(info.proba.sum(axis=2), 1)
    for task in range(3):
        slope = gradient(prior, X[task], y[task], weights[task], base=base)
        assert np.abs(slope).max() <= 1e-8 * max(1.0, np.abs(X[task]).max())


@pytest.mark.parametrize("has_bias", [False, True])
def test_new_classes_beside_a_thousand_old_ones_are_optimal_under_the_broadest_prior(has_bias: bool) -> None:
    random = np.random.default_rng(0)
    base, bias = 0.3 * random.normal(size=(1000, 64)), random.normal(size=1000)
    mean = base.mean(axis=0)
    for variance, shots in product((1e-2, 1.0, 3000.0), (1, 5)):
        X, y = draw(4, 5, shots, dim=64, seed=shots)
        X = np.maximum(X, 0)
        prior = kshot.GaussianPrior(mean, ScaledIdentity(variance, 64))
        if has_bias:
            variances = np.append(np.full(64, variance), 2.0)
            prior = kshot.GaussianPrior(np.append(mean, 0.3), Diagonal(variances), has_bias=True)
        weights, info = kshot.fit_tasks(prior, X, y, base_weights=base, base_bias=bias)
        assert info.converged.all()
        for task, w in enumerate(joined(weights, info, prior)):
            slope = gradient(prior, X[task], y[task], w, base=base, base_bias=bias)
            assert np.abs(slope).max() <= 1e-8 * np.abs(X[task]).max()


@pytest.mark.parametrize("kind", ["iso", "diag", "full"])
@pytest.mark.parametrize("old", [0, 12])
def test_the_general_solver_agrees(kind: str, old: int) -> None:
    random = np.random.default_rng(3)
    base = random.normal(size=(30, 7))
    prior = kshot.GaussianPrior.fit(base, covariance=kind, bias=random.normal(size=30))
    X, y = draw(2, 3, 4, dim=7, seed=5)
    tasks = Tasks.check(X, y, base_weights=base[:old] if old else None, base_bias=np.ones(old) if old else None)
    weights, info = kshot.fit_tasks(prior, X, y, base_weights=tasks.base_weights, base_bias=tasks.base_bias)
    general = lbfgs_map(prior, tasks)
    assert general.converged.all()
    np.testing.assert_allclose(general.weights, joined(weights, info, prior), atol=1e-6)
    np.testing.assert_allclose(general.objective, info.objective, atol=1e-8)


def test_more_examples_than_dimensions_are_solved_in_the_dimensions() -> None:
    X, y = draw(3, 4, 30, dim=6)
    weights, info = kshot.fit_tasks(iso(6, 0.5, mean=1.0), X, y)
    assert info.converged.all()
    for task in range(3):
        assert np.abs(gradient(iso(6, 0.5, mean=1.0), X[task], y[task], weights[task])).max() <= 1e-8 * np.abs(X).max()


def test_the_shared_mean_cancels_without_old_classes_and_matters_with_them() -> None:
    X, y = draw(2, 3, 2, dim=5)
    plain, _ = kshot.fit_tasks(iso(5), X, y)
    shifted, _ = kshot.fit_tasks(iso(5, mean=2.0), X, y)
    np.testing.assert_allclose(shifted - 2.0, plain, atol=1e-8)
    base = np.random.default_rng(0).normal(size=(4, 5))
    plain, _ = kshot.fit_tasks(iso(5), X, y, base_weights=base)
    shifted, _ = kshot.fit_tasks(iso(5, mean=2.0), X, y, base_weights=base)
    assert np.abs(shifted - 2.0 - plain).max() > 0.1


def test_the_weights_of_a_closed_task_average_to_the_prior_mean() -> None:
    X, y = draw(3, 4, 2, dim=6)
    weights, _ = kshot.fit_tasks(iso(6, mean=0.7), X, y)
    np.testing.assert_allclose(weights.mean(axis=1), 0.7, atol=1e-9)


def test_classes_without_examples_take_part() -> None:
    X, y = draw(2, 3, 2, dim=5)
    weights, info = kshot.fit_tasks(iso(5), X, y, ways=5)
    assert weights.shape == (2, 5, 5) and info.converged.all()
    for task in range(2):
        assert np.abs(gradient(iso(5), X[task], y[task], weights[task])).max() <= 1e-8 * np.abs(X).max()
    np.testing.assert_allclose(weights[:, 3], weights[:, 4], atol=1e-9)
    assert np.abs(weights[:, 3]).max() > 0.01


def test_padded_tasks_equal_those_of_their_own_length() -> None:
    X, y = draw(2, 3, 3, dim=5)
    mask = np.ones(y.shape, dtype=bool)
    mask[1, 6:] = False
    X[1, 6:], y[1, 6:] = np.nan, 99
    weights, info = kshot.fit_tasks(iso(5), X, y, mask=mask)
    for task, count in enumerate((9, 6)):
        alone, own = kshot.fit_tasks(iso(5), X[task : task + 1, :count], y[task : task + 1, :count], ways=3)
        np.testing.assert_allclose(weights[task], alone[0], atol=1e-8)
        assert info.objective[task] == pytest.approx(own.objective[0])


def test_a_weight_of_two_is_the_example_twice() -> None:
    X, y = draw(1, 3, 2, dim=5)
    weight = np.array([[2.0, 1, 1, 0, 1, 3]])
    weighted, _ = kshot.fit_tasks(iso(5), X, y, sample_weight=weight)
    rows = np.repeat(np.arange(6), weight[0].astype(int))
    repeated, _ = kshot.fit_tasks(iso(5), X[:, rows], y[:, rows])
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)


def test_a_task_has_the_same_answer_alone_and_among_many() -> None:
    X, y = draw(700, 5, 1, dim=16)
    prior = iso(16, 30.0)
    together, info = kshot.fit_tasks(prior, X, y)
    assert info.converged.all()
    for task in (0, 350, 699):
        alone, _ = kshot.fit_tasks(prior, X[task : task + 1], y[task : task + 1])
        np.testing.assert_allclose(together[task], alone[0], atol=1e-7)


def test_the_old_classes_matter_through_one_logit_per_example() -> None:
    X, y = draw(1, 3, 2, dim=4)
    base = np.random.default_rng(1).normal(size=(7, 4))
    weights, _ = kshot.fit_tasks(iso(4), X, y, base_weights=base)
    # One old class more, so improbable that it changes nothing; and all old classes twice, with half the odds each.
    same, _ = kshot.fit_tasks(iso(4), X, y, base_weights=np.vstack([base, base]), base_bias=np.full(14, -np.log(2)))
    np.testing.assert_allclose(weights, same, atol=1e-9)


def test_an_example_of_an_old_class_keeps_the_new_ones_away() -> None:
    X, y = draw(1, 2, 3, dim=4)
    base = np.random.default_rng(1).normal(size=(3, 4))
    outsider = X[:, :1] + 0.1
    _, before = kshot.fit_tasks(iso(4), X, y, base_weights=base, X_query=outsider)
    both, labels = np.concatenate([X, outsider], axis=1), np.concatenate([y, [[-1]]], axis=1)
    weights, info = kshot.fit_tasks(iso(4), both, labels, base_weights=base, X_query=outsider)
    assert info.converged.all()
    assert info.proba[0, 0, :3].sum() > before.proba[0, 0, :3].sum()
    # Any of the old classes: their shares among themselves are constants.
    slope = gradient(iso(4), both[0], np.append(y[0], 77), weights[0], base=base)
    assert np.abs(slope).max() <= 1e-8 * np.abs(both).max()


def test_float32_features_are_computed_in_double_precision() -> None:
    X, y = draw(2, 3, 2, dim=5)
    single = X.astype(np.float32)
    weights, info = kshot.fit_tasks(iso(5), single, y, X_query=single)
    assert weights.dtype == info.proba.dtype == np.float64
    np.testing.assert_allclose(weights, kshot.fit_tasks(iso(5), single.astype(np.float64), y)[0], atol=1e-9)


def test_a_task_that_did_not_converge_is_said_to_and_raises_nothing() -> None:
    X, y = draw(1, 3, 5, dim=30)
    target = (y == np.arange(3)[:, None, None]).astype(float)
    measure = partial(example_residual, X)
    found = minimise(Dual(100 * X @ X.swapaxes(1, 2)), Likelihood(target), measure=measure, max_steps=1)
    assert found.residual[0] > 1e-8 and found.steps[0] == 1


class Calibrated:
    """A prior with a temperature, as `kshot.calibrate` gives it."""

    def __init__(self, prior, temperature):
        self.prior, self.temperature = prior, temperature

    def log_prob(self, weights):
        return self.prior.log_prob(weights)


def test_a_calibrated_prior_multiplies_the_logits_by_its_temperature() -> None:
    X, y = draw(2, 3, 4, dim=5)
    weight = np.ones(y.shape)
    weight[1, y[1] == 0] = 0.0  # that task's other two classes have 4 examples each, of weight 2
    weight[1] *= 2
    base = np.random.default_rng(0).normal(size=(2, 5))
    asked = []
    prior = Calibrated(iso(5), lambda examples: asked.append(examples) or 1 + examples)
    weights, info = kshot.fit_tasks(prior, X, y, sample_weight=weight, base_weights=base, X_query=X)
    plain, _ = kshot.fit_tasks(iso(5), X, y, sample_weight=weight, base_weights=base)
    assert sorted(asked) == [4.0, 8.0]
    np.testing.assert_array_equal(weights, plain)
    for task, temperature in enumerate((5.0, 9.0)):
        logits = X[task] @ np.vstack([base, plain[task]]).T * temperature
        np.testing.assert_allclose(info.proba[task], np.exp(log_softmax(logits, axis=1)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"X": [[[1.0, np.nan], [0.0, 1.0]]]}, r"X holds a NaN or an infinity \(the first at index \[0, 0, 1\]\)"),
        ({"X": [[1.0, 2.0], [0.0, 1.0]]}, "X must have 3 dimensions"),
        ({"X": np.empty((1, 0, 2)), "y": np.empty((1, 0)), "ways": 2}, "X holds no examples"),
        ({"X": [[["a", "b"], ["c", "d"]]]}, "X must be an array of numbers"),
        ({"y": [[0, 1, 1]]}, r"y must have one label per example, shape \(1, 2\)"),
        ({"y": [[0, 0]]}, "y holds one class only"),
        ({"y": [[0, -1]]}, "y holds one class only|negative label"),
        ({"y": [["cat", "dog"]]}, "y must hold whole numbers"),
        ({"y": [[0.5, 1.0]]}, "y must hold whole numbers"),
        ({"ways": 1}, "label 1, and ways=1"),
        ({"mask": [[1, 0]]}, "mask must be an array of True and False"),
        ({"sample_weight": [[1.0]]}, "sample_weight must have shape"),
        ({"sample_weight": [[1.0, -1.0]]}, "not negative"),
        ({"base_weights": [[1.0, 2.0, 3.0]]}, "base_weights has 3 columns, and the features have 2"),
        ({"base_bias": [1.0]}, "base_bias was given without base_weights"),
        ({"base_weights": [[1.0, 2.0]], "base_bias": [1.0, 2.0]}, "base_bias must have one number per old class"),
        ({"base_weights": [[1.0, np.inf]]}, "base_weights holds a NaN"),
        ({"X_query": [[[1.0, 2.0, 3.0]]]}, "X_query must have shape"),
        ({"inference": "guess"}, "inference must be one of map.*'guess'"),
        ({"prior": iso(3)}, "the prior has 3 dimensions, and the features have 2"),
        ({"prior": kshot.GaussianPrior}, "prior must have a method log_prob"),
        ({"prior": "gauss"}, "prior must have a method log_prob"),
    ],
)
def test_bad_input_is_named_in_a_sentence(change: dict, sentence: str) -> None:
    arguments = {"prior": iso(2), "X": [[[1.0, 0.0], [0.0, 1.0]]], "y": [[0, 1]]} | change
    with pytest.raises(kshot.errors.UserError, match=sentence):
        kshot.fit_tasks(**arguments)
