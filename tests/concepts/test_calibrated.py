"""The temperature curve, and a calibrated prior wherever a prior is taken."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

import kshot
import kshot.inference
from kshot.concepts import Calibration, ConceptPrior, Diagonal, ScaledIdentity, Temperature, load_prior
from kshot.errors import FileFormatError, UserError

DIM = 4
CURVE = Temperature((1, 5, 10), (5.5, 3.7, 3.0))
CALIBRATION = Calibration(2.5, CURVE, "map", "closed", {"classes": 16})


def priors(*, has_bias: bool = False) -> dict[str, ConceptPrior]:
    random = np.random.default_rng(0)
    mean, weights = random.normal(size=DIM), random.normal(size=(30, DIM))
    two = (Diagonal(np.full(DIM, 0.5)), Diagonal(random.uniform(1, 2, DIM)))
    return {
        "iso": kshot.GaussianPrior(mean, ScaledIdentity(0.3, DIM), has_bias),
        "full": kshot.GaussianPrior.fit(weights, covariance="full"),
        "student-t": kshot.StudentTPrior(mean, ScaledIdentity(0.3, DIM), 7.0, has_bias),
        "mixture": kshot.MixturePrior(np.array([0.3, 0.7]), random.normal(size=(2, DIM)), two, has_bias),
        "laplace": kshot.LaplacePrior(mean, np.full(DIM, 0.4), has_bias),
    }


def task(*, examples: int = 9, ways: int = 3, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(examples) % ways
    X = np.random.default_rng(seed).normal(size=(examples, DIM))
    X[np.arange(examples), y] += 2
    return X, y


knots = st.lists(st.floats(0.1, 500.0), min_size=1, max_size=6, unique_by=lambda k: round(math.log(k), 1)).map(sorted)


@settings(deadline=None, max_examples=60)
@given(knots, st.randoms(use_true_random=False))
def test_the_curve_goes_through_its_knots_and_never_beyond_its_neighbours_between_them(shots, random) -> None:
    values = [math.exp(random.uniform(-1, 2)) for _ in shots]
    curve = Temperature(tuple(shots), tuple(values))
    for k, value in zip(shots, values, strict=True):
        assert curve(k) == pytest.approx(value, rel=1e-12)
    for i in range(len(shots) - 1):
        low, high = sorted(values[i : i + 2])
        for k in np.geomspace(shots[i], shots[i + 1], 7):
            assert low * (1 - 1e-12) <= curve(float(k)) <= high * (1 + 1e-12)


def test_between_inner_knots_it_is_scipys_monotone_cubic_of_the_logarithms() -> None:
    shots, values = np.array([1.0, 2, 3, 5, 10, 20, 50]), np.array([5.2, 4.4, 3.9, 3.2, 2.5, 2.1, 1.7])
    curve = Temperature(tuple(shots), tuple(values))
    oracle = PchipInterpolator(np.log(shots), np.log(values))
    for k in np.geomspace(2, 20, 40):  # the outermost pieces have other slopes at the ends
        assert curve(float(k)) == pytest.approx(math.exp(oracle(math.log(k))), rel=1e-12)


@pytest.mark.parametrize("end", [1.0, 10.0])
def test_beyond_the_knots_it_goes_on_without_a_corner_and_levels_off(end: float) -> None:
    step = 1e-4
    before, at, after = (math.log(CURVE(end * math.exp(h))) for h in (-step, 0.0, step))
    assert (after - at) / step == pytest.approx((at - before) / step, rel=1e-3)
    assert CURVE(1e-6) < 5.5 * math.exp(math.log(10) * 0.3) and CURVE(1e-6) > CURVE(0.01) > CURVE(1) > CURVE(1.5)
    assert CURVE(10) > CURVE(100) > CURVE(10000) > 3.0 / math.exp(math.log(10) * 0.35)
    assert CURVE(10000) == pytest.approx(CURVE(1e6), rel=0.06)


def test_a_single_knot_is_a_constant() -> None:
    assert {Temperature((5,), (2.0,))(k) for k in (0.1, 5, 1000)} == {2.0}


@pytest.mark.parametrize(
    ("shots", "values"), [((), ()), ((1, 5), (2.0,)), ((5, 1), (2.0, 3.0)), ((0, 1), (1.0, 1.0)), ((1, 2), (1.0, -1.0))]
)
def test_a_curve_that_is_none_is_refused(shots, values) -> None:
    with pytest.raises(UserError):
        Temperature(shots, values)
    with pytest.raises(UserError, match="examples_per_class must be a positive number"):
        CURVE(0.0)


@pytest.mark.parametrize("family", priors())
def test_it_is_the_scaled_prior_with_a_temperature(family: str, tmp_path: Path) -> None:
    prior = priors()[family]
    calibrated = CALIBRATION.apply(prior)
    weights = np.random.default_rng(3).normal(size=(6, DIM))
    same = prior.scaled(2.5)
    np.testing.assert_array_equal(calibrated.log_prob(weights), same.log_prob(weights))
    np.testing.assert_array_equal(calibrated.grad_log_prob(weights), same.grad_log_prob(weights))
    np.testing.assert_array_equal(calibrated.sample(5, seed=2), same.sample(5, seed=2))
    np.testing.assert_allclose(calibrated.mean, prior.mean, rtol=1e-14)
    assert (calibrated.dim, calibrated.has_bias, calibrated.scale) == (DIM, False, 2.5)
    assert calibrated.temperature(7) == CURVE(7)
    assert calibrated.scaled(2.0).scale == 5.0 and isinstance(calibrated, kshot.Prior)
    calibrated.save(tmp_path / "prior")
    for again in (load_prior(tmp_path / "prior"), pickle.loads(pickle.dumps(calibrated))):
        assert isinstance(again, kshot.CalibratedPrior) and type(again.prior) is type(prior)
        np.testing.assert_array_equal(again.log_prob(weights), same.log_prob(weights))
        assert again.calibration.to_json() == CALIBRATION.to_json()


def test_a_bias_survives_the_file(tmp_path: Path) -> None:
    CALIBRATION.apply(priors(has_bias=True)["iso"]).save(tmp_path / "prior")
    assert kshot.CalibratedPrior.load(tmp_path / "prior").has_bias


@pytest.mark.filterwarnings("ignore::kshot.inference.SamplingWarning")  # a few draws are enough here
@pytest.mark.parametrize(
    ("family", "inference"),
    [
        *((family, "map") for family in priors()),
        *((family, "laplace") for family in priors() if family != "laplace"),  # no Hessian at a kink
        # Each family costs JAX seconds of compilation, and a calibrated prior is taken apart before it gets there.
        pytest.param("iso", "nuts", marks=pytest.mark.sample),
    ],
)
def test_every_method_takes_it_and_sharpens_what_it_would_say(family: str, inference: str) -> None:
    settings = inference
    if inference == "nuts":
        pytest.importorskip("jax")
        settings = kshot.inference.NUTS(chains=1, warmup=50, draws=20, jobs=1)
    prior = priors()[family]
    X, y = task()
    query = np.random.default_rng(2).normal(size=(1, 5, DIM))
    arguments = {"inference": settings, "X_query": query}
    weights, info = kshot.fit_tasks(
        replace(CALIBRATION, inference=inference).apply(prior), X[None], y[None], **arguments
    )
    plain, plain_info = kshot.fit_tasks(prior.scaled(2.5), X[None], y[None], **arguments)
    np.testing.assert_array_equal(weights, plain)
    power = plain_info.proba ** CURVE(3)
    np.testing.assert_allclose(info.proba, power / power.sum(axis=2, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("inference", ["map", "laplace"])
def test_the_classifier_learns_saves_and_learns_on_with_it(inference: str, tmp_path: Path) -> None:
    calibration = replace(CALIBRATION, inference=inference)
    prior = calibration.apply(priors(has_bias=False)["iso"])
    X, y = task()
    whole = kshot.KShotClassifier(prior, inference).fit(X, y)
    parts = kshot.KShotClassifier(prior, inference).partial_fit(X[:6], y[:6]).partial_fit(X[6:], y[6:])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    whole.save(tmp_path / "model")
    again = kshot.KShotClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))
    assert again.prior.calibration.to_json() == calibration.to_json()
    again.partial_fit(X, y)  # six per class now: another temperature
    twice = kshot.KShotClassifier(prior, inference).fit(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(again.predict_proba(X), twice.predict_proba(X), atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(st.floats(0.05, 20.0), st.floats(0.1, 10.0))
def test_features_times_a_and_a_variance_over_a_squared_predict_the_same(a: float, scale: float) -> None:
    X, y = task()
    query = np.random.default_rng(2).normal(size=(1, 5, DIM))
    calibration = Calibration(scale, CURVE)
    answers = []
    for factor in (1.0, a):
        prior = calibration.apply(kshot.GaussianPrior(np.zeros(DIM), ScaledIdentity(0.3 / factor**2, DIM)))
        answers.append(kshot.fit_tasks(prior, factor * X[None], y[None], X_query=factor * query)[1].proba)
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)


def test_a_calibration_survives_json_and_what_is_none_is_refused() -> None:
    again = Calibration.from_json(json.loads(json.dumps(CALIBRATION.to_json())))
    assert again.to_json() == CALIBRATION.to_json() and again.temperature(7) == CURVE(7)
    with pytest.raises(FileFormatError, match="no calibration"):
        Calibration.from_json({"scale": 1.0})
    with pytest.raises(UserError, match="scale must be a positive number"):
        Calibration(0.0, CURVE)
    with pytest.raises(UserError, match="calibrated already"):
        CALIBRATION.apply(CALIBRATION.apply(priors()["iso"]))
    with pytest.raises(UserError, match=r"object must have a method scaled\(s\)"):
        CALIBRATION.apply(object())


def test_a_backbone_without_bundled_numbers_is_told_the_remedy() -> None:
    with pytest.raises(UserError, match=r"comes with the backbone 'mine'.*kshot.calibrate\(prior, X_base, y_base\)"):
        Calibration.bundled("mine")


def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    from kshot import files

    parameters = CALIBRATION.apply(priors()["iso"]).parameters()
    for name, change in {"damaged": {"calibration": np.zeros(3, np.uint8)}, "lacks": {"mean": None}}.items():
        arrays = {key: value for key, value in (parameters | change).items() if value is not None}
        files.write(
            tmp_path / name, arrays, kind="prior", version=1, metadata={"family": "calibrated", "has_bias": False}
        )
        with pytest.raises(FileFormatError, match=name):
            load_prior(tmp_path / name)


OLD = np.random.default_rng(3).normal(size=(4, DIM))


@pytest.mark.parametrize(
    ("setting", "old", "advice"),
    [
        ("closed", OLD, r"new classes alone.*calibrate it with base_weights.*setting=\"joint\""),
        ("joint", None, r"beside old ones.*no base_weights.*setting=\"closed\""),
    ],
)
def test_numbers_of_one_setting_are_refused_in_the_other(setting: str, old: np.ndarray | None, advice: str) -> None:
    prior = replace(CALIBRATION, setting=setting).apply(priors(has_bias=False)["iso"])
    X, y = task()
    with pytest.raises(UserError, match=advice):
        kshot.fit_tasks(prior, X[None], y[None], base_weights=old)
    with pytest.raises(UserError, match=advice):
        kshot.KShotClassifier(prior, base_weights=old, base_classes=None if old is None else [10, 11, 12, 13]).fit(X, y)
    right = OLD if setting == "joint" else None
    assert kshot.fit_tasks(prior, X[None], y[None], base_weights=right)[1].converged.all()


def test_numbers_of_one_inference_method_are_refused_by_another() -> None:
    X, y = task()
    for fitted, asked in (("map", "laplace"), ("laplace", "map")):
        prior = replace(CALIBRATION, inference=fitted).apply(priors(has_bias=False)["iso"])
        with pytest.raises(UserError, match=f'calibrated for inference="{fitted}".*calibrate with.*"{asked}"'):
            kshot.fit_tasks(prior, X[None], y[None], inference=asked)
    settings = kshot.inference.LaplaceApproximation(samples=64)
    prior = replace(CALIBRATION, inference="laplace").apply(priors(has_bias=False)["iso"])
    assert kshot.fit_tasks(prior, X[None], y[None], inference=settings)[1].converged.all()
