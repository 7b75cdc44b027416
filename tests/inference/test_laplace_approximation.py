"""The Laplace approximation against dense linear algebra, quadrature and its own laws."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import log_expit
from sklearn.exceptions import ConvergenceWarning

import kshot
from kshot.concepts import Cholesky, Diagonal, Prior, ScaledIdentity
from kshot.errors import UserError
from kshot.inference import centre
from kshot.inference.curvature import local_covariance
from kshot.inference.factorise import ClassCurvature, factors
from kshot.inference.laplace import LaplacePosterior, infer
from kshot.inference.posterior import softmax
from kshot.inference.predictive import OldLogits, average_softmax, normal_draws, probit_softmax
from kshot.inference.settings import LaplaceApproximation
from kshot.inference.tasks import Tasks, with_constant
from kshot.inference.whitened import WhiteCurvature

WAYS, DIM, EXAMPLES = 3, 4, 7


def priors(dim: int = DIM, *, has_bias: bool = False) -> dict[str, Prior]:
    random = np.random.default_rng(5)
    mean = random.normal(size=dim)
    half = random.normal(size=(dim, dim))
    full = Cholesky.from_dense(half @ half.T + np.eye(dim))
    means = mean + 0.5 * random.normal(size=(2, dim))
    diagonals = (Diagonal(np.full(dim, 1.5)), Diagonal(random.uniform(0.5, 2, size=dim)))
    return {
        "iso": kshot.GaussianPrior(mean, ScaledIdentity(0.7, dim), has_bias),
        "full": kshot.GaussianPrior(mean, full, has_bias),
        "student-t": kshot.StudentTPrior(mean, full, 12.0, has_bias),
        "mixture-diag": kshot.MixturePrior(np.array([0.4, 0.6]), means, diagonals, has_bias),
        "mixture-full": kshot.MixturePrior(np.array([0.4, 0.6]), means, (full, full.scaled(1.7)), has_bias),
    }


def some_tasks(*, count: int = 3, online: bool = False, weighted: bool = False, seed: int = 0) -> Tasks:
    random = np.random.default_rng(seed)
    X = random.normal(size=(count, EXAMPLES, DIM))
    y = np.tile(np.arange(EXAMPLES) % WAYS, (count, 1))
    tasks = Tasks.check(X, y)
    if weighted:
        weight = random.uniform(0.3, 2.0, size=(count, EXAMPLES))
        weight[:, -1] = 0.0
        tasks = replace(tasks, weight=weight)
    if online:
        y = tasks.y.copy()
        y[:, 0] = -1  # an example of one of the old classes
        tasks = replace(tasks, y=y, base_weights=random.normal(size=(6, DIM)), base_bias=random.normal(size=6))
    return tasks


def fit(prior: Prior, tasks: Tasks, *, temperature: float = 1.0, **settings: object) -> LaplacePosterior:
    chosen = LaplaceApproximation(**settings) if settings else None  # type: ignore[arg-type]
    return infer(prior, tasks, temperature=np.full(tasks.count, temperature), random_state=0, settings=chosen)


def rows(posterior: LaplacePosterior, prior: Prior) -> np.ndarray:
    bias = posterior.info.intercept[..., None]
    return np.concatenate([posterior.weights, bias], axis=2) if getattr(prior, "has_bias", False) else posterior.weights


def gradient(prior: Prior, tasks: Tasks, task: int, flat: np.ndarray) -> np.ndarray:
    """∇ −ln p(W, y | X) of one task, written from the definition."""
    X = tasks.X[task]
    logits_old = np.zeros((len(X), 0))
    if tasks.base_weights is not None:
        logits_old = X @ tasks.base_weights.T + tasks.base_bias
    if getattr(prior, "has_bias", False):
        X = with_constant(X)
    W = flat.reshape(tasks.ways, -1)
    logits = np.concatenate([X @ W.T, logits_old], axis=1)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = (p / p.sum(axis=1, keepdims=True))[:, : tasks.ways]
    weight = np.ones(len(X)) if tasks.weight is None else tasks.weight[task]
    target = tasks.y[task][:, None] == np.arange(tasks.ways)
    return ((weight[:, None] * (p - target)).T @ X - prior.grad_log_prob(W)).ravel()


def dense_hessian(prior: Prior, tasks: Tasks, task: int, flat: np.ndarray, step: float = 1e-5) -> np.ndarray:
    return np.stack(
        [
            (gradient(prior, tasks, task, flat + step * e) - gradient(prior, tasks, task, flat - step * e)) / (2 * step)
            for e in np.eye(flat.size)
        ]
    )


@pytest.mark.parametrize("name", ["iso", "full", "student-t", "mixture-diag", "mixture-full"])
@pytest.mark.parametrize(
    ("online", "weighted", "has_bias"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, False)],
)
def test_covariance_and_evidence_are_those_of_the_dense_hessian(
    name: str, online: bool, weighted: bool, has_bias: bool
) -> None:
    prior = priors(DIM + has_bias, has_bias=has_bias)[name]
    tasks = some_tasks(online=online, weighted=weighted)
    posterior = fit(prior, tasks, centre="map")
    assert posterior.info.converged.all() and not posterior.info.diagnostics["flattened"].any()
    queries = np.random.default_rng(8).normal(size=(tasks.count, 4, DIM))
    logits, covariance = posterior.logits(slice(0, tasks.count), queries)
    Q = with_constant(queries) if has_bias else queries
    W = rows(posterior, prior)
    for task in range(tasks.count):
        hessian = dense_hessian(prior, tasks, task, W[task].ravel())
        inverse = np.linalg.inv(hessian).reshape(WAYS, W.shape[2], WAYS, W.shape[2])
        expected = np.einsum("md,cdke,me->mck", Q[task], inverse, Q[task])
        np.testing.assert_allclose(covariance[task], expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(logits[task], Q[task] @ W[task].T, atol=1e-10)
        evidence = (
            -posterior.info.objective[task]
            + 0.5 * hessian.shape[0] * np.log(2 * np.pi)
            - 0.5 * np.linalg.slogdet(hessian)[1]
        )
        np.testing.assert_allclose(posterior.info.diagnostics["log_evidence"][task], evidence, atol=1e-6)


def test_evidence_is_near_quadrature_in_one_dimension() -> None:
    prior = kshot.GaussianPrior([0.3], ScaledIdentity(1.0, 1))
    x, y = np.array([1.0, 0.6, -0.8]), np.array([0, 0, 1])
    posterior = fit(prior, Tasks.check(x[None, :, None], y[None]))

    def likelihood(d: float) -> float:  # d = w_0 − w_1 ~ N(0, 2)
        return float(np.exp(log_expit(np.where(y == 0, d * x, -d * x)).sum() - d**2 / 4) / np.sqrt(4 * np.pi))

    exact = np.log(quad(likelihood, -30, 30)[0])
    assert posterior.info.diagnostics["log_evidence"][0] == pytest.approx(exact, abs=0.05)


def test_sampled_predictions_equal_quadrature_of_the_gaussian() -> None:
    """Two classes: only f_0 − f_1 matters, a Gaussian in one dimension."""
    tasks = Tasks.check(np.random.default_rng(1).normal(size=(1, 4, 2)), [[0, 1, 0, 1]])
    posterior = fit(kshot.GaussianPrior([0.0, 0.0], ScaledIdentity(2.0, 2)), tasks, samples=4096)
    queries = np.random.default_rng(2).normal(size=(1, 5, 2))
    covariance = posterior.logits(slice(0, 1), queries)[1][0]
    mean, std = posterior.predict_moments(queries)
    for m in range(5):
        centre = float(queries[0, m] @ (posterior.weights[0, 0] - posterior.weights[0, 1]))
        spread = np.sqrt(covariance[m, 0, 0] + covariance[m, 1, 1] - 2 * covariance[m, 0, 1])

        def moment(power: int, centre: float = centre, spread: float = spread) -> float:
            def integrand(z: float) -> float:
                return float(np.exp(power * log_expit(centre + spread * z) - z * z / 2) / np.sqrt(2 * np.pi))

            return quad(integrand, -12, 12)[0]

        assert mean[0, m, 0] == pytest.approx(moment(1), abs=5e-4)
        assert std[0, m, 0] == pytest.approx(np.sqrt(moment(2) - moment(1) ** 2), abs=1e-3)


def test_without_examples_the_prediction_is_that_of_the_prior() -> None:
    """All padding: the posterior is the prior, here with one old class and one new: f ~ N(μ·x, σ²|x|²)."""
    prior = kshot.GaussianPrior([0.5, -1.0], ScaledIdentity(1.3, 2))
    tasks = replace(Tasks.check([[[1.0, 2.0]]], [[0]], base_weights=[[0.2, 0.1]]), weight=np.zeros((1, 1)))
    posterior = fit(prior, tasks, samples=4096)
    assert posterior.info.diagnostics["log_evidence"][0] == pytest.approx(0.0, abs=1e-10)
    x = np.array([0.7, -0.4])
    centre, spread = prior.mean @ x - np.array([0.2, 0.1]) @ x, np.sqrt(1.3 * x @ x)
    expected = quad(lambda z: np.exp(log_expit(centre + spread * z) - z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]
    assert posterior.predict_proba(x[None, None])[0, 0, 1] == pytest.approx(expected, abs=5e-4)


def test_batches_and_padding_change_nothing() -> None:
    prior, tasks = priors()["student-t"], some_tasks(count=4, online=True)
    together = fit(prior, tasks)
    queries = np.random.default_rng(3).normal(size=(4, 6, DIM))
    for task in range(4):
        alone = replace(tasks, X=tasks.X[task : task + 1], y=tasks.y[task : task + 1])
        padded = replace(
            alone,
            X=np.concatenate([alone.X, np.full((1, 2, DIM), 9.0)], axis=1),
            y=np.concatenate([alone.y, [[0, 1]]], axis=1),
            weight=np.concatenate([np.ones((1, EXAMPLES)), np.zeros((1, 2))], axis=1),
        )
        single = fit(prior, padded)
        np.testing.assert_allclose(
            single.predict_proba(queries[task : task + 1])[0], together.predict_proba(queries)[task], atol=1e-7
        )
        np.testing.assert_allclose(
            single.info.diagnostics["log_evidence"][0], together.info.diagnostics["log_evidence"][task], atol=1e-6
        )


def test_old_classes_are_constants_of_the_softmax() -> None:
    tasks = some_tasks(online=True)
    posterior = fit(priors()["full"], tasks, temperature=1.7, samples=64)
    queries = np.random.default_rng(3).normal(size=(tasks.count, 5, DIM))
    proba = posterior.predict_proba(queries)
    assert proba.shape == (tasks.count, 5, 6 + WAYS)
    np.testing.assert_allclose(proba.sum(axis=2), 1, atol=1e-12)
    assert tasks.base_weights is not None
    logits = (queries @ tasks.base_weights.T + tasks.base_bias) * 1.7
    np.testing.assert_allclose(np.log(proba[..., 1:6] / proba[..., :1]), logits[..., 1:] - logits[..., :1], atol=1e-10)


def test_a_temperature_is_a_power_of_the_averaged_probabilities_and_their_spread_is_that_of_sharper_draws() -> None:
    tasks, prior = some_tasks(count=1), priors()["iso"]
    queries = np.random.default_rng(3).normal(size=(1, 5, DIM))
    plain, sharp = (fit(prior, tasks, temperature=t, samples=64) for t in (1.0, 3.0))
    np.testing.assert_array_equal(sharp.weights, plain.weights)
    power = plain.predict_proba(queries) ** 3
    power /= power.sum(axis=2, keepdims=True)
    proba, std = sharp.predict_moments(queries)
    np.testing.assert_allclose(proba, power, atol=1e-12)
    np.testing.assert_allclose(sharp.predict_proba(queries), power, atol=1e-12)
    mean, covariance = plain.logits(slice(0, 1), queries)
    draws = normal_draws(64, WAYS, 0)
    for row in range(5):
        drawn = softmax(3.0 * (mean[0, row] + draws @ np.linalg.cholesky(covariance[0, row]).T))
        np.testing.assert_allclose(std[0, row], drawn.std(axis=0), atol=1e-9)


def test_predictions_are_repeatable_and_the_spread_falls_with_examples() -> None:
    prior = priors()["iso"]
    few = some_tasks(count=1)
    many = replace(few, X=np.repeat(few.X, 30, axis=1), y=np.repeat(few.y, 30, axis=1))
    queries = np.random.default_rng(3).normal(size=(1, 20, DIM))
    first, second = fit(prior, few), fit(prior, few)
    np.testing.assert_array_equal(first.predict_proba(queries), second.predict_proba(queries))
    np.testing.assert_array_equal(first.predict_proba(queries), first.predict_proba(queries))
    assert fit(prior, many).predict_moments(queries)[1].mean() < 0.5 * first.predict_moments(queries)[1].mean()


def test_a_query_without_spread_is_predicted() -> None:
    posterior = fit(priors()["iso"], some_tasks(count=1))
    np.testing.assert_allclose(posterior.predict_proba(np.zeros((1, 1, DIM))), 1 / WAYS, atol=1e-6)
    np.testing.assert_allclose(posterior.predict_moments(np.zeros((1, 1, DIM)))[1], 0, atol=1e-6)


def test_the_probit_formula_is_close_to_the_integral_for_two_classes() -> None:
    mean, covariance = np.array([[0.8, -0.3]]), np.array([[[1.2, 0.3], [0.3, 0.9]]])
    proba, _ = probit_softmax(mean, covariance, None)
    spread = np.sqrt(1.2 + 0.9 - 0.6)
    exact = quad(lambda z: np.exp(log_expit(1.1 + spread * z) - z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]
    assert proba[0, 0] == pytest.approx(exact, abs=0.01)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_the_probit_formula_has_the_right_limits() -> None:
    random = np.random.default_rng(0)
    mean, half = random.normal(size=(6, WAYS)), random.normal(size=(6, WAYS, WAYS))
    old = OldLogits(np.full((6, 2), 0.5), random.normal(size=6))
    small = 1e-8 * (half @ half.swapaxes(1, 2))
    proba, std = probit_softmax(mean, small, old)
    draws = mean.T[:, None, :] + 1e-4 * np.einsum("mcd,dsm->csm", half, random.normal(size=(WAYS, 4000, 6)))
    expected, spread = average_softmax(draws, old)
    np.testing.assert_allclose(proba, expected, atol=1e-5)
    np.testing.assert_allclose(std, spread, rtol=0.1)


def test_a_student_t_that_is_not_concave_at_the_mode_is_flattened_and_says_so() -> None:
    """ν = 1 and a sure fit: beyond d² = ν the prior's energy bends the other way."""
    prior = kshot.StudentTPrior(np.zeros(DIM), ScaledIdentity(1.0, DIM), 1.0)
    tasks = some_tasks(count=1)
    X = 0.3 * np.eye(DIM)[tasks.y] + 0.01 * tasks.X
    tasks = replace(tasks, X=np.repeat(X, 40, axis=1), y=np.repeat(tasks.y, 40, axis=1))
    posterior = fit(prior, tasks, centre="map")
    far = prior.scale.mahalanobis(posterior.weights[0]) > prior.dof
    assert far.any()
    local = local_covariance(prior, posterior.weights)
    assert local.flattened is not None
    np.testing.assert_array_equal(local.flattened[:, 0], far)
    assert posterior.info.diagnostics["flattened"][0]
    proba = posterior.predict_proba(tasks.X)
    assert np.isfinite(proba).all()


