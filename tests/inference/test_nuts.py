"""NUTS against quadrature, closed forms, and itself in other coordinates."""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import dblquad, quad
from scipy.special import expit

import kshot
from kshot.concepts import Cholesky, Diagonal, Prior, ScaledIdentity
from kshot.errors import MissingExtraError, UserError
from kshot.inference import NUTS, LaplaceApproximation, SamplingWarning, fit_tasks
from kshot.inference.diagnostics import effective_sample_size, split_rhat, warn_if_poor
from kshot.inference.progress import Progress
from kshot.inference.tasks import Tasks

pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = pytest.mark.sample

Floats = NDArray[np.float64]
# One setting and few shapes: each pair of them is compiled, which takes seconds.
SETTINGS = NUTS(chains=2, warmup=300, draws=1000)


class Own:
    """A user's prior: any density, known by its values only, and so sampled in all its dimensions."""

    def __init__(self, density: Prior) -> None:
        self.density = density

    def log_prob(self, weights: Any, /) -> Any:
        return self.density.log_prob(weights)


LINE: dict[str, Prior] = {
    "gaussian": kshot.GaussianPrior([0.4], ScaledIdentity(2.0, 1)),
    "student-t": kshot.StudentTPrior([0.4], ScaledIdentity(1.0, 1), 3.0),
    "mixture": kshot.MixturePrior(
        np.array([0.3, 0.7]), np.array([[-1.0], [1.2]]), (ScaledIdentity(0.5, 1), ScaledIdentity(1.5, 1))
    ),
    "laplace": kshot.LaplacePrior([0.4], [1.0]),
    "own": Own(kshot.GaussianPrior([0.4], ScaledIdentity(2.0, 1))),
}
X_LINE, Y_LINE, QUERIES = np.array([1.0, 0.6, -0.8, 0.3]), np.array([0, 0, 1, 1]), np.array([0.5, -1.5, 3.0])


def posterior_of(prior: Prior, tasks: Tasks, *, seed: int = 0, temperature: float = 1.0) -> Any:
    from kshot.inference.nuts import infer

    return infer(prior, tasks, temperature=np.full(tasks.count, temperature), random_state=seed, settings=SETTINGS)


def by_quadrature(prior: Prior, query: float, *, rest: float | None = None) -> tuple[float, float]:
    """Give E[p(class 0 | query)] and its standard deviation, integrated over the two weights on a grid."""
    points = np.linspace(-25, 25, 1501)
    density = np.exp(np.asarray(prior.log_prob(points[:, None])))
    joint = density[:, None] * density[None, :]
    for x, y in zip(X_LINE, Y_LINE, strict=True):
        f0, f1 = points[:, None] * x, points[None, :] * x
        joint = joint * (expit(f0 - f1) if y == 0 else expit(f1 - f0))
    joint /= joint.sum()
    p = expit((points[:, None] - points[None, :]) * query)
    mean = float((joint * p).sum())
    return mean, float(np.sqrt((joint * p * p).sum() - mean**2))


@pytest.mark.parametrize("name", list(LINE))
def test_predictions_equal_quadrature_for_two_classes_in_one_dimension(name: str) -> None:
    tasks = Tasks.check(X_LINE[None, :, None], Y_LINE[None])
    posterior = posterior_of(LINE[name], tasks)
    mean, std = posterior.predict_moments(QUERIES[None, :, None])
    effective = posterior.info.diagnostics["ess"][0]
    assert effective > 300
    for m, query in enumerate(QUERIES):
        expected, spread = by_quadrature(LINE[name], query)
        assert mean[0, m, 0] == pytest.approx(expected, abs=4 * spread / np.sqrt(effective))
        assert std[0, m, 0] == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("name", list(LINE))
