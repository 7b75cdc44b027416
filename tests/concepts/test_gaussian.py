"""The Gaussian prior is maximum likelihood by default where that exists, and else a shrunken covariance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kshot import GaussianPrior, load_prior
from kshot.concepts import Cholesky, Diagonal, ScaledIdentity
from kshot.errors import UserError


@pytest.mark.parametrize("kind", ["iso", "diag", "full"])
def test_density_is_scipys(kind: str, base_weights: np.ndarray) -> None:
    prior = GaussianPrior.fit(base_weights, covariance=kind)
    weights = prior.sample(50, seed=0)
    expected = multivariate_normal(prior.mean, prior.covariance.dense()).logpdf(weights)
    np.testing.assert_allclose(prior.log_prob(weights), expected, rtol=1e-9)


def test_iso_is_the_empirical_mean_and_maximum_likelihood_variance(base_weights: np.ndarray) -> None:
    prior = GaussianPrior.fit(base_weights)
    np.testing.assert_array_equal(prior.mean, base_weights.mean(axis=0))
    assert isinstance(prior.covariance, ScaledIdentity)
    assert prior.covariance.variance == pytest.approx(
        ((base_weights - base_weights.mean(axis=0)) ** 2).mean(), rel=1e-14
    )


def test_diag_is_the_empirical_mean_and_maximum_likelihood_variances(base_weights: np.ndarray) -> None:
    prior = GaussianPrior.fit(base_weights, covariance="diag")
    np.testing.assert_array_equal(prior.mean, base_weights.mean(axis=0))
    assert isinstance(prior.covariance, Diagonal)
    np.testing.assert_allclose(prior.covariance.variances, base_weights.var(axis=0), rtol=1e-14)


def test_flat_full_prior_is_maximum_likelihood(base_weights: np.ndarray) -> None:
    prior = GaussianPrior.fit(base_weights, covariance="full", kappa0=0, nu0=-(6 + 2), lambda0=0)
    np.testing.assert_allclose(prior.covariance.dense(), np.cov(base_weights, rowvar=False, bias=True), rtol=1e-10)


@pytest.mark.parametrize("kind", ["iso", "diag", "full"])
def test_fit_is_the_mode_of_its_posterior(kind: str, base_weights: np.ndarray) -> None:
    prior = GaussianPrior.fit(base_weights, covariance=kind, mu0=0.0, kappa0=2.0, lambda0=0.3, nu0=9.0)
    assert prior.posterior is not None
    assert prior.posterior.kappa == 22
    assert prior.posterior.dof == 9 + (20 * 6 if kind == "iso" else 20)
    top = prior.posterior.log_prob(prior.mean, prior.covariance)
    for s in (0.99, 1.01):
        assert prior.posterior.log_prob(prior.mean, prior.covariance.scaled(s)) < top
    # κ₀ vectors' worth of μ₀ = 0
    np.testing.assert_allclose(prior.mean, base_weights.sum(axis=0) / 22, rtol=1e-12)


def test_full_default_is_linear_shrinkage_towards_isotropy() -> None:
    """(m σ̂² I + S) / (m + C̃) with m = 2p + 4."""
    weights = np.random.default_rng(0).normal(size=(80, 128))
    prior = GaussianPrior.fit(weights, covariance="full")
    m, sigma2 = 2 * 128 + 4, weights.var(axis=0).mean()
    shrunk = (m * sigma2 * np.eye(128) + 80 * np.cov(weights, rowvar=False, bias=True)) / (m + 80)
    np.testing.assert_allclose(prior.covariance.dense(), shrunk, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(prior.mean, weights.mean(axis=0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dim", [128, 256])
def test_full_default_comes_near_the_truth_with_80_vectors(dim: int) -> None:
    """Held-out vectors of an isotropic truth lose less than a twentieth of a nat per dimension."""
    random = np.random.default_rng(dim)
    weights, held_out = random.normal(size=(80, dim)), random.normal(size=(500, dim))
    truth = GaussianPrior(np.zeros(dim), ScaledIdentity(1.0, dim)).log_prob(held_out).mean()
    ours = GaussianPrior.fit(weights, covariance="full").log_prob(held_out).mean()
    assert truth - 0.05 * dim < ours < truth


def test_iso_prior_with_a_bias_is_diagonal_with_a_variance_of_its_own(base_weights: np.ndarray) -> None:
    bias = np.random.default_rng(0).normal(5, 2, size=20)
    prior, plain = GaussianPrior.fit(base_weights, bias=bias), GaussianPrior.fit(base_weights)
    assert isinstance(prior.covariance, Diagonal)
    np.testing.assert_allclose(prior.covariance.variances[:-1], plain.covariance.diagonal(), rtol=1e-14)
    assert prior.covariance.variances[-1] == pytest.approx(bias.var(), rel=1e-14)
    assert prior.mean[-1] == bias.mean()
    assert prior.posterior is not None
    assert prior.bias_posterior is not None
    assert prior.bias_posterior.mean.shape == (1,)


def test_hyperparameters_of_an_iso_prior_may_differ_for_the_bias(base_weights: np.ndarray) -> None:
    bias = np.arange(20.0)
    mu0 = np.array([0.0] * 6 + [10.0])
    prior = GaussianPrior.fit(base_weights, bias=bias, mu0=mu0, kappa0=1.0, lambda0=[0.1, 8.0], nu0=3.0)
    alone = GaussianPrior.fit(bias[:, None], mu0=10.0, kappa0=1.0, lambda0=8.0, nu0=3.0)
    assert prior.covariance.diagonal()[-1] == pytest.approx(alone.covariance.diagonal()[0], rel=1e-14)
    assert prior.mean[-1] == alone.mean[0]


def test_bias_of_a_full_prior_is_correlated_with_the_weights(base_weights: np.ndarray) -> None:
    bias = 40 * base_weights[:, 0] + np.random.default_rng(0).normal(0, 0.1, size=20)
    dense = GaussianPrior.fit(base_weights, covariance="full", bias=bias).covariance.dense()
    assert dense[0, -1] / np.sqrt(dense[0, 0] * dense[-1, -1]) > 0.4


def test_posterior_survives_the_file_and_not_a_scaling(base_weights: np.ndarray, tmp_path: Path) -> None:
    for kind in ("iso", "diag", "full"):
        prior = GaussianPrior.fit(base_weights, covariance=kind, bias=np.arange(20.0))
        prior.save(tmp_path / kind)
        again = load_prior(tmp_path / kind)
        assert isinstance(again, GaussianPrior)
        assert prior.posterior is not None
        assert again.posterior is not None
        for name, values in prior.posterior.parameters().items():
            np.testing.assert_array_equal(again.posterior.parameters()[name], values)
        assert (again.bias_posterior is None) == (kind != "iso")
        assert prior.scaled(2.0).posterior is None


def test_proper_prior_lets_a_constant_feature_pass(base_weights: np.ndarray) -> None:
    base_weights[:, 1] = 0.0
    prior = GaussianPrior.fit(base_weights, covariance="diag", kappa0=1, lambda0=0.01, nu0=2)
    assert prior.covariance.diagonal()[1] == pytest.approx(0.01 / (2 + 20 + 3), rel=1e-12)


def test_a_matrix_lets_a_constant_feature_pass_as_the_number_does_that_means_the_same(base_weights: np.ndarray) -> None:
    base_weights[:, 1] = 0.0
    by_number, by_matrix = (
        GaussianPrior.fit(base_weights, covariance="full", lambda0=x) for x in (0.5, 0.5 * np.eye(6))
    )
    np.testing.assert_array_equal(by_matrix.covariance.dense(), by_number.covariance.dense())
    without = np.diag([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])  # and one that gives the feature no variance does not
    with pytest.raises(UserError, match="zero variance in dimension 1"):
        GaussianPrior.fit(base_weights, covariance="full", lambda0=without)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"covariance": "spherical"}, "covariance must be one of iso, diag, full"),
        ({"kappa0": -1}, "kappa0"),
        ({"kappa0": np.nan}, "kappa0"),
        ({"lambda0": [1.0, 2.0]}, "lambda0"),
        ({"lambda0": -1.0}, "lambda0"),
        ({"mu0": [1.0, 2.0]}, "mu0"),
        ({"nu0": np.inf}, "nu0"),
        ({"nu0": -1000.0}, "larger nu0"),
        ({"covariance": "full", "lambda0": -np.eye(6)}, "lambda0"),
        ({"covariance": "full", "lambda0": np.triu(np.ones((6, 6)))}, "lambda0"),
        ({"bias": np.arange(20.0), "lambda0": [1.0, 2.0, 3.0]}, "lambda0"),
    ],
)
def test_bad_hyperparameters_are_refused_by_name(options: dict, named: str, base_weights: np.ndarray) -> None:
    with pytest.raises(UserError, match=named):
        GaussianPrior.fit(base_weights, **options)


def test_maximum_likelihood_of_a_full_covariance_needs_more_vectors_than_dimensions() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 6))
    with pytest.raises(UserError, match="not positive definite: give more vectors, or a larger lambda0"):
        GaussianPrior.fit(weights, covariance="full", kappa0=0, nu0=-8, lambda0=0)


def test_mean_and_covariance_must_go_together() -> None:
    with pytest.raises(UserError, match="mean has shape"):
        GaussianPrior([0.0, 1.0], Cholesky([[1.0]]))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_mean_that_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(UserError, match="mean must hold finite numbers"):
        GaussianPrior([wrong, 0.0], ScaledIdentity(1.0, 2))