def test_priors_without_a_curvature_are_refused_in_a_sentence() -> None:
    class Own:
        def log_prob(self, weights: np.ndarray, /) -> np.ndarray:
            return -(weights**2).sum(axis=-1)

    with pytest.raises(UserError, match=r"no.* at its kinks.*\"map\" or \"nuts\""):
        fit(kshot.LaplacePrior(np.zeros(DIM), np.ones(DIM)), some_tasks())
    with pytest.raises(UserError, match=r"prior is a Own.*\"map\" or \"nuts\""):
        fit(Own(), some_tasks())


def test_the_mean_is_where_the_expected_gradient_vanishes() -> None:
    """Gauss-Hermite quadrature in one dimension: two classes, so that only the difference d of two weights matters."""
    prior = kshot.GaussianPrior([0.0], ScaledIdentity(3.0, 1))
    x, y = np.array([1.0, 0.6, 0.7, -0.8]), np.array([0, 0, 0, 1])
    tasks = Tasks.check(x[None, :, None], y[None])
    mode, mean = fit(prior, tasks, centre="map"), fit(prior, tasks)
    variance = mode.logits(slice(0, 1), np.ones((1, 1, 1)))[1][0, 0]
    spread = np.sqrt(variance[0, 0] + variance[1, 1] - 2 * variance[0, 1])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    d = mean.weights[0, 0, 0] - mean.weights[0, 1, 0]
    assert d > mode.weights[0, 0, 0] - mode.weights[0, 1, 0] + 0.1
    chance = np.exp(log_expit((d + spread * nodes)[:, None] * x)).T @ weights / weights.sum()
    assert x @ ((y == 0) - chance) - d / 6 == pytest.approx(0.0, abs=5e-3)


