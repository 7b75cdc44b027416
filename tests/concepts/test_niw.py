"""The normal-inverse-Wishart obeys Bayes' rule, and its mode and predictive density are what they are called."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import invgamma, invwishart, multivariate_normal, multivariate_t

from kshot.concepts import Cholesky, Covariance, Diagonal, ScaledIdentity
from kshot.concepts.niw import NormalInverseWishart
from kshot.errors import UserError

KINDS = ("iso", "diag", "full")


def proper(kind: str, dim: int, seed: int = 0) -> NormalInverseWishart:
    random = np.random.default_rng(seed)
    square = random.normal(size=(dim, dim))
    scale = {"iso": np.array(1.7), "diag": random.uniform(0.5, 2, dim), "full": square @ square.T + np.eye(dim)}[kind]
    return NormalInverseWishart(random.normal(size=dim), 1.3, scale, dim + 1.5)


def covariance(kind: str, dim: int, seed: int) -> Covariance:
    random = np.random.default_rng(seed)
    if kind == "iso":
        return ScaledIdentity(random.uniform(0.3, 2), dim)
    return (
        Diagonal(random.uniform(0.3, 2, dim))
        if kind == "diag"
        else Cholesky.from_dense(invwishart(dim + 2, np.eye(dim)).rvs(random_state=seed))
    )


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    dim=st.integers(1, 5),
    first=st.integers(1, 6),
    second=st.integers(1, 6),
    seed=st.integers(0, 999),
)
def test_two_halves_give_what_the_whole_gives(kind: str, dim: int, first: int, second: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(first + second, dim)) + 3
    whole = proper(kind, dim).update(vectors)
    halves = proper(kind, dim).update(vectors[:first]).update(vectors[first:])
    for name, value in whole.parameters().items():
        np.testing.assert_allclose(halves.parameters()[name], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_flat_prior_in_two_halves_gives_what_the_whole_gives(kind: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 3))
    flat = NormalInverseWishart.flat(3, kind=kind)
    whole, halves = flat.update(vectors), flat.update(vectors[:4]).update(vectors[4:])
    np.testing.assert_allclose(halves.scale, whole.scale, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(halves.mean, whole.mean, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_is_prior_times_likelihood(kind: str) -> None:
    """ln prior + ln likelihood − ln posterior is one number for all (μ, Σ); with S a sample covariance it is not."""
    vectors = np.random.default_rng(5).normal(size=(4, 3)) + 1
    before = proper(kind, 3)
    after = before.update(vectors)
    evidences = []
    for seed in range(5):
        mean, sigma = np.random.default_rng(seed).normal(size=3), covariance(kind, 3, seed)
        likelihood = multivariate_normal(mean, sigma.dense()).logpdf(vectors).sum()
        evidences.append(before.log_prob(mean, sigma) + likelihood - after.log_prob(mean, sigma))
    np.testing.assert_allclose(evidences, evidences[0], rtol=1e-10)


def test_full_density_is_scipys_normal_times_inverse_wishart() -> None:
    niw, sigma, mean = proper("full", 3), covariance("full", 3, 1), np.array([0.1, -0.4, 2.0])
    expected = invwishart(niw.dof, niw.scale).logpdf(sigma.dense())
    expected += multivariate_normal(niw.mean, sigma.dense() / niw.kappa).logpdf(mean)
    assert niw.log_prob(mean, sigma) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["iso", "diag"])
def test_factored_density_is_scipys_normal_times_inverse_gamma(kind: str) -> None:
    niw, sigma, mean = proper(kind, 3), covariance(kind, 3, 1), np.array([0.1, -0.4, 2.0])
    variances = sigma.diagonal()[:1] if kind == "iso" else sigma.diagonal()
    expected = invgamma(niw.dof / 2, scale=niw.scale / 2).logpdf(variances).sum()
    expected += multivariate_normal(niw.mean, sigma.dense() / niw.kappa).logpdf(mean)
    assert niw.log_prob(mean, sigma) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_mode_is_higher_than_everything_around_it(kind: str) -> None:
    niw = proper(kind, 3).update(np.random.default_rng(2).normal(size=(6, 3)))
    mean, sigma = niw.mode()
    top = niw.log_prob(mean, sigma)
    for s in (0.99, 1.01):
        assert niw.log_prob(mean, sigma.scaled(s)) < top
    for seed in range(20):
        step = 1e-2 * np.random.default_rng(seed).normal(size=(3, 3))
        assert niw.log_prob(mean + step[0], sigma) < top
        if kind == "full":
            assert niw.log_prob(mean, Cholesky.from_dense(sigma.dense() + (step + step.T) / 2)) < top
        if kind == "diag":
            assert niw.log_prob(mean, Diagonal(sigma.diagonal() * np.exp(step[0]))) < top


@pytest.mark.parametrize("kind", KINDS)
def test_one_dimension_is_the_same_whatever_the_kind(kind: str) -> None:
    vectors = np.array([[0.3], [1.1], [-2.0]])
    niw = NormalInverseWishart([0.5], 2.0, {"iso": 1.5, "diag": [1.5], "full": [[1.5]]}[kind], 4.0).update(vectors)
    mean, sigma = niw.mode()
    # Σ = Λ/(ν + p + 2), by hand
    scatter = ((vectors - vectors.mean()) ** 2).sum() + 2 * 3 / 5 * (vectors.mean() - 0.5) ** 2
    assert sigma.diagonal()[0] == pytest.approx((1.5 + scatter) / (4 + 3 + 1 + 2), rel=1e-12)
    assert mean[0] == pytest.approx((2 * 0.5 + vectors.sum()) / 5, rel=1e-12)


def test_predictive_is_the_gaussian_integrated_over_mean_and_variance() -> None:
    niw = NormalInverseWishart([0.5], 2.0, [[1.5]], 4.0)
    dof, mean, scale = niw.predictive()
    for w in (-1.0, 0.4, 3.0):
        # The mean integrates in closed form: w | σ² ~ N(m, σ² (1 + 1/κ)); the variance numerically.
        integral = quad(
            lambda v, w=w: multivariate_normal(0.5, v * 1.5).pdf(w) * invgamma(2.0, scale=0.75).pdf(v),
            0,
            np.inf,
            epsrel=1e-11,
        )[0]
        assert multivariate_t(mean, scale.dense(), dof).pdf(w) == pytest.approx(integral, rel=1e-8)


def test_improper_distributions_have_no_density_mode_or_predictive() -> None:
    with pytest.raises(UserError, match="improper"):
        NormalInverseWishart.flat(2, kind="diag").log_prob(np.zeros(2), Diagonal([1.0, 1.0]))
    with pytest.raises(UserError, match="no mode"):
        NormalInverseWishart.flat(2, kind="full").mode()
    with pytest.raises(UserError, match="larger nu0"):
        NormalInverseWishart.flat(2, kind="full").predictive()
    with pytest.raises(UserError, match="only a full covariance"):
        proper("diag", 2).predictive()
    with pytest.raises(UserError, match="covariance must be diag"):
        proper("diag", 2).log_prob(np.zeros(2), ScaledIdentity(1.0, 2))


@pytest.mark.parametrize(
    ("mean", "kappa", "scale"), [([0.0, 1.0], 1.0, [1.0]), ([[0.0]], 1.0, 1.0), ([0.0], -1.0, 1.0)]
)
def test_parameters_that_do_not_go_together_are_refused(mean: object, kappa: float, scale: object) -> None:
    with pytest.raises(UserError):
        NormalInverseWishart(mean, kappa, scale, 3.0)  # type: ignore[arg-type]
