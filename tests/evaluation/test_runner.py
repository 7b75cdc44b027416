"""`kshot.evaluate`: the same tasks for every method, whatever stands for a method."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import kshot
from kshot.concepts import Calibration, Temperature
from kshot.errors import UserError
from kshot.evaluation.methods import prior_of
from kshot.evaluation.runner import draw, per_task, run, table, timings


@pytest.fixture(scope="module")
def features() -> kshot.Features:
    """Classes whose weights and whose examples come from one Gaussian model."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 40)
    centres = 1.5 * random.normal(size=(8, 6))
    return kshot.Features(
        centres[y] + random.normal(size=(320, 6)),
        y,
        base_weights=0.5 * random.normal(size=(40, 6)),
        base_groups=[f"group {index % 4}" for index in range(40)],
    )


def test_a_row_per_method_and_shots_with_the_columns_of_the_contract(features: kshot.Features) -> None:
    table = kshot.evaluate(features, ["gauss-iso", "nearest"], shots=(1, 3), tasks=40, seed=1)
    columns = ["method", "shots", "accuracy", "accuracy_ci95", "log_likelihood", "brier", "ece"]
    assert list(table.columns[:7]) == columns
    again = {"ways": 5, "tasks": 40, "queries": 15, "seed": 1, "protocol": "tasks", "kshot": kshot.__version__}
    assert all((table[name] == value).all() for name, value in again.items())
    assert table[["method", "shots"]].to_numpy().tolist() == [
        ["gauss-iso", 1],
        ["gauss-iso", 3],
        ["nearest", 1],
        ["nearest", 3],
    ]
    assert table["accuracy"].between(0.3, 1).all() and (table["accuracy_ci95"] > 0).all()
    assert table.loc[1, "accuracy"] > table.loc[0, "accuracy"]


def test_the_same_call_gives_the_same_table(features: kshot.Features) -> None:
    first, second = (kshot.evaluate(features, ["gauss-full", "class-mean"], shots=(2,), tasks=20) for _ in range(2))
    assert first.equals(second)
    assert not first.equals(kshot.evaluate(features, ["gauss-full", "class-mean"], shots=(2,), tasks=20, seed=9))


def test_gauss_iso_is_logistic_regression_with_the_variance_of_the_base_weights(features: kshot.Features) -> None:
    assert features.base_weights is not None
    variance = features.base_weights.var(axis=0).mean()
    peer = LogisticRegression(C=variance, fit_intercept=False, tol=1e-9, max_iter=1000)
    ours, named, sklearn = run(features, ["gauss-iso", "logreg-sigma2", peer], shots=(3,), tasks=20)
    np.testing.assert_allclose(ours.proba, sklearn.proba, atol=1e-5)
    np.testing.assert_allclose(ours.proba, named.proba, atol=1e-9)


def test_under_the_papers_splits_the_interval_is_over_choices_of_classes(features: kshot.Features) -> None:
    (outcome,) = run(features, ["gauss-iso"], shots=(2,), tasks=60, protocol="splits")
    per_task = outcome.per_task()
    assert list(per_task.columns) == ["method", "shots", "task", "accuracy", "log_likelihood", "brier", "split"]
    means = per_task.groupby("split")[["accuracy", "log_likelihood"]].mean()
    assert len(means) == 6
    for metric in means:
        half = stats.t.ppf(0.975, 5) * stats.sem(means[metric])
        assert outcome.row()[f"{metric}_ci95"] == pytest.approx(half)


def test_the_tasks_of_every_outcome_are_kept(features: kshot.Features) -> None:
    outcomes = list(run(features, ["nearest", "svm"], shots=(1, 2), tasks=7))
    tasks, means = per_task(outcomes), table(outcomes)
    assert list(tasks.columns) == ["method", "shots", "task", "accuracy", "log_likelihood", "brier"]
    assert len(tasks) == 2 * 2 * 7
    own = tasks.groupby(["method", "shots"], sort=False)[["accuracy", "log_likelihood", "brier"]].mean()
    np.testing.assert_allclose(own.to_numpy(), means[["accuracy", "log_likelihood", "brier"]].to_numpy())
    assert (timings(outcomes)["seconds"] > 0).all()