def test_without_examples_the_draws_are_the_priors(name: str) -> None:
    tasks = replace(Tasks.check(X_LINE[None, :, None], Y_LINE[None]), weight=np.zeros((1, 4)))
    posterior = posterior_of(LINE[name], tasks)
    points = np.linspace(-60, 60, 200001)
    density = np.exp(np.asarray(LINE[name].log_prob(points[:, None])))
    for low, high in ((-np.inf, 0.0), (0.0, 1.0), (1.0, np.inf)):
        inside = (points > low) & (points < high)
        expected = density[inside].sum() / density.sum()
        draws = posterior.sample_weights()[..., 0]
        assert ((draws > low) & (draws < high)).mean() == pytest.approx(expected, abs=0.05)
    np.testing.assert_allclose(posterior.predict_proba(QUERIES[None, :, None]).sum(axis=2), 1)


def test_one_new_class_beside_an_old_one_equals_quadrature() -> None:
    """Online with examples of both: one weight w is unknown, and the old class has the logit 0.7 x − 0.2."""
    prior, x, y = LINE["gaussian"], X_LINE, np.array([0, 0, -1, -1])
    tasks = Tasks.check(x[None, :, None], y[None], base_weights=[[0.7]], base_bias=[-0.2], ways=1)
    posterior = posterior_of(prior, tasks)
    mean, std = posterior.predict_moments(QUERIES[None, :, None])

    def density(w: float) -> float:
        margin = w * x - (0.7 * x - 0.2)
        return float(np.exp(prior.log_prob(np.array([[w]]))[0]) * np.prod(expit(np.where(y == 0, margin, -margin))))

    total = quad(density, -20, 20)[0]
    for m, query in enumerate(QUERIES):
        expected = quad(lambda w, q=query: density(w) * expit(w * q - (0.7 * q - 0.2)), -20, 20)[0] / total
        error = 4 * std[0, m, 1] / np.sqrt(posterior.info.diagnostics["ess"][0])
        assert mean[0, m, 1] == pytest.approx(expected, abs=error)
        assert mean[0, m].sum() == pytest.approx(1)


def plane(online: bool = False, *, seed: int = 3) -> tuple[Tasks, Floats]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(1, 6, 8))
    tasks = Tasks.check(X, np.arange(6)[None] % 3)
    if online:
        tasks = replace(tasks, base_weights=random.normal(size=(4, 8)), base_bias=random.normal(size=4))
    return tasks, random.normal(size=(1, 10, 8))


def broad(name: str) -> Any:
    random = np.random.default_rng(1)
    half = random.normal(size=(8, 8)) / 3
    full = Cholesky.from_dense(half @ half.T + 0.3 * np.eye(8))
    mean = 0.3 * random.normal(size=8)
    return {
        "gaussian": kshot.GaussianPrior(mean, full),
        "student-t": kshot.StudentTPrior(mean, full, 5.0),
        "mixture": kshot.MixturePrior(np.array([0.4, 0.6]), np.stack([mean, -mean]), (full, full.scaled(2.0))),
    }[name]


@pytest.mark.parametrize("name", ["gaussian", "student-t"])
@pytest.mark.slow
def test_reduced_and_full_dimensional_sampling_agree(name: str) -> None:
    """Six examples in eight dimensions, online: 6 or 6 + 1 coordinates a class against 8."""
    prior, (tasks, queries) = broad(name), plane(online=True)
    reduced, whole = posterior_of(prior, tasks), posterior_of(Own(prior), tasks)
    (p, spread), q = reduced.predict_moments(queries), whole.predict_proba(queries)
    effective = min(reduced.info.diagnostics["ess"][0], whole.info.diagnostics["ess"][0])
    assert effective > 300
    error = np.abs(p - q)[0] / (spread[0] * np.sqrt(2 / effective))
    assert error.max() < 4.5 and np.sqrt((error**2).mean()) < 1.5
    shift = np.abs(reduced.weights - whole.weights)
    scale = whole.sample_weights().std(axis=0) * np.sqrt(2 / effective)
    assert (shift[0] / scale).max() < 4.5


