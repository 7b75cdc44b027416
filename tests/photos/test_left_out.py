"""The estimate: what is said of left-out photographs is what models without them would say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from scipy.stats import binomtest

import kshot
from kshot.concepts import Background, CalibratedPrior, Calibration, Normalisation, Temperature
from kshot.photos import left_out as module
from kshot.photos.estimate import Estimate, wilson
from kshot.photos.examples import Examples
from kshot.photos.fitting import Calibrations, fit_model
from kshot.photos.left_out import left_out, left_out_table, split
from kshot.photos.model import BackboneRecord
from kshot.photos.twins import SHARE, find_twins

RNG = np.random.default_rng(3)
BASE, BIAS = RNG.standard_normal((6, 8)), RNG.standard_normal(6)


def made(counts: list[int], *, seed: int = 0, spread: float = 1.0, dim: int = 8) -> Examples:
    """Draw examples of Gaussian classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(counts), dim))[y] + spread * rng.standard_normal((len(y), dim))
    names = [f"{label:02d}" for label in y]
    return Examples.ordered(X.astype(np.float32), names, [""] * len(y), [f"{row:04d}" for row in range(len(y))])


def prior(scale: float, *, bias: bool = True, setting: Literal["closed", "joint"] = "joint") -> CalibratedPrior:
    fitted = kshot.GaussianPrior.fit(BASE, covariance="iso", bias=BIAS if bias else None)
    return Calibration(scale, Temperature((1, 5), (3.0, 2.0)), setting=setting).apply(fitted)