def test_a_function_with_a_name_is_a_method(features: kshot.Features) -> None:
    class Guess:
        name = "guess"

        def __call__(self, features, tasks):
            return np.full((*tasks.query.shape, tasks.ways), 1 / tasks.ways)

    table = kshot.evaluate(features, [Guess()], shots=(1,), tasks=4)
    assert table.loc[0, "method"] == "guess"
    assert table.loc[0, "log_likelihood"] == pytest.approx(-np.log(5)) and table.loc[0, "accuracy"] == 0.2


def test_a_classifier_and_ones_own_prior_stand_in_place_of_a_name(features: kshot.Features) -> None:
    class WidePrior:
        def log_prob(self, weights):
            return -(weights**2).sum(axis=-1) / 8

        def grad_log_prob(self, weights):
            return -weights / 4

    methods = [
        WidePrior(),
        WidePrior,
        LogisticRegression(C=4.0, fit_intercept=False, tol=1e-9, max_iter=1000),
        kshot.GaussianPrior,
    ]
    own, own_class, sklearn, family = run(features, methods, shots=(3,), tasks=10)
    assert [outcome.method for outcome in (own, sklearn, family)] == [
        "WidePrior",
        "LogisticRegression",
        "GaussianPrior",
    ]
    np.testing.assert_allclose(own.proba, own_class.proba)
    np.testing.assert_allclose(own.proba, sklearn.proba, atol=1e-5)


@pytest.mark.parametrize("name", ["gauss-iso", "gauss-diag", "gauss-full", "student-t", "gmm-3-iso", "gmm-2-diag",
                                  "gmm-superclass", "laplace-iso", "laplace-diag"])  # fmt: skip
def test_every_name_of_a_prior_fits_it_to_the_base_weights(features: kshot.Features, name: str) -> None:
    assert prior_of(name, features).log_prob(features.base_weights).shape == (40,)
    assert kshot.evaluate(features, [name], ways=3, shots=(2,), tasks=3)["accuracy"].notna().all()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("gaus-iso", "there is no method 'gaus-iso': the priors are gauss-iso, .* the baselines nearest"),
        ("gauss", "there is no method 'gauss': the priors are gauss-iso"),
        ("gmm-0-iso", "there is no method 'gmm-0-iso'"),
        ("gauss-iso-calibrated-calibrated", "there is no method"),
        ("gauss-iso:nutz", "'gauss-iso:nutz': after the colon, inference must be one of map, laplace, nuts"),
        ("gauss-iso:Laplace", "inference must be one of map, laplace, nuts"),
        ("gauss-iso:", "inference must be one of map, laplace, nuts"),
        ("laplace-iso:laplace", "has none at its kinks; use laplace-iso or laplace-iso:nuts"),
        (3, "is no method"),
    ],
)
def test_what_is_no_method_is_refused_before_any_method_runs(features: kshot.Features, method, sentence: str) -> None:
    ran = []

    class Spy:
        name = "spy"

        def __call__(self, features, tasks):
            ran.append(tasks.shots)
            return np.full((*tasks.query.shape, tasks.ways), 1 / tasks.ways)

    with pytest.raises(ValueError, match=sentence):
        kshot.evaluate(features, [Spy(), method], tasks=2)
    assert not ran


def test_one_method_and_one_number_of_shots_need_no_list(features: kshot.Features) -> None:
    whole = kshot.evaluate(features, ["gauss-iso"], shots=(3,), tasks=4)
    assert whole.equals(kshot.evaluate(features, "gauss-iso", shots=3, tasks=4))
    own = kshot.GaussianPrior.fit(features.base_weights)
    assert kshot.evaluate(features, own, shots=np.int64(3), tasks=4)["accuracy"].tolist() == whole["accuracy"].tolist()
    forest = RandomForestClassifier(2)  # which can be iterated over
    assert kshot.evaluate(features, forest, shots=3, tasks=2)["method"].tolist() == ["RandomForestClassifier"]


