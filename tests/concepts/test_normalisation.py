"""Normalised features have one length about the centre, and only their direction counts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kshot
from kshot.concepts import Background, Calibration, Normalisation, ScaledIdentity, Temperature
from kshot.errors import FileFormatError, UserError


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), stretch=st.floats(0.01, 100))
def test_only_the_direction_from_the_centre_counts(seed: int, stretch: float) -> None:
    rng = np.random.default_rng(seed)
    X, centre = rng.standard_normal((5, 4)), rng.standard_normal(4).astype(np.float32)
    normal = Normalisation(centre, 3.0)
    np.testing.assert_allclose(np.linalg.norm(normal(X), axis=1), 3.0)
    np.testing.assert_allclose(normal(centre + stretch * (X - centre)), normal(X), atol=1e-9)


def test_the_fit_counts_every_class_the_same() -> None:
    X, y = np.array([[0.0, 0], [0, 0], [0, 0], [4, 2]]), np.array([0, 0, 0, 1])
    fitted = Normalisation.fit(X, y)
    np.testing.assert_allclose(fitted.centre, [2, 1])
    assert fitted.length == pytest.approx(np.sqrt(5))
    assert not fitted([[2.0, 1.0]]).any(), "the centre itself stays there"


def test_a_calibration_with_both_survives_json() -> None:
    curve = Temperature((1, 5), (3.0, 2.0))
    calibration = Calibration(
        2.0,
        curve,
        "map",
        "joint",
        {},
        Normalisation([1.0, 2.0], 4.0),
        Background(0.5, curve, Temperature((1,), (0.1,))),
    )
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    assert again.to_json() == calibration.to_json() and again.background is not None
    assert again.background.doubt(1) == 0.1 and again.normalisation is not None and again.normalisation.length == 4.0


def test_on_normalised_features_the_prior_is_isotropic_about_zero() -> None:
    W, b = np.random.default_rng(0).standard_normal((9, 3)) + 1, np.arange(9.0)
    prior = kshot.GaussianPrior.fit(W, covariance="iso", bias=b)
    plain = Calibration(2.0, Temperature((1,), (1.0,)), normalisation=Normalisation(np.zeros(3), 1.0)).apply(prior)
    assert not plain.mean.any() and plain.dim == 3 and not plain.has_bias
    assert isinstance(plain.prior.covariance, ScaledIdentity)
    assert plain.prior.covariance.variance == pytest.approx(2 * W.var(axis=0).mean())
    with pytest.raises(UserError, match="Gaussian"):
        plain.calibration.apply(kshot.LaplacePrior.fit(W))


def test_the_method_learns_from_normalised_features(tmp_path) -> None:
    """Photographs of one direction and many lengths are told apart by their direction alone."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(5), 30)
    X = (rng.standard_normal((5, 8))[y] + 0.3 * rng.standard_normal((150, 8))) * rng.uniform(0.1, 10, (150, 1))
    features = kshot.Features(X, y, base_weights=rng.standard_normal((20, 8)))
    calibration = Calibration(1.0, Temperature((1,), (4.0,)), normalisation=Normalisation(np.zeros(8), 1.0))
    prior = calibration.apply(kshot.GaussianPrior.fit(features.base_weights))
    table = kshot.evaluate(features, [prior], shots=(1,), tasks=50)
    unit = kshot.Features(X / np.linalg.norm(X, axis=1, keepdims=True), y, base_weights=features.base_weights)
    bare = Calibration(1.0, Temperature((1,), (4.0,))).apply(kshot.GaussianPrior(np.zeros(8), prior.prior.covariance))
    expected = kshot.evaluate(unit, [bare], shots=(1,), tasks=50)
    assert table["log_likelihood"][0] == pytest.approx(expected["log_likelihood"][0], abs=1e-5)


def test_every_way_to_learn_gives_the_prior_the_features_it_was_calibrated_for(tmp_path) -> None:
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(3), 10)
    X = (2 * rng.standard_normal((3, 8))[y] + rng.standard_normal((30, 8))) * rng.uniform(0.2, 5, (30, 1))
    normalisation = Normalisation(rng.standard_normal(8), 3.0)
    variance = ScaledIdentity(0.3, dim=8)
    plain = kshot.GaussianPrior(np.zeros(8), variance)
    prior = Calibration(1.0, Temperature((1,), (2.0,)), normalisation=normalisation).apply(plain)
    bare, Z = Calibration(1.0, Temperature((1,), (2.0,))).apply(plain), normalisation(X)
    expected = kshot.KShotClassifier(bare).fit(Z[::2], y[::2])
    model = kshot.KShotClassifier(prior).fit(X[::2], y[::2])
    np.testing.assert_allclose(model.coef_, expected.coef_)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(Z))
    weights, info = kshot.fit_tasks(prior, X[::2][None], y[::2][None], X_query=X[None])
    np.testing.assert_allclose(weights[0], expected.coef_)
    np.testing.assert_allclose(info.proba[0], expected.predict_proba(Z))
    model.save(tmp_path / "model")
    again = kshot.KShotClassifier.load(tmp_path / "model").partial_fit(X[1::2], y[1::2])
    both = kshot.KShotClassifier(bare).fit(np.concatenate([Z[::2], Z[1::2]]), np.concatenate([y[::2], y[1::2]]))
    np.testing.assert_allclose(again.predict_proba(X), both.predict_proba(Z), rtol=1e-5)
    prior, bare = (replace(each.calibration, inference="laplace").apply(plain) for each in (prior, bare))
    averaged = [kshot.KShotClassifier(p, inference="laplace").fit(F, y) for p, F in ((prior, X), (bare, Z))]
    moments = [each.predict_proba(F, return_std=True) for each, F in zip(averaged, (X, Z), strict=True)]
    np.testing.assert_allclose(moments[0], moments[1])


def test_old_weights_and_normalised_features_do_not_go_together() -> None:
    prior = kshot.GaussianPrior(np.zeros(2), ScaledIdentity(1.0, dim=2))
    prior = Calibration(1.0, Temperature((1,), (1.0,)), normalisation=Normalisation(np.zeros(2), 1.0)).apply(prior)
    with pytest.raises(UserError, match="features as they are"):
        kshot.fit_tasks(prior, [[[1.0, 0.0], [0.0, 1.0]]], [[0, 1]], base_weights=[[1.0, 1.0]])


@pytest.mark.parametrize("bad", [{"centre": [1.0]}, {"centre": ["a"], "length": 1.0}, {"centre": [1.0], "length": 0}])
def test_what_is_no_normalisation_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises((FileFormatError, UserError)):
        Normalisation.from_json(bad)


def test_a_normalised_prior_and_features_of_another_width_are_refused_in_a_sentence() -> None:
    prior = kshot.GaussianPrior(np.zeros(2), ScaledIdentity(1.0, dim=2))
    prior = Calibration(1.0, Temperature((1,), (1.0,)), normalisation=Normalisation(np.zeros(2), 1.0)).apply(prior)
    X, y = np.eye(3), np.array([0, 1, 1])
    with pytest.raises(UserError, match="the prior has 2 dimensions, and the features have 3"):
        kshot.fit_tasks(prior, X[None], y[None], X_query=X[None])
    with pytest.raises(UserError, match="the prior has 2 dimensions, and the features have 3"):
        kshot.KShotClassifier(prior).fit(X, y)