def refits(p: CalibratedPrior, examples: Examples, folds: np.ndarray, base=None, bias=None, share=None) -> np.ndarray:
    """Do it the long way: one `fit_tasks` for each fold, on the other examples alone."""
    ways, y = len(examples.classes), examples.labels
    old = 0 if base is None else len(base)
    out = np.full((len(y), old + ways), np.nan)
    for fold in np.unique(folds[folds >= 0]):
        seen, gone = folds != fold, np.flatnonzero(folds == fold)
        kept = np.arange(old)
        if share is not None:
            kept = np.delete(kept, list(find_twins(examples.X[seen], y[seen], base, bias, share=share)))
        _, info = kshot.fit_tasks(
            p,
            examples.X[seen][None],
            y[seen][None],
            base_weights=None if base is None else base[kept],
            base_bias=None if bias is None else bias[kept],
            X_query=examples.X[gone][None],
            ways=ways,
        )
        out[gone] = 0.0
        out[np.ix_(gone, [*kept, *range(old, old + ways)])] = info.proba[0]
    out[np.bincount(y)[y] == 1] = np.nan
    return out


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
def test_closed_probabilities_are_those_of_true_refits(scale: float) -> None:
    examples = made([4, 3, 2])
    p = prior(scale, setting="closed")
    np.testing.assert_allclose(left_out_table(p, examples), refits(p, examples, np.arange(9)), atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("bias", [True, False])
def test_joint_probabilities_are_those_of_true_refits_with_their_own_twins(scale: float, bias: bool) -> None:
    examples = made([4, 3, 2])
    p = prior(scale, bias=bias)
    base = {"base_weights": BASE, "base_bias": BIAS if bias else None, "twin_share": 0.35}
    found = left_out_table(p, examples, **base)
    expected = refits(p, examples, np.arange(9), BASE, base["base_bias"], 0.35)
    assert len({tuple(row == 0) for row in expected}) > 1, "the twins must differ between the refits"
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_beside_a_background_probabilities_are_those_of_models_without_the_photograph() -> None:
    examples = made([4, 3, 2])
    background = Background(0.5, Temperature((1, 5), (0.2, 0.4)), Temperature((1,), (0.1,)))
    plain = kshot.GaussianPrior.fit(BASE, covariance="iso", bias=BIAS)
    calibration = Calibration(
        30.0,
        Temperature((1, 5), (3.0, 2.0)),
        setting="joint",
        normalisation=Normalisation(np.full(8, 0.1), 2.0),
        background=background,
    )
    found = left_out(calibration.apply(plain), examples, base_weights=BASE, base_bias=BIAS, twin_share=SHARE)
    record = BackboneRecord("small", "", "")
    for row in range(len(examples)):
        seen = np.arange(len(examples)) != row
        network = SimpleNamespace(base_weights=BASE, base_bias=BIAS, name="small")
        others = Calibrations(None, calibration, "bundled")
        model = fit_model(examples.rows(seen), network, record, others, prior=plain)  # type: ignore[arg-type]
        said = model.probabilities(examples.X[[row]], network)  # type: ignore[arg-type]
        np.testing.assert_allclose(found[row], [*said.classes[0], said.other[0]], atol=1e-5)


def test_many_photographs_are_left_out_by_classes_at_a_time() -> None:
    examples = made([30, 25, 20], spread=2.0)
    folds = split(examples.labels)
    assert folds.max() + 1 == 30 and all((folds == fold).sum() <= 3 for fold in range(30))
    found = left_out_table(prior(10.0), examples, base_weights=BASE, base_bias=BIAS)
    np.testing.assert_allclose(found, refits(prior(10.0), examples, folds, BASE, BIAS), atol=1e-6)


def test_very_many_photographs_are_judged_by_a_sample() -> None:
    labels = np.repeat(np.arange(10), 150)
    folds = split(labels)
    assert set(folds) == {-1, 0} and (folds == 0).sum() == 300
    assert (np.bincount(labels[folds == 0]) == 30).all()


def test_the_only_photograph_of_a_class_is_not_judged() -> None:
    examples = made([3, 1])
    found = left_out(prior(10.0), examples)
    assert np.isnan(found).all(axis=1).tolist() == [False, False, False, True]
    assert Estimate.of(found, examples.labels, threshold=0.5).judged == 3


def test_one_photograph_of_each_class_gives_no_estimate() -> None:
    examples = made([1, 1])
    estimate = Estimate.of(left_out(prior(10.0), examples), examples.labels, threshold=0.5)
    assert (estimate.judged, estimate.low, estimate.high, estimate.most_alike()) == (0, 0.0, 1.0, None)


def test_labels_without_meaning_are_not_called_good() -> None:
    """In 60 dimensions every labelling of 40 points can be learned by heart: only left-out ones tell."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 60)).astype(np.float32)
    names = [f"{label}" for label in rng.integers(0, 2, 40)]
    examples = Examples.ordered(X, names, [""] * 40, [f"{row:02d}" for row in range(40)])
    fitted = kshot.GaussianPrior.fit(rng.standard_normal((20, 60)), covariance="iso")
    plain = Calibration(1.0, Temperature((1,), (1.0,))).apply(fitted)
    weights, _ = kshot.fit_tasks(plain, examples.X[None], examples.labels[None])
    assert ((examples.X @ weights[0].T).argmax(axis=1) == examples.labels).all()
    estimate = Estimate.of(left_out(plain, examples), examples.labels, threshold=0.5)
    assert estimate.low < 0.5 < estimate.high


def test_the_estimate_adds_up() -> None:
    table = np.array([[0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.1, 0.45, 0.45], [0.1, 0.1, 0.8]], np.float32)
    estimate = Estimate.of(table, np.array([0, 0, 1, 1]), threshold=0.5)
    assert estimate.confusion.tolist() == [[1, 1, 0], [0, 1, 1]]
    assert (estimate.judged, estimate.right, estimate.unsure) == (4, 2, 1)
    assert estimate.log_likelihood == pytest.approx(np.log([0.9, 0.2, 0.45, 0.1]).mean(), rel=1e-6)
    assert estimate.most_alike() == (0, 1, 1)


@pytest.mark.parametrize(("right", "judged"), [(22, 24), (0, 5), (5, 5), (1, 1), (480, 500)])
def test_the_interval_is_wilsons(right: int, judged: int) -> None:
    expected = binomtest(right, judged).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(wilson(right, judged), expected, atol=1e-12)


def test_a_repeated_photograph_does_not_stop_the_solver(monkeypatch) -> None:
    examples = made([4, 4])
    X = examples.X.copy()
    X[5] = X[1]
    doubled = Examples(X, examples.labels, examples.classes, examples.files, examples.digests)
    p = prior(1e3, setting="closed")
    np.testing.assert_allclose(left_out_table(p, doubled), refits(p, doubled, np.arange(8)), atol=1e-5)
    assert module.ALONE >= 8
