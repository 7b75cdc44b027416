"""Paired differences against SciPy's, and simulated methods of known difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kshot.datasets.tasks import Tasks, draw_splits, draw_tasks
from kshot.evaluation import metrics
from kshot.evaluation.outcome import Outcome
from kshot.evaluation.paired import differences

Y = np.repeat(np.arange(8), 40)


def predictions(tasks: Tasks, seed: int, *, skill: float = 1.0, temperature: float = 1.0, draw: int = 0) -> np.ndarray:
    """Give probabilities of a classifier whose skill varies from task to task; at temperature 1 it is calibrated."""
    random = np.random.default_rng(seed)
    # How hard a task is, all methods find alike.
    own = skill + 0.3 * np.random.default_rng(9999 + draw).normal(size=(len(tasks), 1, 1))
    right = np.eye(tasks.ways)[tasks.query_labels]
    # Logits of Gaussian noise with mean d² for the right class and variance d²: their softmax is its posterior.
    distance = np.maximum(own, 0.1)
    logits = distance**2 * right + distance * random.normal(size=right.shape)
    proba = np.exp(temperature * logits)
    return proba / proba.sum(axis=2, keepdims=True)


def outcomes(tasks: Tasks, **methods: np.ndarray) -> list[Outcome]:
    return [Outcome.of(name, tasks.shots, proba, tasks) for name, proba in methods.items()]


def test_differences_and_intervals_are_those_of_the_paired_t_test() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=50)
    one, other = outcomes(tasks, reference=predictions(tasks, 0), better=predictions(tasks, 1, skill=1.2))
    found = differences([one, other], reference="reference").set_index("metric")
    assert list(found.index) == ["accuracy", "log_likelihood", "brier", "ece"]
    assert (found["method"] == "better").all() and (found["shots"] == 1).all()
    for metric in ("accuracy", "log_likelihood", "brier"):
        test = stats.ttest_rel(other.scores()[metric], one.scores()[metric])
        low, high = test.confidence_interval(0.95)
        assert found.loc[metric, "difference"] == pytest.approx((low + high) / 2)
        assert found.loc[metric, "ci95"] == pytest.approx((high - low) / 2)
        assert found.loc[metric, "significant"] == (test.pvalue < 0.05)
    gap = metrics.ece(other.proba, tasks.query_labels) - metrics.ece(one.proba, tasks.query_labels)
    assert found.loc["ece", "difference"] == pytest.approx(gap)


def test_pairing_makes_the_interval_shorter_than_that_of_two_means() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=300)
    proba = predictions(tasks, 0)
    one, other = outcomes(tasks, reference=proba, softer=np.sqrt(proba) / np.sqrt(proba).sum(2, keepdims=True))
    found = differences([one, other], reference="reference").set_index("metric")
    alone = [each.row()["log_likelihood_ci95"] for each in (one, other)]
    assert found.loc["log_likelihood", "ci95"] < 0.6 * np.hypot(*alone)


def test_where_tasks_share_classes_the_split_is_the_unit() -> None:
    tasks = draw_splits(Y, ways=4, splits=8, repetitions=5)
    one, other = outcomes(tasks, reference=predictions(tasks, 0), better=predictions(tasks, 1))
    found = differences([one, other], reference="reference").set_index("metric")
    means = [each.scores()["brier"].reshape(8, 5).mean(axis=1) for each in (other, one)]
    low, high = stats.ttest_rel(*means).confidence_interval(0.95)
    assert found.loc["brier", "ci95"] == pytest.approx((high - low) / 2)


def test_the_bootstraps_interval_of_a_difference_in_ece_covers_it() -> None:
    # Two methods that see the same noise, one overconfident: over many evaluations its ECE is larger by what the mean
    # of them all says.
    gaps, halves = [], []
    for seed in range(120):
        tasks = draw_tasks(Y, ways=4, tasks=60, seed=seed)
        pair = [predictions(tasks, seed, skill=1.5, temperature=t, draw=seed) for t in (1.6, 2.4)]
        found = differences(outcomes(tasks, reference=pair[0], sure=pair[1]), reference="reference")
        row = found.set_index("metric").loc["ece"]
        gaps.append(row["difference"])
        halves.append(row["ci95"])
    covered = np.abs(np.array(gaps) - np.mean(gaps)) < halves
    assert 0.89 < covered.mean() <= 0.99
    assert 1.96 * np.std(gaps) == pytest.approx(np.mean(halves), rel=0.2)


def test_two_ways_to_the_same_predictions_do_not_differ() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=20)
    proba = predictions(tasks, 0)
    nudged = proba * (1 + 1e-15 * np.random.default_rng(0).normal(size=proba.shape))
    found = differences(outcomes(tasks, reference=proba, same=nudged), reference="reference")
    assert not found["significant"].any()


def test_a_figure_that_a_method_does_not_give_is_left_out() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=20)
    proba = predictions(tasks, 0)
    answers = proba.argmax(axis=2)
    nothing = np.full_like(proba, np.nan)
    found = differences(outcomes(tasks, reference=proba, svm=answers, cv=nothing), reference="reference")
    assert found[["method", "metric"]].to_numpy().tolist() == [["svm", "accuracy"]]


def test_what_cannot_be_compared_is_refused() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=20)
    (one,) = outcomes(tasks, reference=predictions(tasks, 0))
    with pytest.raises(ValueError, match="no outcomes of 'gauss-iso' to compare with"):
        differences([one])
    others = draw_tasks(Y, ways=4, tasks=20, seed=1)
    with pytest.raises(ValueError, match="not run on the same tasks"):
        differences([one, *outcomes(others, other=predictions(others, 0))], reference="reference")


def test_the_same_outcomes_give_the_same_table() -> None:
    tasks = draw_tasks(Y, ways=4, tasks=20)
    pair = outcomes(tasks, reference=predictions(tasks, 0), other=predictions(tasks, 1))
    assert differences(pair, reference="reference").equals(differences(pair, reference="reference"))
