"""Scikit-learn classifiers in place of a method, fitted here or wherever joblib is told to."""

from __future__ import annotations

import os

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from kshot import Features
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.estimators import with_sklearn
from kshot.evaluation.spread import spread


@pytest.fixture(scope="module")
def features() -> Features:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 30)
    return Features(random.normal(size=(6, 5))[y] + 0.8 * random.normal(size=(180, 5)), y)


def test_a_scikit_learn_classifier_is_fitted_to_each_task_alone(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=3, tasks=60)
    estimator = LogisticRegression(C=0.3)
    proba = with_sklearn(estimator, features, tasks)
    assert not hasattr(estimator, "coef_")
    for task in (0, 31, 59):
        own = LogisticRegression(C=0.3).fit(features.X[tasks.support[task]].astype(float), tasks.support_labels[task])
        assert np.allclose(proba[task], own.predict_proba(features.X[tasks.query[task]].astype(float)), atol=1e-6)


def test_a_classifier_without_probabilities_gives_its_answers(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=3, tasks=5)
    answers = with_sklearn(RidgeClassifier(), features, tasks)
    own = RidgeClassifier().fit(features.X[tasks.support[4]].astype(float), tasks.support_labels[4])
    assert answers.shape == tasks.query.shape
    assert (answers[4] == own.predict(features.X[tasks.query[4]].astype(float))).all()


def test_the_users_number_of_jobs_is_respected() -> None:
    with joblib.parallel_config(n_jobs=1):
        who = spread(lambda part: np.full(len(part), os.getpid()), np.arange(9), portion=3)
    assert (who == os.getpid()).all()


def test_a_dask_cluster_does_the_work_where_joblib_is_told_so(features: Features) -> None:
    distributed = pytest.importorskip("distributed")
    tasks = draw_tasks(features.y, shots=2, tasks=60)
    estimator = LogisticRegression(C=0.3)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        who = spread(_worker, np.arange(8), portion=1)
        proba = with_sklearn(estimator, features, tasks)
    assert set(who) <= {"0", "1"}
    assert (proba == with_sklearn(estimator, features, tasks)).all()


def _worker(part: np.ndarray) -> np.ndarray:
    """Give the name of the Dask worker that does this, an error where there is none."""
    from distributed import get_worker

    return np.full(len(part), str(get_worker().name))