@pytest.mark.parametrize("inference", ["map", "laplace"])
def test_a_calibrated_prior_is_run_by_the_method_that_it_was_calibrated_for(
    features: kshot.Features, inference: str
) -> None:
    calibration = Calibration(2.0, Temperature((1, 5), (4.0, 2.0)), inference)
    prior = calibration.apply(kshot.GaussianPrior.fit(features.base_weights))
    (outcome,) = run(features, [prior], shots=(2,), tasks=5)
    tasks = draw(features, ways=5, shots=2, tasks=5, queries=15, seed=0)
    X, query = features.X[tasks.support], features.X[tasks.query]
    _, info = kshot.fit_tasks(prior, X, tasks.support_labels, inference, X_query=query)
    np.testing.assert_array_equal(outcome.proba, info.proba)


def test_a_prior_calibrated_beside_old_classes_is_refused(features: kshot.Features) -> None:
    calibration = Calibration(2.0, Temperature((1, 5), (4.0, 2.0)), "map", "joint")
    prior = calibration.apply(kshot.GaussianPrior.fit(features.base_weights))
    with pytest.raises(UserError, match="calibrated for new classes beside old ones"):
        kshot.evaluate(features, [prior], tasks=2)


def test_a_priors_class_is_fitted_to_the_biases_too_where_its_fit_takes_them(features: kshot.Features) -> None:
    class Unbiased(kshot.GaussianPrior):
        @classmethod
        def fit(cls, base_weights):
            return kshot.GaussianPrior.fit(base_weights)

    bias = 3 * np.random.default_rng(1).normal(size=40)
    biased = kshot.Features(features.X, features.y, base_weights=features.base_weights, base_bias=bias)
    named, family, without = run(biased, ["gauss-iso", kshot.GaussianPrior, Unbiased], shots=(1,), tasks=5)
    (plain,) = run(features, ["gauss-iso"], shots=(1,), tasks=5)
    np.testing.assert_array_equal(family.proba, named.proba)
    np.testing.assert_array_equal(without.proba, plain.proba)
    assert not np.allclose(family.proba, plain.proba)


def test_priors_need_base_weights(features: kshot.Features) -> None:
    with pytest.raises(ValueError, match="set base_weights"):
        kshot.evaluate(kshot.Features(features.X, features.y), ["gauss-iso"], tasks=2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shots": (30,)}, "class 0 has 40 examples, too few for 30 shots and 15 queries"),
        ({"ways": 9}, "there are 8 classes, too few for 9 ways"),
        ({"protocol": "splits", "tasks": 15}, "multiple of 10"),
        ({"protocol": "folds"}, "protocol must be tasks or splits"),
        ({"shots": ()}, "give at least one number of shots"),
        ({"shots": 1.5}, "shots must be whole numbers of at least 1"),
        ({"shots": (1, 0)}, "shots must be whole numbers of at least 1"),
        ({"methods": []}, "give at least one method"),
        ({"methods": [kshot.CalibratedPrior]}, "CalibratedPrior cannot be fitted to base weights: give one"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(features: kshot.Features, options, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        kshot.evaluate(features, **({"methods": ["nearest"], "tasks": 20} | options))


def test_methods_of_one_name_are_numbered(features: kshot.Features) -> None:
    priors = [kshot.GaussianPrior.fit(features.base_weights, covariance=kind) for kind in ("iso", "full", "diag")]
    table = kshot.evaluate(features, priors, shots=(1,), tasks=10)
    assert table["method"].tolist() == ["GaussianPrior", "GaussianPrior-2", "GaussianPrior-3"]
