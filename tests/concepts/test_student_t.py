"""The Student-t prior is the Gaussian one with its uncertainty integrated out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_t

from kshot import GaussianPrior, StudentTPrior, load_prior
from kshot.concepts import Diagonal, ScaledIdentity
from kshot.concepts.niw import NormalInverseWishart
from kshot.concepts.student_t import log_gamma_ratio
from kshot.errors import UserError


def test_density_is_scipys(base_weights: np.ndarray) -> None:
    for prior in (StudentTPrior.fit(base_weights), StudentTPrior.fit(base_weights, nu0=-13.5, kappa0=0)):
        weights = prior.sample(50, seed=0)
        expected = multivariate_t(prior.mean, prior.scale.dense(), prior.dof).logpdf(weights)
        np.testing.assert_allclose(prior.log_prob(weights), expected, rtol=1e-9)


def test_parameters_are_those_of_the_paper(base_weights: np.ndarray) -> None:
    prior = StudentTPrior.fit(base_weights, mu0=0.1, kappa0=2.0, lambda0=0.3, nu0=7.0)
    assert prior.dof == 7 + 20 - 6 + 1
    assert prior.posterior is not None
    np.testing.assert_allclose(prior.scale.dense(), prior.posterior.scale * 23 / (22 * 22), rtol=1e-12)
    np.testing.assert_allclose(prior.mean, (2 * 0.1 + base_weights.sum(axis=0)) / 22, rtol=1e-12)


def test_density_is_the_evidences_ratio(base_weights: np.ndarray) -> None:
    """p(w | W̃) = p(w, W̃) / p(W̃), each evidence from ln prior + ln likelihood − ln posterior at any (μ, Σ)."""
    before = NormalInverseWishart(np.zeros(6), 1.0, 0.1 * np.eye(6), 8.0)
    mean, sigma = GaussianPrior.fit(base_weights, covariance="full").posterior.mode()

    def log_evidence(vectors: np.ndarray) -> float:
        likelihood = GaussianPrior(mean, sigma).log_prob(vectors).sum()
        return before.log_prob(mean, sigma) + likelihood - before.update(vectors).log_prob(mean, sigma)

    new = base_weights[:1] + 0.3
    ratio = log_evidence(np.concatenate([base_weights, new])) - log_evidence(base_weights)
    prior = StudentTPrior.fit(base_weights, mu0=0.0, kappa0=1.0, lambda0=0.1, nu0=8.0)
    assert prior.log_prob(new)[0] == pytest.approx(ratio, rel=1e-9)


def test_many_degrees_of_freedom_make_it_gaussian() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 3))
    student = StudentTPrior(np.zeros(3), ScaledIdentity(2.0, 3), 1e9)
    np.testing.assert_allclose(
        student.log_prob(weights), GaussianPrior(np.zeros(3), ScaledIdentity(2.0, 3)).log_prob(weights), rtol=1e-7
    )


@pytest.mark.parametrize("a", [0.3, 99.9, 100.1, 1e4, 1e9])
@pytest.mark.parametrize("b", [1, 64, 1024])
def test_gamma_ratio_is_a_product_for_whole_steps(a: float, b: int) -> None:
    """Γ(a + b)/Γ(a) = a (a + 1) ... (a + b − 1)."""
    assert log_gamma_ratio(a, b) == pytest.approx(np.log(a + np.arange(b)).sum(), rel=1e-12, abs=1e-12)


def test_samples_have_the_covariance_and_its_tails() -> None:
    prior = StudentTPrior(np.ones(2), Diagonal([1.0, 4.0]), 6.0)
    drawn = prior.sample(200_000, seed=0)
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), np.diag([1.5, 6.0]), atol=0.12)
    # One χ² for the whole vector: large coordinates come together.
    assert np.corrcoef(np.abs(drawn - 1), rowvar=False)[0, 1] > 0.1


@pytest.mark.parametrize("dim", [128, 256])
def test_default_comes_near_the_truth_with_80_vectors(dim: int) -> None:
    random = np.random.default_rng(dim)
    weights, held_out = random.normal(size=(80, dim)), random.normal(size=(500, dim))
    truth = GaussianPrior(np.zeros(dim), ScaledIdentity(1.0, dim)).log_prob(held_out).mean()
    ours = StudentTPrior.fit(weights)
    assert ours.dof == 2 * dim + 4 + 80
    assert truth - 0.05 * dim < ours.log_prob(held_out).mean() < truth


@pytest.mark.parametrize("nu0", [-15.0, -20.0])
def test_too_few_degrees_of_freedom_are_refused_with_the_bound(nu0: float, base_weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"nu0 is -.*must be positive: give nu0 > -15, or leave it out"):
        StudentTPrior.fit(base_weights, nu0=nu0)  # −15 + 20 − 6 + 1 = 0
    assert StudentTPrior.fit(base_weights, nu0=-14.5, lambda0=0.1).dof == 0.5


def test_posterior_survives_the_file(base_weights: np.ndarray, tmp_path: Path) -> None:
    prior = StudentTPrior.fit(base_weights)
    prior.save(tmp_path / "prior")
    again = load_prior(tmp_path / "prior")
    assert isinstance(again, StudentTPrior)
    assert again.dof == prior.dof
    assert again.posterior is not None
    assert again.posterior.kappa == prior.posterior.kappa


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(UserError, match="dof must be"):
        StudentTPrior([0.0], ScaledIdentity(1.0, 1), 0.0)
    with pytest.raises(UserError, match="mean has shape"):
        StudentTPrior([0.0, 1.0], ScaledIdentity(1.0, 1), 3.0)
    with pytest.raises(UserError, match="mean must hold finite numbers"):
        StudentTPrior([np.nan], ScaledIdentity(1.0, 1), 3.0)


def test_a_matrix_lets_a_constant_feature_pass_as_the_number_does_that_means_the_same(base_weights: np.ndarray) -> None:
    base_weights[:, 1] = 0.0
    by_number, by_matrix = (StudentTPrior.fit(base_weights, lambda0=x) for x in (0.5, 0.5 * np.eye(6)))
    np.testing.assert_array_equal(by_matrix.scale.dense(), by_number.scale.dense())