@pytest.mark.parametrize("name", ["gaussian", "student-t", "mixture"])
def test_what_lies_outside_the_span_is_added_as_the_prior_has_it(name: str) -> None:
    """Coordinates of weights from the prior, and weights drawn again given them: jointly as before."""
    from kshot.inference.draws import reduce_task
    from kshot.inference.reduction import Noise

    random = np.random.default_rng(0)
    X = random.normal(size=(1, 3, 8))
    prior, count = broad(name), 60_000
    one_class = replace(Tasks.check(X, [[0, 1, 1]]), ways=1, base_weights=np.zeros((1, 8)))
    reduction = reduce_task(prior, one_class, 0)
    W = prior.sample(count, seed=2)
    scale = np.ones(count)
    if name == "student-t":  # its scale is not a function of the weights: draw both
        scale = random.gamma(2.5, 1 / 2.5, size=count)
        W = prior.mean + prior.scale.factor_t_matmul(random.normal(size=(count, 8))) / np.sqrt(scale)[:, None]
    arrays = reduction.arrays
    q = ((W @ X[0].T - arrays["offset"]) * np.sqrt(scale)[:, None]) @ np.linalg.pinv(arrays["factor"])
    if name == "student-t":
        q = np.concatenate([q, np.sqrt(2.5) * np.log(scale)[:, None]], axis=1)
    again = reduction.weights(q[:, None], np.random.default_rng(3))[:, 0]
    np.testing.assert_allclose(again @ X[0].T, W @ X[0].T, atol=1e-9)
    Q = random.normal(size=(2, 8))
    logits = reduction.logits(q[:, None], Q, Noise.of(np.random.default_rng(4), count, 1))[0]
    for drawn in (again @ Q.T, logits):
        for function in (
            lambda f: f,
            np.tanh,
            lambda f: np.tanh(f) ** 2,
        ):  # alone, and together with the support's logits
            for factor in (np.ones(count), np.tanh(W @ X[0, 0])):
                old, new = function(W @ Q.T) * factor[:, None], function(drawn) * factor[:, None]
                error = np.abs(old.mean(axis=0) - new.mean(axis=0)) / (old.std(axis=0) * np.sqrt(2 / count))
                assert error.max() < 4.5
    if name == "mixture":  # in the mean, the components are averaged and not drawn
        np.testing.assert_allclose(
            reduction.mean_weights(q[:, None])[0], again.mean(axis=0), atol=4.5 * again.std() / np.sqrt(count)
        )


def test_the_rank_is_used_where_the_kernel_is_singular() -> None:
    """Repeated examples equal doubled weights; fewer dimensions than examples; none at all."""
    prior, (tasks, queries) = kshot.GaussianPrior(np.zeros(8), ScaledIdentity(0.5, 8)), plane()
    X, y = tasks.X[:, :3], tasks.y[:, :3]
    doubled = Tasks.check(np.concatenate([X, X], axis=1), np.concatenate([y, y], axis=1))
    weighted = replace(tasks, weight=np.array([[2.0, 2.0, 2.0, 0.0, 0.0, 0.0]]))
    first, second = posterior_of(prior, doubled), posterior_of(prior, weighted)
    assert first.draws[0].shape == second.draws[0].shape == (2000, 2, 3)
    (p, spread), q = first.predict_moments(queries), second.predict_proba(queries)
    effective = min(first.info.diagnostics["ess"][0], second.info.diagnostics["ess"][0])
    assert (np.abs(p - q) / (spread * np.sqrt(2 / effective))).max() < 4.5
    assert posterior_of(prior, replace(tasks, X=tasks.X * (np.arange(8) < 2))).draws[0].shape == (2000, 2, 2)
    assert posterior_of(prior, replace(tasks, X=0 * tasks.X)).draws[0].shape == (2000, 2, 0)


