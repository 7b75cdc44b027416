"""Metrics against scikit-learn's, simulated truth, and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve as sklearn_curve
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from kshot.evaluation import metrics


def random_predictions(seed: int, tasks: int = 4, queries: int = 30, ways: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(ways), (tasks, queries)), random.integers(0, ways, (tasks, queries))


@given(seed=st.integers(0, 1000), ways=st.integers(2, 20))
@settings(deadline=None, max_examples=25)
def test_each_task_has_scikit_learns_scores(seed: int, ways: int) -> None:
    proba, labels = random_predictions(seed, ways=ways)
    classes = list(range(ways))
    for task in range(len(proba)):
        p, y = proba[task], labels[task]
        assert metrics.accuracy(proba, labels)[task] == pytest.approx(accuracy_score(y, p.argmax(1)))
        assert metrics.log_likelihood(proba, labels)[task] == pytest.approx(-log_loss(y, p, labels=classes))
        # scikit-learn halves the sum over classes for two of them only if told to; here it is always the whole sum.
        own = brier_score_loss(y, p, labels=classes, scale_by_half=False)
        assert metrics.brier(proba, labels)[task] == pytest.approx(own)


def test_the_calibration_curve_is_scikit_learns() -> None:
    proba, labels = random_predictions(3, tasks=50)
    curve = metrics.calibration_curve(proba, labels)
    right, confidence = (proba.argmax(2) == labels).ravel(), proba.max(2).ravel()
    accuracy, mean = sklearn_curve(right, confidence, n_bins=15)
    full = curve.count > 0
    assert np.allclose(curve.accuracy[full], accuracy) and np.allclose(curve.confidence[full], mean)
    assert curve.count.sum() == labels.size


def test_ece_is_the_weighted_gap() -> None:
    proba = np.array([[[0.95, 0.05], [0.95, 0.05], [0.55, 0.45], [0.45, 0.55]]])
    labels = np.array([[0, 1, 0, 0]])
    # Bin of 0.95: two answers, half right; bin of 0.55: two answers, half right.
    assert metrics.ece(proba, labels, bins=10) == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)


def test_confidence_one_belongs_to_the_last_bin() -> None:
    curve = metrics.calibration_curve([[[1.0, 0.0]]], [[0]])
    assert curve.count.tolist() == [0] * 14 + [1]
    assert curve.ece == 0


def test_a_perfectly_calibrated_classifier_has_almost_no_error_pooled_and_a_large_one_by_task() -> None:
    random = np.random.default_rng(0)
    proba = random.dirichlet(np.ones(5) * 0.5, (600, 75))
    labels = (proba.cumsum(axis=2) > random.random((600, 75, 1))).argmax(axis=2)
    assert metrics.ece(proba, labels) < 0.01
    assert 0.08 < metrics.ece(proba, labels, pooling="task") < 0.2


def test_the_interval_covers_the_true_accuracy_95_times_in_100() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        difficulty = random.beta(8, 2, 200)  # tasks differ, their mean accuracy is 0.8
        per_task = random.binomial(75, difficulty) / 75
        covered += abs(per_task.mean() - 0.8) < metrics.interval95(per_task)
    assert 0.93 < covered / 2000 < 0.97


def test_where_tasks_share_classes_the_interval_over_splits_covers_and_that_over_tasks_does_not() -> None:
    random = np.random.default_rng(2)
    split = np.repeat(np.arange(20), 10)
    by_split = by_task = 0
    for _ in range(2000):
        # Choices of classes differ, and so do their repetitions; the mean accuracy is 0.8.
        difficulty = np.repeat(random.beta(24, 6, 20), 10)
        difficulty = random.beta(60 * difficulty, 60 * (1 - difficulty))
        per_task = random.binomial(75, difficulty) / 75
        by_split += abs(per_task.mean() - 0.8) < metrics.interval95(per_task, split)
        by_task += abs(per_task.mean() - 0.8) < metrics.interval95(per_task)
    assert 0.93 < by_split / 2000 < 0.97
    assert by_task / 2000 < 0.8


def test_the_interval_is_students_and_splits_may_come_in_any_order() -> None:
    values = np.array([0.1, 0.5, 0.3, 0.9, 0.7, 0.2])
    expected = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))[1] - values.mean()
    assert metrics.interval95(values) == pytest.approx(expected)
    means = np.array([(0.1 + 0.9) / 2, (0.5 + 0.7) / 2, (0.3 + 0.2) / 2])
    assert metrics.interval95(values, [0, 1, 2, 0, 1, 2]) == pytest.approx(metrics.interval95(means))


def test_splits_of_unequal_size_are_refused() -> None:
    with pytest.raises(ValueError, match="equally many"):
        metrics.interval95([0.1, 0.2, 0.3], [0, 0, 1])


def test_one_task_may_come_without_its_axis_and_has_no_interval() -> None:
    proba, labels = random_predictions(0, tasks=1)
    assert metrics.accuracy(proba[0], labels[0]) == metrics.accuracy(proba, labels)
    assert np.isnan(metrics.interval95(metrics.accuracy(proba, labels)))


def test_a_certain_mistake_costs_what_it_costs_in_scikit_learn() -> None:
    expected = -log_loss([1], [[1.0, 0.0]], labels=[0, 1])
    assert metrics.log_likelihood([[[1.0, 0.0]]], [[1]])[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("proba", "labels", "sentence"),
    [
        ([[[0.5, 0.5]]], [[2]], "labels must lie in 0..1"),
        ([[[0.5, 0.5]]], [[0, 1]], "do not fit"),
        ([[[0.5, 0.6]]], [[0]], "sum to 1"),
        ([[[np.nan, 1.0]]], [[0]], "finite"),
        ([[[1.5, -0.5]]], [[0]], "not below 0"),
        ([[[0.6, 0.6, -0.2]]], [[0]], "not below 0"),
    ],
)
def test_what_are_no_predictions_is_refused(proba, labels, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        metrics.accuracy(proba, labels)


def test_unknown_pooling_and_bins_are_refused() -> None:
    proba, labels = random_predictions(0)
    with pytest.raises(ValueError, match="pooling must be"):
        metrics.ece(proba, labels, pooling="class")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bins must be"):
        metrics.ece(proba, labels, bins=0)
