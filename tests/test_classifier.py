"""The estimator: scikit-learn's checks, its company, online classes, files, and a million rows."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import kshot
from kshot import KShotClassifier
from kshot.concepts import Calibration, Diagonal, Normalisation, ScaledIdentity, Temperature
from kshot.errors import FileFormatError, UserError
from kshot.inference import NUTS

RANDOM = np.random.default_rng(0)
NAMES = np.array(["cat", "dog", "newt"])
Y = NAMES[[0, 0, 1, 1, 1, 2, 0, 2]]
X = RANDOM.normal(size=(8, 5)) + 2 * np.eye(3, 5)[np.searchsorted(NAMES, Y)]
QUERIES = RANDOM.normal(size=(20, 5))
BASE = RANDOM.normal(size=(4, 5))
OLD = np.array(["ant", "zebra", "mole", "boar"])
CURVE = Temperature((1, 10), (4.0, 2.0))


def iso(variance: float = 1.0, dim: int = 5) -> kshot.GaussianPrior:
    return kshot.GaussianPrior(np.full(dim, 0.1), ScaledIdentity(variance, dim))


@parametrize_with_checks([KShotClassifier()])
def test_scikit_learns_checks_pass(estimator, check) -> None:
    check(estimator)


def test_it_is_scikit_learns_logistic_regression_under_its_own_prior() -> None:
    model = KShotClassifier().fit(X, Y)
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(QUERIES), peer.predict_proba(QUERIES), atol=1e-5)
    np.testing.assert_array_equal(model.predict(QUERIES), peer.predict(QUERIES))
    assert model.posterior_.info.converged.all()


def test_there_is_one_row_per_class_also_with_two() -> None:
    model = KShotClassifier(prior=iso()).fit(X[:5], Y[:5])
    assert model.classes_.tolist() == ["cat", "dog"]
    assert model.coef_.shape == (2, 5) and model.intercept_.tolist() == [0.0, 0.0]
    logits = QUERIES @ model.coef_.T
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(QUERIES), p / p.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(QUERIES)), model.predict_proba(QUERIES))


def test_a_bias_becomes_the_intercept() -> None:
    prior = kshot.GaussianPrior(np.zeros(6), Diagonal(np.r_[np.ones(5), 3.0]), has_bias=True)
    model = KShotClassifier(prior=prior).fit(X, Y)
    weights, info = kshot.fit_tasks(prior, X[None], np.searchsorted(NAMES, Y)[None], X_query=QUERIES[None])
    np.testing.assert_allclose(model.intercept_, info.intercept[0])
    np.testing.assert_allclose(model.coef_, weights[0])
    np.testing.assert_allclose(model.predict_proba(QUERIES), info.proba[0])


def test_it_works_in_pipelines_and_searches() -> None:
    pipeline = make_pipeline(StandardScaler(), KShotClassifier())
    grid = {"kshotclassifier__prior": [iso(0.01), iso(1.0)]}
    many, labels = np.repeat(X, 3, axis=0) + 0.1 * RANDOM.normal(size=(24, 5)), np.repeat(Y, 3)
    search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(many, labels)
    assert search.best_params_["kshotclassifier__prior"].covariance.variance == 1.0
    assert search.predict(X).tolist() == Y.tolist()


def test_clones_and_pickles_keep_the_settings() -> None:
    model = KShotClassifier(prior=iso(0.3), base_weights=BASE, base_classes=OLD).fit(X, Y)
    twin = clone(model).fit(X, Y)
    np.testing.assert_array_equal(twin.coef_, model.coef_)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(QUERIES), model.predict_proba(QUERIES)
    )


def test_pandas_names_are_remembered() -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = KShotClassifier().fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(model.predict_proba(frame), KShotClassifier().fit(X, Y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


@pytest.mark.parametrize("order", [np.arange(8), np.array([5, 7, 0, 6, 2, 1, 4, 3])])
@pytest.mark.parametrize("weighted", [False, True])
def test_partial_fit_is_fit_on_everything_so_far(order: np.ndarray, weighted: bool) -> None:
    weight = np.linspace(0.5, 2, 8) if weighted else None
    whole = KShotClassifier(prior=iso()).fit(X, Y, sample_weight=weight)
    model = KShotClassifier(prior=iso())
    for rows in (order[:3], order[3:4], order[4:]):
        model.partial_fit(X[rows], Y[rows], classes=NAMES, sample_weight=None if weight is None else weight[rows])
    assert model.classes_.tolist() == NAMES.tolist()
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-8)


def test_partial_fit_brings_new_classes_and_goes_on_from_fit() -> None:
    model = KShotClassifier(prior=iso()).fit(X[:5], Y[:5]).partial_fit(X[5:], Y[5:])
    np.testing.assert_allclose(model.coef_, KShotClassifier(prior=iso()).fit(X, Y).coef_, atol=1e-9)


def test_classes_without_examples_take_part() -> None:
    model = KShotClassifier(prior=iso()).partial_fit(X[:2], Y[:2], classes=["dog", "axolotl", "cat"])
    assert model.classes_.tolist() == ["axolotl", "cat", "dog"]
    expected, _ = kshot.fit_tasks(iso(), X[None, :2], [[1, 1]], ways=3)
    np.testing.assert_allclose(model.coef_, expected[0], atol=1e-9)


def test_a_partial_fit_that_fails_changes_nothing() -> None:
    model = KShotClassifier(prior=iso()).fit(X, Y)
    before = model.coef_
    with pytest.raises(UserError):
        model.partial_fit(X[:1], [7])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X[:1], Y[:1])
    twice = KShotClassifier(prior=iso()).fit(np.vstack([X, X[:1]]), np.append(Y, Y[:1]))
    np.testing.assert_allclose(model.coef_, twice.coef_, atol=1e-9)


def test_online_the_old_classes_come_first_and_stay() -> None:
    bias = RANDOM.normal(size=4)
    model = KShotClassifier(prior=iso(), base_weights=BASE, base_bias=bias, base_classes=OLD).fit(X, Y)
    assert model.classes_.tolist() == [*OLD, *NAMES]
    np.testing.assert_array_equal(model.coef_[:4], BASE)
    np.testing.assert_array_equal(model.intercept_, [*bias, 0, 0, 0])
    _, info = kshot.fit_tasks(
        iso(), X[None], np.searchsorted(NAMES, Y)[None], base_weights=BASE, base_bias=bias, X_query=QUERIES[None]
    )
    np.testing.assert_allclose(model.predict_proba(QUERIES), info.proba[0])
    assert set(model.predict(QUERIES)) <= set(model.classes_)


def test_online_one_new_class_is_a_task() -> None:
    model = KShotClassifier(prior=iso(5.0), base_weights=BASE, base_classes=OLD).fit(X[:2], ["cat", "cat"])
    assert model.classes_.tolist() == [*OLD, "cat"]
    assert model.posterior_.info.converged.all()
    assert model.predict(X[:2]).tolist() == ["cat", "cat"]


def test_online_examples_of_old_classes_count() -> None:
    settings = {"prior": iso(), "base_weights": BASE, "base_classes": OLD}
    both, labels = np.vstack([X, X[:2] + 0.1]), np.append(Y, ["mole", "ant"])
    model = KShotClassifier(**settings).fit(both, labels)
    without = KShotClassifier(**settings).fit(X, Y)
    assert model.classes_.tolist() == [*OLD, *NAMES]
    old = model.predict_proba(both[-2:])[:, :4].sum(axis=1)
    assert (old > without.predict_proba(both[-2:])[:, :4].sum(axis=1)).all()


class Calibrated:
    """A prior with a temperature, as `kshot.calibrate` gives it."""

    def __init__(self, prior: kshot.GaussianPrior) -> None:
        self.prior = prior

    def log_prob(self, weights):
        return self.prior.log_prob(weights)

    def temperature(self, examples_per_class: float) -> float:
        return 1 + examples_per_class


def test_the_temperature_of_a_calibrated_prior_sharpens_the_predictions() -> None:
    calibrated, plain = (KShotClassifier(prior=p).fit(X, Y) for p in (Calibrated(iso()), iso()))
    np.testing.assert_array_equal(calibrated.coef_, plain.coef_)
    p = plain.predict_proba(QUERIES) ** (1 + 8 / 3)
    np.testing.assert_allclose(calibrated.predict_proba(QUERIES), p / p.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize(
    "prior",
    [
        None,
        iso(0.5),
        kshot.StudentTPrior(np.zeros(5), ScaledIdentity(1.0, 5), 5.0),
        kshot.LaplacePrior(np.zeros(5), np.full(5, 2.0)),
    ],
)
def test_a_saved_model_predicts_and_learns_on(tmp_path: Path, prior, online: bool) -> None:
    old = {"base_weights": BASE, "base_bias": np.ones(4), "base_classes": OLD} if online else {}
    model = KShotClassifier(prior=prior, **old).fit(
        pd.DataFrame(X[:6], columns=list("abcde")), Y[:6], np.arange(1.0, 7)
    )
    model.save(tmp_path / "model")
    again = KShotClassifier.load(tmp_path / "model")
    queries = pd.DataFrame(QUERIES, columns=list("abcde"))
    np.testing.assert_array_equal(again.predict_proba(queries), model.predict_proba(queries))
    assert again.classes_.tolist() == model.classes_.tolist() and again.classes_.dtype == model.classes_.dtype
    assert again.posterior_.info.objective == model.posterior_.info.objective
    more = pd.DataFrame(X[6:], columns=list("abcde"))
    np.testing.assert_array_equal(again.partial_fit(more, Y[6:]).coef_, model.partial_fit(more, Y[6:]).coef_)


def test_a_model_that_averages_is_learned_again_from_its_file(tmp_path: Path) -> None:
    model = KShotClassifier(prior=iso(), inference="laplace", base_weights=BASE, base_classes=OLD).fit(X, Y)
    model.save(tmp_path / "model")
    again = KShotClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(QUERIES), model.predict_proba(QUERIES), atol=1e-12)


def test_the_spread_of_the_probabilities_is_there_where_the_method_has_one() -> None:
    mean, std = KShotClassifier(inference="laplace").fit(X, Y).predict_proba(QUERIES, return_std=True)
    assert mean.shape == std.shape == (20, 3) and (std > 0).all()
    with pytest.raises(UserError, match='use inference="laplace"'):
        KShotClassifier().fit(X, Y).predict_proba(QUERIES, return_std=True)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0), np.int64(3), 3])
def test_one_seed_is_drawn_at_the_first_fit_and_kept(tmp_path: Path, random_state) -> None:
    model = KShotClassifier(prior=iso(), inference="laplace", random_state=random_state).fit(X[:6], Y[:6])
    proba = model.predict_proba(QUERIES)
    np.testing.assert_array_equal(model.predict_proba(QUERIES), proba)
    model.save(tmp_path / "model")
    again = KShotClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(QUERIES), proba)
    np.testing.assert_array_equal(
        again.partial_fit(X[6:], Y[6:]).predict_proba(QUERIES), model.partial_fit(X[6:], Y[6:]).predict_proba(QUERIES)
    )


def test_seeds_are_scikit_learns() -> None:
    def draws(random_state: object) -> np.ndarray:
        return KShotClassifier(inference="laplace", random_state=random_state).fit(X, Y).predict_proba(QUERIES)

    np.testing.assert_array_equal(draws(np.random.RandomState(0)), draws(np.random.RandomState(0)))
    shared = np.random.RandomState(0)
    assert (draws(shared) != draws(shared)).any() and (draws(None) != draws(None)).any()
    np.testing.assert_array_equal(draws(np.int64(3)), draws(3))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        draws("three")


@pytest.mark.sample
@pytest.mark.filterwarnings("ignore::kshot.inference.SamplingWarning")  # a few draws are enough here
def test_sampling_takes_any_random_state() -> None:
    pytest.importorskip("jax")
    settings = NUTS(chains=1, warmup=20, draws=4, jobs=1)
    model = KShotClassifier(inference=settings, random_state=None).fit(X, Y)
    assert np.isfinite(model.predict_proba(QUERIES)).all()


def test_a_fit_that_failed_is_none() -> None:
    model = KShotClassifier()
    with pytest.raises(UserError, match="one class only"):
        model.fit(X, np.full(8, "cat"))
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError):
            ask(QUERIES)


@pytest.mark.parametrize("inference", ["map", "laplace"])
def test_parameters_set_after_the_fit_do_not_change_what_was_learned(tmp_path: Path, inference: str) -> None:
    calibration = Calibration(2.0, CURVE, inference, normalisation=Normalisation(np.full(5, 0.1), 1.5))
    model = KShotClassifier(calibration.apply(iso()), inference).fit(X, Y)
    proba = model.predict_proba(QUERIES)
    model.set_params(prior=None, inference="map", random_state=5, base_weights=BASE, base_classes=OLD)
    np.testing.assert_array_equal(model.predict_proba(QUERIES), proba)
    if inference == "laplace":
        np.testing.assert_array_equal(model.predict_proba(QUERIES, return_std=True)[0], proba)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(KShotClassifier.load(tmp_path / "model").predict_proba(QUERIES), proba)


@pytest.mark.parametrize(
    "labels", [np.array([3, -1, 3, -1]), np.array([True, False, True, False]), np.array([0.5, 1.0] * 2)]
)
def test_labels_of_other_kinds_survive_a_file(tmp_path: Path, labels: np.ndarray) -> None:
    if labels.dtype.kind == "f":
        with pytest.raises(ValueError, match="continuous"):
            KShotClassifier().fit(X[:4], labels)
        return
    model = KShotClassifier().fit(X[:4], labels)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(KShotClassifier.load(tmp_path / "model").predict(QUERIES), model.predict(QUERIES))


def test_a_users_own_prior_and_foreign_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        KShotClassifier().save(tmp_path / "model")
    with pytest.raises(UserError, match="a Calibrated, cannot be written to a file"):
        KShotClassifier(prior=Calibrated(iso())).fit(X, Y).save(tmp_path / "model")
    assert not any(tmp_path.iterdir())
    iso().save(tmp_path / "prior")
    with pytest.raises(FileFormatError, match="is a kshot prior file, and a classifier file is needed"):
        KShotClassifier.load(tmp_path / "prior")
    with pytest.raises(FileNotFoundError):
        KShotClassifier.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("settings", "data", "sentence"),
    [
        ({}, (X, np.full(8, "cat")), r"one class only \(cat\)"),
        ({}, (X, ["cat", 1, "cat", 1, 2, 2, 2, 2]), "y holds labels of mixed types"),
        ({}, (X, np.array(["cat", None] * 4, dtype=object)), "y holds labels of mixed types"),
        ({}, (np.where(X > 1, np.nan, X), Y), "NaN"),
        ({}, (X, Y[:3]), "inconsistent numbers of samples"),
        ({}, (X, Y, -np.ones(8)), "[Nn]egative"),
        ({"prior": iso(dim=4)}, (X, Y), "the prior has 4 dimensions, and the features have 5"),
        ({"prior": "gauss-iso"}, (X, Y), "prior must have a method log_prob"),
        ({"inference": "guess"}, (X, Y), "inference must be one of"),
        ({"base_weights": BASE}, (X, Y), "base_classes must name the rows"),
        ({"base_classes": OLD}, (X, Y), "base_classes was given without base_weights"),
        ({"base_weights": BASE, "base_classes": OLD[:2]}, (X, Y), "4 different names"),
        ({"base_weights": BASE, "base_classes": [0, 1, 2, 3]}, (X, Y), "mixed types"),
        ({"base_weights": BASE[:, :3], "base_classes": OLD}, (X, Y), "base_weights has 3 columns"),
        ({"base_weights": BASE, "base_classes": OLD}, (X, np.full(8, "ant")), "old classes only"),
    ],
)
def test_bad_input_is_named_in_a_sentence(settings: dict, data: tuple, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        KShotClassifier(**settings).fit(*data)


def test_features_of_another_width_are_refused_when_predicting() -> None:
    with pytest.raises(ValueError, match="5 features"):
        KShotClassifier().fit(X, Y).predict(QUERIES[:, :3])


STREAM = """
import resource, sys
import numpy as np, kshot
rows, width = 1_000_000, 1280
queries = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(rows, width))
random = np.random.default_rng(0)
model = kshot.KShotClassifier().fit(random.normal(size=(25, width)), np.arange(25) % 5)
def private():  # pages of the file are the system's cache, not ours
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) / 1024
import threading, time
peak, done = [private()], False
def watch():
    while not done:
        peak.append(private()); time.sleep(0.005)
watcher = threading.Thread(target=watch); watcher.start()
proba = model.predict_proba(queries)
labels = model.predict(queries[:1000])
done = True; watcher.join()
assert proba.shape == (rows, 5) and abs(proba.sum() - rows) < 1e-3
assert (labels == proba[:1000].argmax(axis=1)).all()
print(max(peak))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to read a process's own memory")
def test_a_million_rows_are_predicted_in_less_than_a_gigabyte(tmp_path: Path) -> None:
    file = tmp_path / "queries"
    with file.open("wb") as out:  # a file with holes: five gigabytes to read, none on the disk
        out.truncate(1_000_000 * 1280 * 4)
        out.write(np.ones(4096, dtype=np.float32).tobytes())
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", STREAM, str(file)], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 1000