def test_the_mean_is_nearer_to_the_posteriors_than_the_mode_is() -> None:
    """Against quadrature of the exact posterior in one dimension."""
    prior = kshot.GaussianPrior([0.0], ScaledIdentity(3.0, 1))
    x, y = np.array([1.0, 0.6, 0.7, -0.8]), np.array([0, 0, 0, 1])
    tasks = Tasks.check(x[None, :, None], y[None])

    def density(d: float) -> float:
        return float(np.exp(log_expit(np.where(y == 0, d * x, -d * x)).sum() - d**2 / 12))

    total = quad(density, -40, 40)[0]
    for query in (0.3, 1.0, 2.5):
        exact = quad(lambda d, q=query: density(d) * np.exp(log_expit(d * q)), -40, 40)[0] / total
        near, far = (
            abs(
                fit(prior, tasks, centre=centre, samples=4096).predict_proba(np.full((1, 1, 1), query))[0, 0, 0] - exact
            )
            for centre in ("mean", "map")
        )
        assert near < 0.01 and near < 0.5 * far


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="centre must be"):
        LaplaceApproximation(centre="median")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="samples must be a whole number of at least 2"):
        LaplaceApproximation(samples=1)
    with pytest.raises(UserError, match="predictive must be"):
        LaplaceApproximation(predictive="exact")  # type: ignore[arg-type]