def test_draws_are_repeatable_whatever_the_number_of_jobs_and_of_tasks() -> None:
    prior, (tasks, queries) = (
        LINE["gaussian"],
        (Tasks.check(X_LINE[None, :, None], Y_LINE[None]), QUERIES[None, :, None]),
    )
    two = replace(tasks, X=np.repeat(tasks.X, 2, axis=0), y=np.repeat(tasks.y, 2, axis=0))
    from kshot.inference.nuts import infer

    def run(tasks: Tasks, jobs: int, seed: int = 0) -> Any:
        return infer(
            prior, tasks, temperature=np.ones(tasks.count), random_state=seed, settings=replace(SETTINGS, jobs=jobs)
        )

    one, both = run(tasks, 1), run(two, 2)
    np.testing.assert_array_equal(one.predict_proba(queries)[0], both.predict_proba(np.repeat(queries, 2, axis=0))[0])
    np.testing.assert_array_equal(both.draws[0], run(two, 1).draws[0])
    assert not np.array_equal(one.draws[0], run(tasks, 1, seed=1).draws[0])
    assert not np.array_equal(both.draws[0], both.draws[1])


def test_fit_tasks_and_the_settings_object() -> None:
    weights, info = fit_tasks(
        LINE["gaussian"], X_LINE[None, :, None], Y_LINE[None], inference=SETTINGS, X_query=QUERIES[None, :, None]
    )
    posterior = posterior_of(LINE["gaussian"], Tasks.check(X_LINE[None, :, None], Y_LINE[None]))
    np.testing.assert_array_equal(weights, posterior.weights)
    np.testing.assert_array_equal(info.proba, posterior.predict_proba(QUERIES[None, :, None]))
    assert info.converged.all() and set(info.diagnostics) >= {"rhat", "ess", "divergences"}
    with pytest.raises(UserError, match="draws must be a whole number"):
        NUTS(draws=0)
    with pytest.raises(UserError, match="target_accept must lie between 0 and 1"):
        NUTS(target_accept=1.5)


def test_the_laplace_approximation_is_near_and_a_temperature_is_a_power_of_the_average() -> None:
    tasks, queries = plane(online=True)
    prior = kshot.GaussianPrior(np.zeros(8), ScaledIdentity(0.3, 8), False)
    posterior = posterior_of(prior, tasks)
    from kshot.inference.laplace import infer

    approximate = infer(
        prior, tasks, temperature=np.ones(1), random_state=0, settings=LaplaceApproximation(samples=4096)
    )
    distance = 0.5 * np.abs(posterior.predict_proba(queries) - approximate.predict_proba(queries)).sum(axis=2).mean()
    assert distance < 0.02
    sharp = replace(posterior, temperature=np.array([2.0]))
    square = posterior.predict_proba(queries) ** 2
    np.testing.assert_allclose(sharp.predict_proba(queries), square / square.sum(axis=2, keepdims=True), atol=1e-9)
    assert (sharp.predict_moments(queries)[1] != posterior.predict_moments(queries)[1]).any()


def test_a_bias_is_one_more_weight() -> None:
    """A constant feature by hand gives the same draws."""
    tasks, queries = plane()
    by_hand = replace(tasks, X=np.concatenate([tasks.X[..., :7], np.ones((1, 6, 1))], axis=2))
    with_bias = replace(tasks, X=tasks.X[..., :7])
    covariance = Diagonal(np.r_[np.full(7, 0.5), 2.0])
    first = posterior_of(kshot.GaussianPrior(np.zeros(8), covariance, True), with_bias)
    second = posterior_of(kshot.GaussianPrior(np.zeros(8), covariance, False), by_hand)
    np.testing.assert_allclose(first.info.intercept, second.weights[..., 7], atol=1e-10)
    constant = np.concatenate([queries[..., :7], np.ones((1, 10, 1))], axis=2)
    np.testing.assert_allclose(first.predict_proba(queries[..., :7]), second.predict_proba(constant), atol=1e-10)


