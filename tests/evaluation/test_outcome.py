"""Outcomes: probabilities, answers only, or nothing at all."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

import kshot
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.outcome import Outcome, unanswered

TASKS = draw_tasks(np.repeat(np.arange(6), 30), ways=3, shots=2, queries=4, tasks=5)


def test_the_answer_is_the_most_probable_class() -> None:
    proba = np.random.default_rng(0).dirichlet(np.ones(3), (5, 12))
    outcome = Outcome.of("some", 2, proba, TASKS)
    assert (outcome.answers == proba.argmax(2)).all() and outcome.has_proba
    row = outcome.row()
    assert row["accuracy"] == pytest.approx((proba.argmax(2) == TASKS.query_labels).mean())
    assert row["log_likelihood"] == pytest.approx(
        np.log(np.take_along_axis(proba, TASKS.query_labels[..., None], 2)).mean()
    )


def test_a_method_with_answers_only_has_accuracy_only() -> None:
    answers = np.array(TASKS.query_labels)
    answers[:, 0] = 2  # one of twelve wrong
    outcome = Outcome.of("svm", 2, answers, TASKS)
    row = outcome.row()
    assert row["accuracy"] == pytest.approx(11 / 12) and row["accuracy_ci95"] == pytest.approx(0)
    assert np.isnan([row[name] for name in ("log_likelihood", "log_likelihood_ci95", "brier", "ece")]).all()
    assert outcome.per_task()["accuracy"].notna().all() and outcome.per_task()["brier"].isna().all()
    with pytest.raises(ValueError, match="svm gives no probabilities at 2 shots"):
        outcome.curve()


def test_a_method_that_cannot_be_applied_has_nothing() -> None:
    outcome = Outcome.of("logreg-cv", 1, unanswered(TASKS), TASKS)
    row = outcome.row()
    figures = ("accuracy", "accuracy_ci95", "log_likelihood", "log_likelihood_ci95", "brier", "ece")
    assert np.isnan([row[name] for name in figures]).all() and not outcome.has_proba
    assert outcome.per_task()[["accuracy", "log_likelihood", "brier"]].isna().all(axis=None)


@pytest.mark.parametrize("wrong", [np.ones((5, 12)), np.ones((5, 12, 2)), np.ones((5, 11), int)])
def test_what_is_neither_probabilities_nor_answers_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"some must give probabilities .* or whole-numbered labels"):
        Outcome.of("some", 2, wrong, TASKS)


def test_some_missing_probabilities_are_refused_and_not_averaged_over() -> None:
    proba = np.full((5, 12, 3), 1 / 3)
    proba[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        Outcome.of("some", 2, proba, TASKS).row()


def test_a_users_classifier_without_probabilities_is_a_row_with_accuracy() -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 30)
    features = kshot.Features(random.normal(size=(5, 4))[y] + random.normal(size=(150, 4)), y)
    table = kshot.evaluate(features, [SVC(kernel="linear"), "svm"], shots=(2,), tasks=6)
    assert table["accuracy"].between(0.2, 1).all() and table["ece"].isna().all()