def test_two_new_classes_with_old_ones_equal_quadrature() -> None:
    """The C × C covariance matters: integrate the softmax over the plane of (f_0, f_1)."""
    mean, covariance, rest = np.array([0.4, -0.2]), np.array([[0.8, 0.5], [0.5, 1.1]]), 0.3
    old = OldLogits(np.ones((1, 1)), np.array([rest]))
    from kshot.inference.predictive import normal_draws

    factor = np.linalg.cholesky(covariance)
    draws = (mean + normal_draws(4096, 2, seed=0) @ factor.T).T[:, :, None]
    got, _ = average_softmax(draws, old)

    def integrand(b: float, a: float) -> float:
        f = mean + factor @ np.array([a, b])
        return float(np.exp(f[0]) / (np.exp(f).sum() + np.exp(rest)) * np.exp(-(a * a + b * b) / 2) / (2 * np.pi))

    assert got[0, 1] == pytest.approx(dblquad(integrand, -7, 7, -7, 7, epsabs=1e-6)[0], abs=5e-4)


def test_a_fitted_classifier_travels_to_another_process() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 4)), np.arange(12) % 3
    prior = kshot.GaussianPrior.fit(random.normal(size=(20, 4)))
    clf = kshot.KShotClassifier(prior, inference="laplace").fit(X, y)
    expected = clf.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), expected)