def test_a_log_prob_that_jax_cannot_follow_is_refused_in_a_sentence() -> None:
    class Numeric:
        def log_prob(self, weights: Any, /) -> Any:
            return -np.exp(weights).sum(axis=-1)

    class Scalar:
        def log_prob(self, weights: Any, /) -> Any:
            return -(weights**2).sum()

    tasks = Tasks.check(X_LINE[None, :, None], Y_LINE[None])
    with pytest.raises(UserError, match=r"Numeric.log_prob must work on JAX arrays.*xp = weights.__array_namespace__"):
        posterior_of(Numeric(), tasks)
    with pytest.raises(UserError, match="one number per row"):
        posterior_of(Scalar(), tasks)


def test_no_switch_of_jax_is_changed() -> None:
    import jax
    import jax.numpy as jnp

    posterior_of(LINE["gaussian"], Tasks.check(X_LINE[None, :, None], Y_LINE[None]))
    assert not jax.config.jax_enable_x64
    assert jnp.ones(2).dtype == jnp.float32


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blackjax", None)
    monkeypatch.delitem(sys.modules, "kshot.inference.nuts", raising=False)
    with pytest.raises(MissingExtraError, match=r'sampling needs JAX and blackjax: pip install "kshot\[sample\]"'):
        importlib.import_module("kshot.inference.nuts")


def test_the_effective_sample_size_of_autoregressive_chains_is_known() -> None:
    random = np.random.default_rng(0)
    rho = np.array([0.0, 0.5, 0.9, -0.4])
    chains = np.zeros((4, 5000, 4))
    for t in range(1, 5000):
        chains[:, t] = rho * chains[:, t - 1] + np.sqrt(1 - rho**2) * random.normal(size=(4, 4))
    np.testing.assert_allclose(effective_sample_size(chains), 20000 * (1 - rho) / (1 + rho), rtol=0.15)
    np.testing.assert_allclose(split_rhat(chains), 1, atol=0.01)
    from blackjax.diagnostics import effective_sample_size as theirs

    short = chains[:, :400]
    np.testing.assert_allclose(effective_sample_size(short)[:3], np.asarray(theirs(short))[:3], rtol=0.05)


def test_chains_that_disagree_and_chains_that_drift_have_a_large_rhat() -> None:
    random = np.random.default_rng(0)
    chains = random.normal(size=(2, 500, 3))
    chains[0, :, 1] += 1.0
    chains[:, :, 2] += np.linspace(0, 3, 500)
    rhat = split_rhat(chains)
    assert rhat[0] < 1.02 and rhat[1] > 1.1 and rhat[2] > 1.1
    assert effective_sample_size(chains)[1] < 50


