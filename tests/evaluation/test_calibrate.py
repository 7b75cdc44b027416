"""`kshot.calibrate` against known truths, brute force and predictions made the long way round."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp

import kshot
from kshot.concepts import Calibration, ScaledIdentity
from kshot.errors import UserError
from kshot.evaluation.calibrate import Fit
from kshot.evaluation.calibrated_prior import backbone_name
from kshot.evaluation.methods import prior_of
from kshot.evaluation.simulation import Round, simulate
from kshot.evaluation.temperature import class_mean_logits, fit_class_mean_temperature
from kshot.evaluation.valley import search, standard_error

DIM, CLASSES = 8, 12


@cache
def base() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes around centres, and a last layer that knows them: features (n, p), labels, weights (CLASSES, p)."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(CLASSES, DIM)) * 1.2
    y = np.repeat(np.arange(CLASSES), 30)
    return centres[y] + random.normal(size=(len(y), DIM)), y, centres + 0.1 * random.normal(size=centres.shape)


def iso(variance: float = 0.05, dim: int = DIM) -> kshot.GaussianPrior:
    return kshot.GaussianPrior(np.zeros(dim), ScaledIdentity(variance, dim))


def true_tasks(count: int, *, ways: int, dim: int, variance: float, most: int, queries: int, seed: int):
    """Tasks whose weights are drawn from the prior and labels from the softmax; sorted by class, as tasks are."""
    random, need = np.random.default_rng(seed), most + queries
    X = np.empty((count, ways, need, dim))
    for task in range(count):
        weights = math.sqrt(variance) * random.normal(size=(ways, dim))
        x = random.normal(size=(4 * ways * need, dim))
        logits = x @ weights.T
        y = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        for c in range(ways):
            X[task, c] = x[np.flatnonzero(y == c)[:need]]
    rows = np.arange(count * ways * need).reshape(count, ways, need)
    classes = np.arange(count * ways).reshape(count, ways)
    labels = np.repeat(np.arange(ways), queries)
    query = rows[:, :, most:].reshape(count, -1)
    return X.reshape(-1, dim), Round(classes, rows[:, :, :most], query, labels, np.full(labels.size, 1 / labels.size))


@pytest.mark.slow
def test_averaging_over_a_posterior_whose_prior_is_true_needs_neither_number() -> None:
    X, tasks = true_tasks(200, ways=3, dim=40, variance=0.25, most=10, queries=10, seed=0)
    fit = Fit(iso(0.25, 40), X, [tasks], (2, 10), "laplace", 0)
    valley = search(fit, tasks.classes)
    assert 0.5 < math.exp(valley.best) < 2 and valley.low < 0 < valley.high
    np.testing.assert_allclose(np.exp(fit.at(0.0).log_temperature), 1, atol=0.08)


def test_the_most_probable_weights_of_a_true_prior_are_too_sure() -> None:
    """The MAP leaves out the uncertainty of the weights, and its temperature makes up for it."""
    X, tasks = true_tasks(200, ways=3, dim=40, variance=0.25, most=10, queries=10, seed=0)
    few, many = Fit(iso(0.25, 40), X, [tasks], (2, 10), "map", 0).at(0.0).log_temperature
    assert few < math.log(0.8) and many < math.log(0.8)


def test_the_optimum_is_that_of_brute_force_over_scales_and_temperatures() -> None:
    X, y, _ = base()
    rounds = simulate(X, y, ways=3, shots=(1, 4), queries=10, tasks=30, seed=1)
    fit = Fit(iso(), X, rounds, (1, 4), "map", 0)
    valley = search(fit, rounds[0].classes)
    scales, temperatures = np.geomspace(0.01, 100, 17), np.geomspace(0.1, 3000, 250)  # steps of a quarter decade, 4 %
    total = np.zeros((len(scales),))
    for k in (1, 4):
        support = X[rounds[0].support[:, :, :k].reshape(30, -1)]
        for i, s in enumerate(scales):
            weights, _ = kshot.fit_tasks(iso(0.05 * s), support, np.tile(np.repeat(np.arange(3), k), (30, 1)))
            logits = X[rounds[0].query] @ weights.swapaxes(1, 2)
            scores = [
                np.take_along_axis(log_softmax(t * logits, axis=2), rounds[0].labels[None, :, None], axis=2).mean()
                for t in temperatures
            ]
            best = float(np.exp(fit.at(math.log(s)).log_temperature[(1, 4).index(k)]))
            assert best == pytest.approx(temperatures[int(np.argmax(scores))], rel=0.05)
            total[i] += max(scores) / 2
    assert valley.best == pytest.approx(math.log(scales[total.argmax()]), abs=math.log(10) / 8)
    assert total.max() - 1e-4 < valley.tried[valley.best] < total.max() + 2e-3
    assert valley.low <= valley.middle <= valley.high and valley.low < valley.best < valley.high


@pytest.mark.parametrize("setting", ["closed", "joint", "joint with a bias", "together"])
@pytest.mark.parametrize("inference", ["map", "laplace"])
def test_what_the_fit_promises_is_what_the_calibrated_prior_predicts(setting: str, inference: str) -> None:
    """The log-likelihood of the report, once more by fit_tasks and without the own rows of the new classes."""
    X, y, weights = base()
    bias = np.linspace(-1, 1, CLASSES) if setting == "joint with a bias" else None
    answer = "together" if setting == "together" else "each"
    old = {} if setting == "closed" else {"base_weights": weights, "base_bias": bias, "old_answer": answer}
    calibrated = kshot.calibrate(iso(), X, y, 3, (2, 5), inference, seed=4, tasks=20, **old)
    report = calibrated.calibration.report
    layer = None if setting == "closed" else (weights, bias)
    rounds = simulate(X, y, ways=3, shots=(2, 5), queries=15, tasks=20, seed=4, base=layer, old_answer=answer)
    for prior, name in ((iso(), "log_likelihood_before"), (calibrated, "log_likelihood_after")):
        for k, promised in zip((2, 5), report[name], strict=True):
            values = [_log_likelihood(prior, each, k, inference, answer, bias) for each in rounds]
            assert np.concatenate(values).mean() == pytest.approx(promised, abs=2e-5)
    assert np.mean(report["log_likelihood_after"]) > np.mean(report["log_likelihood_before"])
    assert calibrated.calibration.setting == ("closed" if setting == "closed" else "joint")
    assert calibrated.calibration.inference == inference


def _log_likelihood(prior, each: Round, shots: int, inference: str, answer: str, bias) -> np.ndarray:
    X, y, weights = base()
    support = each.support[:, :, :shots].reshape(len(each.support), -1)
    labels = np.tile(np.repeat(np.arange(3), shots), (len(support), 1))
    arguments = {"inference": inference, "X_query": X[each.query], "random_state": 4}
    if each.old is None:
        proba = kshot.fit_tasks(prior, X[support], labels, **arguments)[1].proba
        own = np.broadcast_to(each.labels, each.query.shape)
        return np.log(np.take_along_axis(proba, own[..., None], axis=2))[..., 0].mean(axis=1)
    new = np.unique(y[each.support])
    removed = np.flatnonzero([not any((row == kept).all() for kept in each.old.weights) for row in weights])
    assert set(new) <= set(removed) and len(removed) == 3
    kept = np.setdiff1d(np.arange(CLASSES), removed)
    arguments |= {"base_weights": weights[kept], "base_bias": None if bias is None else bias[kept]}
    proba = kshot.fit_tasks(prior, X[support], labels, **arguments)[1].proba
    out = []
    for task, rows in enumerate(each.query):
        for place, row in enumerate(rows):
            if y[row] in each.classes[task]:
                p = proba[task, place, len(kept) + list(each.classes[task]).index(y[row])]
            elif answer == "together":
                p = proba[task, place, : len(kept)].sum()
            else:
                p = proba[task, place, list(kept).index(y[row])]
            out.append(math.log(p))
    logs = np.array(out).reshape(each.query.shape)
    half = logs.shape[1] // 2
    is_new = np.array([[y[row] in each.classes[task] for row in rows] for task, rows in enumerate(each.query)])
    assert is_new[:, :half].all() and not is_new[:, half:].any()
    return (logs[:, :half].mean(axis=1) + logs[:, half:].mean(axis=1)) / 2


def test_a_new_class_s_own_row_is_taken_out_and_the_others_stay() -> None:
    X, y, weights = base()
    for each in simulate(X, y, ways=2, shots=(3,), queries=5, tasks=40, seed=0, base=(weights, None)):
        assert each.old is not None
        for new in np.unique(each.classes):
            assert not (each.old.weights == weights[new]).all(axis=1).any()
        assert set(np.unique(y[each.support])) == set(np.unique(each.classes))
        assert len(each.old.weights) == CLASSES - 2
        for support, query in zip(each.support, each.query, strict=True):
            assert not np.isin(support, query).any()
        f = X[each.query] @ each.old.weights.T
        for t in (0.3, 1.0, 4.7):
            rest = logsumexp(t * f, axis=2)
            np.testing.assert_allclose(each.old.rest(math.log(t)), rest, atol=2e-5 * np.abs(rest).max())


def test_if_the_own_row_stayed_the_answer_would_be_another() -> None:
    """With its own row among the old ones, a new class competes with itself and wants a far larger scale."""
    X, y, weights = base()
    right = kshot.calibrate(iso(), X, y, 3, (5,), base_weights=weights, tasks=40)
    doubled = np.vstack([weights, weights])
    # New classes are rows 0..11 by label, and their copies 12..23 stay: the mistake, made on purpose.
    wrong = kshot.calibrate(iso(), X, y, 3, (5,), base_weights=doubled, tasks=40)
    after = [each.calibration.report["log_likelihood_after"][0] for each in (right, wrong)]
    assert after[0] > after[1] + 0.3


def test_classes_without_a_row_are_the_new_ones_and_all_rows_stay() -> None:
    X, y, weights = base()
    labels = y - 6  # 0..5 are rows; the first six classes have none
    for each in simulate(X, labels, ways=3, shots=(2,), queries=5, tasks=20, seed=0, base=(weights[6:], None)):
        assert each.old is not None and len(each.old.weights) == 6
        assert (each.classes < 0).all() and (labels[each.support] < 0).all()
        assert (labels[each.query[:, 15:]] >= 0).all()
    report = kshot.calibrate(iso(), X, labels, 3, (2,), base_weights=weights[6:], tasks=20).calibration.report
    assert (report["classes"], report["old_classes"]) == (6, 6)


@settings(deadline=None, max_examples=5)
@given(st.floats(0.1, 10.0))
def test_features_times_a_with_a_variance_over_a_squared_have_the_same_numbers(a: float) -> None:
    X, y, _ = base()
    one, other = (
        kshot.calibrate(iso(0.05 / factor**2), factor * X, y, 3, (1, 5), tasks=15).calibration for factor in (1.0, a)
    )
    assert one.scale == pytest.approx(other.scale, rel=1e-3)
    np.testing.assert_allclose(one.temperature.values, other.temperature.values, rtol=5e-3)


@pytest.mark.parametrize(
    "prior",
    [
        kshot.GaussianPrior.fit(base()[2], covariance="full"),
        kshot.StudentTPrior(np.zeros(DIM), ScaledIdentity(0.05, DIM), 7.0),
        kshot.MixturePrior(
            np.array([0.5, 0.5]), np.array([np.ones(DIM), -np.ones(DIM)]), (ScaledIdentity(0.05, DIM),) * 2
        ),
        kshot.LaplacePrior(np.zeros(DIM), np.full(DIM, 0.1)),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_every_family_can_be_calibrated(prior) -> None:
    X, y, _ = base()
    calibrated = kshot.calibrate(prior, X, y, 3, (3,), tasks=4)
    assert type(calibrated.prior) is type(prior)
    report = calibrated.calibration.report
    assert report["log_likelihood_after"][0] > report["log_likelihood_before"][0]


def test_the_same_call_gives_the_same_numbers() -> None:
    X, y, _ = base()
    first, again, other = (kshot.calibrate(iso(), X, y, 3, (1, 5), tasks=10, seed=seed) for seed in (0, 0, 1))
    assert first.calibration.to_json() == again.calibration.to_json()
    assert first.calibration.to_json() != other.calibration.to_json()


def test_the_search_stops_where_the_likelihood_has_no_top() -> None:
    classes = np.arange(60).reshape(20, 3)
    valley = search(lambda log_scale: np.full(20, -math.exp(-log_scale)), classes)
    assert math.exp(valley.high) == pytest.approx(1e5, rel=1e-6) == math.exp(valley.best)


def test_the_middle_of_a_parabola_s_valley_is_its_top() -> None:
    random = np.random.default_rng(0)
    classes, tilt = np.arange(600).reshape(200, 3), random.normal(size=200)
    tilt -= tilt.mean()
    valley = search(lambda x: -((x - 1.0) ** 2) / 50 + tilt * x / 5, classes)
    half = 50 / 5 * tilt.std(ddof=1) / math.sqrt(200)  # where (x − 1)² / 50 is the paired standard error of x − 1
    assert valley.best == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose([valley.low, valley.high], [1 - half, 1 + half], atol=0.02)


@pytest.mark.parametrize(("classes_in_all", "noise"), [(16, 0.0), (16, 2.0), (60, 1.0), (60, 2.0)])
def test_the_standard_error_is_over_classes_and_tasks(classes_in_all: int, noise: float) -> None:
    """Each class adds a constant and each task noise of its own: the error is that of means over many worlds."""
    random = np.random.default_rng(0)
    errors, means = [], []
    for _ in range(150):
        effect = random.normal(size=classes_in_all)
        classes = random.permuted(np.tile(np.arange(classes_in_all), (200, 1)), axis=1)[:, :4]
        values = effect[classes].mean(axis=1) + noise * random.normal(size=200)
        means.append(values.mean())
        errors.append(standard_error(values, classes))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)


def test_the_standard_error_of_tasks_that_share_no_class_or_all_is_that_of_independent_ones() -> None:
    values = np.random.default_rng(0).normal(size=50)
    for classes in (np.tile(np.arange(4), (50, 1)), np.arange(200).reshape(50, 4)):
        assert standard_error(values, classes) == pytest.approx(values.std(ddof=1) / math.sqrt(50))


def test_the_baseline_s_temperature_is_that_of_brute_force() -> None:
    X, y, _ = base()
    found = fit_class_mean_temperature(X, y, ways=3, shots=(1, 5), queries=10, tasks=40, seed=2)
    (tasks,) = simulate(X, y, ways=3, shots=(1, 5), queries=10, tasks=40, seed=2)
    logits = [class_mean_logits(X[tasks.support_rows(k)], X[tasks.query], 3) for k in (1, 5)]
    grid = np.geomspace(0.01, 10, 400)
    own = np.broadcast_to(tasks.labels, tasks.query.shape)[..., None]
    scores = [np.mean([np.take_along_axis(log_softmax(t * f, axis=2), own, axis=2) for f in logits]) for t in grid]
    assert found == pytest.approx(grid[int(np.argmax(scores))], rel=0.02)
    distance = ((X[tasks.query][:, :, None] - X[tasks.support[:, :, :1]].swapaxes(1, 2)) ** 2).sum(axis=3)
    np.testing.assert_allclose(log_softmax(logits[0], axis=2), log_softmax(-distance, axis=2), atol=1e-9)


def test_a_calibrated_method_without_bundled_numbers_is_fitted_on_the_base_images() -> None:
    X, y, weights = base()
    few = np.tile(np.arange(30) < 8, CLASSES)
    features = kshot.Features(X, y, base_weights=weights, base_X=X[few], base_y=y[few])
    prior = prior_of("gauss-diag-calibrated", features)
    assert prior is prior_of("gauss-diag-calibrated", features) and prior.calibration.inference == "map"
    table = kshot.evaluate(features, ["gauss-iso", "gauss-iso-calibrated", "temperature"], ways=3, shots=(5,), tasks=30)
    plain, calibrated, _ = table.log_likelihood
    assert calibrated > plain
    without = kshot.Features(X, y, base_weights=weights)
    for method in ("gauss-iso-calibrated", "temperature"):
        with pytest.raises(UserError, match="images of base classes, and these features have none"):
            kshot.evaluate(without, [method], ways=3, shots=(1,), tasks=5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ways": 13}, "there are 12 classes, too few for 13 ways"),
        ({"shots": (1, 30)}, "class 0 has 30 images, too few for 30 shots and a query"),
        ({"shots": (0, 5)}, "shots must be whole numbers of at least 1"),
        ({"shots": ()}, "give at least one number of shots"),
        ({"X_base": np.full((360, DIM), np.nan)}, "X_base holds a NaN"),
        ({"X_base": np.ones((360, 3))}, "the prior has 8 dimensions, and the features have 3"),
        ({"y_base": np.zeros(5, int)}, "y_base must have one label per row of X_base, 360 of them"),
        ({"base_weights": np.ones((11, DIM))}, "which row of base_weights each image's class is, .* up to 10"),
        ({"base_weights": np.ones((12, DIM)), "ways": 12}, "too few to learn 12 of them in the presence of others"),
        ({"base_bias": np.ones(12)}, "base_bias was given without base_weights"),
        ({"inference": "vi"}, "inference must be one of map, laplace, nuts"),
        ({"tasks": 0}, "tasks must be at least 1"),
        ({"ways": 1}, "ways must be a whole number of at least 2, as one class alone has nothing to be told from"),
        ({"ways": 2.5}, "ways must be a whole number"),
        ({"ways": 0, "base_weights": np.ones((12, DIM))}, "ways must be a whole number of at least 1, and it is 0"),
        ({"old_answer": "every"}, "old_answer must be one of each, together, and it is 'every'"),
        ({"old_answer": "every", "base_weights": np.ones((12, DIM))}, "old_answer must be one of each, together"),
    ],
)
def test_what_cannot_be_calibrated_is_said_in_a_sentence(change, sentence: str) -> None:
    X, y, _ = base()
    with pytest.raises(UserError, match=sentence):
        kshot.calibrate(**({"prior": iso(), "X_base": X, "y_base": y, "tasks": 5} | change))


def test_beside_old_classes_one_new_class_can_be_calibrated() -> None:
    X, y, weights = base()
    calibrated = kshot.calibrate(iso(), X, y, 1, (2,), base_weights=weights, tasks=20)
    report = calibrated.calibration.report
    assert report["log_likelihood_after"] > report["log_likelihood_before"]


def test_a_prior_that_cannot_be_scaled_or_is_calibrated_is_refused() -> None:
    class Mine:
        def log_prob(self, weights):
            return -(weights**2).sum(axis=-1)

    X, y, _ = base()
    with pytest.raises(UserError, match=r"Mine must have a method scaled\(s\)"):
        kshot.calibrate(Mine(), X, y)
    calibrated = kshot.calibrate(iso(), X, y, 3, (1,), tasks=5)
    with pytest.raises(UserError, match="calibrated already"):
        kshot.calibrate(calibrated, X, y)


def test_a_network_of_ones_own_does_not_take_the_numbers_of_the_bundled_one_of_its_name() -> None:
    bundled = kshot.Features.load("vgg-cifar100")
    assert backbone_name(bundled) == "vgg-cifar100"
    record = bundled.source["backbone"]
    assert (
        Calibration.bundled_file("vgg-cifar100")["hash"] == record["hash"] == kshot.Backbone.load("vgg-cifar100").hash
    )
    own = kshot.Features(
        bundled.X, bundled.y, base_weights=bundled.base_weights, source={"backbone": record | {"hash": "another"}}
    )
    assert backbone_name(own) is None
    with pytest.raises(UserError, match="set base_X and base_y"):
        kshot.evaluate(own, ["gauss-iso-calibrated"], tasks=2)