def broad_task(scale: float, *, seed: int = 0) -> Tasks:
    """Five overlapping classes of five examples, with a logit's prior variance of about 8 scale² under N(0, I)."""
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(5), 5)
    X = random.normal(size=(5, 8))[y] + random.normal(size=(25, 8))
    return Tasks.check((scale * X)[None], y[None])


@pytest.mark.parametrize("scale", [5.0, 20.0, 100.0])
def test_under_a_broad_prior_too_the_expected_gradient_vanishes_at_the_mean(scale: float) -> None:
    """E[∇ ln p(W, y)] written from its definition, over the draws that define the average."""
    prior, tasks = kshot.GaussianPrior(np.zeros(8), ScaledIdentity(1.0, 8)), broad_task(scale)
    posterior = fit(prior, tasks)
    assert posterior.info.converged.all()
    mean, covariance = posterior.logits(slice(0, 1), tasks.X)
    draws = np.einsum("ncd,sd->snc", factors(covariance[0]), normal_draws(64, 5, seed=0))
    chance = softmax(mean[0] + draws).mean(axis=0)
    target = tasks.y[0][:, None] == np.arange(5)
    expected = (target - chance).T @ tasks.X[0] - posterior.weights[0]
    assert np.linalg.norm(expected, axis=1).max() / np.abs(tasks.X).max() <= 1.1e-3
    assert posterior.info.diagnostics["centre_residual"][0] <= 1e-3


