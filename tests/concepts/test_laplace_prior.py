"""The Laplace prior is medians and mean absolute deviations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import laplace

from kshot import LaplacePrior
from kshot.errors import UserError


@pytest.mark.parametrize("scale", ["iso", "diag"])
def test_density_is_scipys(scale: str, base_weights: np.ndarray) -> None:
    prior = LaplacePrior.fit(base_weights, scale=scale)
    weights = prior.sample(50, seed=0)
    expected = laplace(prior.location, prior.scale).logpdf(weights).sum(axis=1)
    np.testing.assert_allclose(prior.log_prob(weights), expected, rtol=1e-9)


def test_diag_fit_is_scipys_in_each_dimension(base_weights: np.ndarray) -> None:
    prior = LaplacePrior.fit(base_weights)
    for j in range(6):
        location, scale = laplace.fit(base_weights[:, j])
        assert prior.location[j] == pytest.approx(location, rel=1e-12)
        assert prior.scale[j] == pytest.approx(scale, rel=1e-12)
    np.testing.assert_array_equal(prior.mean, prior.location)


def test_iso_fit_is_scipys_over_all_numbers(base_weights: np.ndarray) -> None:
    prior = LaplacePrior.fit(base_weights, scale="iso")
    location, scale = laplace.fit(base_weights.ravel())
    np.testing.assert_allclose(prior.location, location, rtol=1e-12)
    np.testing.assert_allclose(prior.scale, scale, rtol=1e-12)


def test_iso_fit_keeps_the_bias_out(base_weights: np.ndarray) -> None:
    bias = np.arange(20.0) ** 2
    prior, plain = (LaplacePrior.fit(base_weights, scale="iso", bias=b) for b in (bias, None))
    np.testing.assert_array_equal(prior.scale[:-1], plain.scale)
    assert prior.location[-1] == np.median(bias)
    assert prior.scale[-1] == np.abs(bias - np.median(bias)).mean()


def test_shrinkage_pulls_scales_to_their_mean(base_weights: np.ndarray) -> None:
    bias = np.arange(20.0)
    none, half, all_ = (LaplacePrior.fit(base_weights, bias=bias, shrinkage=a) for a in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(all_.scale[:-1], none.scale[:-1].mean(), rtol=1e-12)
    np.testing.assert_allclose(half.scale, (none.scale + all_.scale) / 2, rtol=1e-12)
    assert all_.scale[-1] == none.scale[-1]


def test_gradient_at_the_kink_is_a_subgradient() -> None:
    assert LaplacePrior([1.0], [2.0]).grad_log_prob(np.array([[1.0]])) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scale": "full"}, "scale must be one of iso, diag"),
        ({"shrinkage": 1.5}, "shrinkage"),
        ({"shrinkage": -0.1}, "shrinkage"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, named: str, base_weights: np.ndarray) -> None:
    with pytest.raises(UserError, match=named):
        LaplacePrior.fit(base_weights, **options)


@pytest.mark.parametrize("scale", [[0.0], [-1.0], [np.nan], [1.0, 1.0]])
def test_impossible_parameters_are_refused(scale: list[float]) -> None:
    with pytest.raises(UserError):
        LaplacePrior([0.0], scale)


def test_a_location_that_is_no_number_is_refused() -> None:
    with pytest.raises(UserError, match="location must hold finite numbers"):
        LaplacePrior([np.nan], [1.0])
