"""C by cross-validation, all tasks at once, against scikit-learn's LogisticRegressionCV, one task after another."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV

import kshot
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.cross_validation import chosen_constants, logreg_cv, logreg_cv_logloss
from kshot.evaluation.logistic import CS

METHODS = {"accuracy": logreg_cv, "log-loss": logreg_cv_logloss}


@pytest.fixture(scope="module")
def features() -> kshot.Features:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 40)
    return kshot.Features(2 * random.normal(size=(5, 6))[y] + 3 * random.normal(size=(200, 6)), y)


def peer(score: str, shots: int) -> LogisticRegressionCV:
    return LogisticRegressionCV(
        Cs=list(CS),
        cv=min(5, shots),
        fit_intercept=False,
        scoring="accuracy" if score == "accuracy" else "neg_log_loss",
        solver="newton-cholesky",
        tol=1e-10,
        max_iter=1000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )


@pytest.mark.parametrize(
    ("score", "ways", "shots"),
    [("accuracy", 3, 2), ("accuracy", 4, 5), ("accuracy", 3, 7), ("log-loss", 3, 7), ("log-loss", 2, 4)],
)
def test_the_constant_and_the_probabilities_are_scikit_learns(features, score: str, ways: int, shots: int) -> None:
    tasks = draw_tasks(features.y, ways=ways, shots=shots, tasks=6, seed=3)
    chosen, proba = chosen_constants(features, tasks, score=score), METHODS[score](features, tasks)
    assert len(np.unique(chosen)) > 2
    for task in range(len(tasks)):
        X, X_query = (features.X[rows[task]].astype(float) for rows in (tasks.support, tasks.query))
        fitted = peer(score, shots).fit(X, tasks.support_labels[task])
        assert chosen[task] == fitted.C_
        np.testing.assert_allclose(proba[task], fitted.predict_proba(X_query), atol=1e-5)


def test_among_equally_good_constants_the_strongest_wins_as_in_scikit_learn() -> None:
    random = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 20)
    far = kshot.Features(8 * np.eye(3)[y] + 0.3 * random.normal(size=(60, 3)), y)  # every C gets everything right
    tasks = draw_tasks(far.y, ways=3, shots=4, queries=5, tasks=3)
    assert (chosen_constants(far, tasks) == CS[0]).all()
    fitted = peer("accuracy", 4).fit(far.X[tasks.support[0]].astype(float), tasks.support_labels[0])
    assert CS[0] == fitted.C_


def test_with_one_example_per_class_nothing_can_be_held_out(features: kshot.Features) -> None:
    table = kshot.evaluate(features, ["logreg-cv", "logreg-cv-logloss"], ways=3, shots=(1, 2), tasks=4)
    figures = table[["accuracy", "accuracy_ci95", "log_likelihood", "brier", "ece"]]
    assert figures[table["shots"] == 1].isna().all(axis=None)
    assert figures[table["shots"] == 2].notna().all(axis=None)


def test_other_features_with_the_same_tasks_are_not_confused(features: kshot.Features) -> None:
    tasks = draw_tasks(features.y, ways=3, shots=3, tasks=6)
    first = logreg_cv(features, tasks)
    other = kshot.Features(features.X[:, :3], features.y)
    assert not np.allclose(first, logreg_cv(other, tasks))
    np.testing.assert_array_equal(first, logreg_cv(features, tasks))