@pytest.mark.parametrize("size", [16, 256])
def test_a_broad_prior_costs_laplace_no_accuracy(size: float) -> None:
    """Raw pixels under N(0, I), a logit's variance 1e6 and 3e8: averaging is surer of the truth than MAP, not wrong."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = size * X
    point, average = (kshot.KShotClassifier(inference=name).fit(X[:20], y[:20]) for name in ("map", "laplace"))
    assert average.score(X[:20], y[:20]) == 1
    assert average.score(X[500:800], y[500:800]) > point.score(X[500:800], y[500:800]) - 0.03
    likelihoods = [
        np.log(each.predict_proba(X[500:800])[np.arange(300), y[500:800]]).mean() for each in (point, average)
    ]
    assert likelihoods[1] > likelihoods[0]


def test_a_mean_that_is_not_found_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centre, "_STEPS", 1)
    tasks = broad_task(100.0)
    with pytest.warns(ConvergenceWarning, match="posterior mean.*1 of 1 task.*narrow the prior"):
        _, info = kshot.fit_tasks(kshot.GaussianPrior(np.zeros(8), ScaledIdentity(1.0, 8)), tasks.X, tasks.y, "laplace")
    assert not info.converged.any() and info.diagnostics["centre_residual"][0] > 1e-3


@pytest.mark.parametrize("name", ["iso", "student-t", "mixture-full"])
@pytest.mark.parametrize(("online", "weighted"), [(False, False), (True, True)])
def test_white_coordinates_give_the_curvature_of_the_factorisation_by_classes(
    name: str, online: bool, weighted: bool
) -> None:
    prior, tasks = priors()[name], some_tasks(online=online, weighted=weighted)
    whole, mode = slice(0, tasks.count), fit(prior, tasks, centre="map").weights
    X, local = tasks.features(whole, constant=False), local_covariance(prior, mode)
    p, _ = tasks.likelihood(whole).evaluate((mode @ X.swapaxes(1, 2)).swapaxes(0, 1))
    queries = np.random.default_rng(8).normal(size=(tasks.count, 4, DIM))
    one, other = (kind.of(local, X, p, tasks.weight) for kind in (ClassCurvature, WhiteCurvature))
    np.testing.assert_allclose(other.covariance(X, queries), one.covariance(X, queries), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(other.logdet, one.logdet, atol=1e-8)


@pytest.mark.parametrize("size", [1e4, 1e6])
def test_dependent_examples_with_large_features_have_the_covariance_of_the_dense_hessian(size: float) -> None:
    random = np.random.default_rng(0)
    tasks = Tasks.check(size * random.normal(size=(1, 12, 6)), np.repeat([0, 1, 2], 4)[None])
    posterior = fit(kshot.GaussianPrior(np.zeros(6), ScaledIdentity(1.0, 6)), tasks, centre="map")
    W, X = posterior.weights[0], tasks.X[0]
    p = softmax(X @ W.T)
    rows = np.sqrt(p)[:, :, None] * (np.eye(3) - p[:, None, :])  # √p_k (e_k − p), of which W = Σ_k is made
    G = np.einsum("nkc,nd->nkcd", rows, X).reshape(-1, 18)
    _, spread, basis = np.linalg.svd(G)
    Q = random.normal(size=(5, 6))
    pulled = np.einsum("qcd,md->mqc", (basis / np.hypot(1, spread)[:, None]).reshape(18, 3, 6), Q)
    expected = np.einsum("mqc,mqk->mck", pulled, pulled)
    np.testing.assert_allclose(posterior.logits(slice(0, 1), Q[None])[1][0], expected, rtol=1e-3, atol=1e-6)


def test_features_of_any_size_give_probabilities_or_a_sentence() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 6)), np.repeat([0, 1, 2], 4)
    clf = kshot.KShotClassifier(inference="laplace").fit(1e4 * X, y)
    assert np.isfinite(clf.predict_proba(1e4 * X)).all() and clf.score(1e4 * X, y) == 1
    twice = 1e8 * np.concatenate([X[:4], X[:4]])  # the same examples under contradictory labels
    clf = kshot.KShotClassifier(inference="laplace").fit(twice, [0, 1, 0, 1, 1, 0, 1, 0])
    np.testing.assert_allclose(clf.predict_proba(twice), 0.5, atol=0.05)
    with pytest.raises(UserError, match="divide the features by their size, or narrow the prior"):
        kshot.KShotClassifier(inference="laplace").fit(1e160 * X, y)
    with pytest.raises(UserError, match="divide the features by their size, or narrow the prior"):
        kshot.KShotClassifier(inference="laplace").fit(X, y).predict_proba(1e160 * X)


def test_features_in_single_precision_bring_no_warning() -> None:
    tasks = some_tasks(count=1)
    tasks = replace(tasks, X=tasks.X.astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(priors()["iso"], tasks)