def test_warnings_say_in_words_what_to_do() -> None:
    good = {"rhat": np.array([1.0, 1.0]), "ess": np.array([900.0, 800.0]), "divergences": np.array([0, 0])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert warn_if_poor(good, chains=2).all()
    for change, words in (
        ({"divergences": np.array([0, 7])}, "1 of 2 tasks had divergent steps.*raise target_accept"),
        ({"rhat": np.array([1.0, 1.4])}, "the chains disagree.*raise warmup and draws"),
        ({"ess": np.array([900.0, 30.0])}, "as few as 30 effective draws.*raise draws"),
    ):
        with pytest.warns(SamplingWarning, match=words):
            np.testing.assert_array_equal(warn_if_poor({**good, **change}, chains=2), [True, False])


def test_progress_is_shown_when_asked_and_not_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    for shown, expected in ((None, False), (True, True), (False, False)):
        with Progress("sampling", 2, shown=shown) as progress:
            progress.advance()
            progress.advance()
        assert ("sampling" in capsys.readouterr().err) == expected


def test_a_step_can_be_undone_keeps_volumes_and_follows_an_oscillator() -> None:
    """The laws that make the sampler exact, in three dimensions with a curved density and unequal masses."""
    import jax
    import jax.numpy as jnp
    from blackjax.mcmc.integrators import IntegratorState

    from kshot.inference.integrator import turn_and_kick

    inverse_mass, stiffness = np.array([0.5, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])

    def kinetic(p: Any) -> Any:
        return 0.5 * (inverse_mass * p * p).sum()

    def curved(q: Any) -> Any:
        return -0.5 * (q * q).sum() - jnp.log1p(jnp.exp(q[0] * q[1] + q[2]))

    def move(step: Any, density: Any, q: Any, p: Any, size: float) -> Any:
        state = step(IntegratorState(q, p, density(q), jax.grad(density)(q)), size)
        return jnp.concatenate([state.position, state.momentum])

    with jax.enable_x64(True):
        step = turn_and_kick(curved, kinetic, stiffness=stiffness)
        start = jnp.array([0.3, -0.4, 0.8, 1.0, -0.2, 0.5])
        there = move(step, curved, start[:3], start[3:], 0.7)
        back = move(step, curved, there[:3], there[3:], -0.7)
        np.testing.assert_allclose(back, start, atol=1e-12)
        jacobian = jax.jacobian(lambda s: move(step, curved, s[:3], s[3:], 0.7))(start)
        assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-12)

        def normal(q: Any) -> Any:
            return -0.5 * (q * q).sum()

        step = turn_and_kick(normal, kinetic, stiffness=np.ones(3))
        there = move(step, normal, start[:3], start[3:], 1.9)
        before, after = (float(kinetic(s[3:]) - normal(s[:3])) for s in (start, there))
        assert after == pytest.approx(before, abs=1e-12)


def test_the_quadrature_of_these_tests_is_right() -> None:
    """The grid against adaptive integration."""
    prior = LINE["gaussian"]

    def integrand(b: float, a: float) -> float:
        value = float(np.exp(prior.log_prob(np.array([[a], [b]])).sum()))
        return value * float(np.prod(np.where(Y_LINE == 0, expit((a - b) * X_LINE), expit((b - a) * X_LINE))))

    total = dblquad(integrand, -10, 10, -10, 10, epsabs=1e-7)[0]
    top = dblquad(lambda b, a: integrand(b, a) * expit((a - b) * 0.5), -10, 10, -10, 10, epsabs=1e-7)[0]
    assert by_quadrature(prior, 0.5)[0] == pytest.approx(top / total, abs=1e-5)
    assert quad(lambda w: float(np.exp(prior.log_prob(np.array([[w]]))[0])), -20, 20)[0] == pytest.approx(1)


@pytest.mark.parametrize("shots", [5, 10])
@pytest.mark.slow
def test_the_laplace_approximation_is_within_two_hundredths_of_nuts(shots: int) -> None:
    """5-way tasks with a prior under which a logit has variance 4: mean total variation distance over queries."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(5, 64))
    y, asked = np.repeat(np.arange(5), shots), np.repeat(np.arange(5), 15)
    X, queries = (np.maximum(centres[c] + 1.5 * random.normal(size=(len(c), 64)), 0.0) for c in (y, asked))
    prior = kshot.GaussianPrior(np.zeros(64), ScaledIdentity(4 / (X**2).sum(axis=1).mean(), 64))
    settings = NUTS(chains=2, warmup=300, draws=3000)
    exact = fit_tasks(prior, X[None], y[None], inference=settings, X_query=queries[None])[1]
    assert exact.diagnostics["ess"][0] >= 4000 and exact.proba is not None
    proba = fit_tasks(prior, X[None], y[None], inference="laplace", X_query=queries[None])[1].proba
    assert 0.5 * np.abs(proba - exact.proba).sum(axis=2).mean() < 0.02
    about_map = LaplaceApproximation(centre="map")
    proba = fit_tasks(prior, X[None], y[None], inference=about_map, X_query=queries[None])[1].proba
    assert 0.5 * np.abs(proba - exact.proba).sum(axis=2).mean() > 0.02  # the textbook's is not
