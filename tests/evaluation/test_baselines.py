"""Baselines against a few lines of the plainest code."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.svm import SVC

from kshot import Features
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.baselines import BASELINES, class_mean, nearest, svm


@pytest.fixture(scope="module")
def features() -> Features:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 30)
    centres = random.normal(size=(6, 5))
    return Features(centres[y] + 0.8 * random.normal(size=(180, 5)), y, base_weights=random.normal(size=(20, 5)) * 0.5)


def test_nearest_is_scikit_learns_nearest_neighbour_in_cosine_distance(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=4, tasks=20)
    proba = nearest(features, tasks)
    for task in range(20):
        peer = KNeighborsClassifier(1, metric="cosine").fit(features.X[tasks.support[task]], tasks.support_labels[task])
        assert (proba[task].argmax(1) == peer.predict(features.X[tasks.query[task]])).all()
    assert np.allclose(proba.sum(2), 1)


def test_class_mean_is_scikit_learns_nearest_centroid(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=4, tasks=20)
    proba = class_mean(features, tasks)
    for task in range(20):
        support, query = features.X[tasks.support[task]].astype(float), features.X[tasks.query[task]].astype(float)
        peer = NearestCentroid().fit(support, tasks.support_labels[task])
        assert (proba[task].argmax(1) == peer.predict(query)).all()
        distances = ((query[:, None] - peer.centroids_) ** 2).sum(2)
        expected = np.exp(-distances) / np.exp(-distances).sum(1, keepdims=True)
        assert np.allclose(proba[task], expected)


def test_svm_is_scikit_learns_and_gives_answers_only(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=3, tasks=10)
    answers = svm(features, tasks)
    assert answers.shape == tasks.query.shape and answers.dtype.kind == "i"
    for task in range(10):
        peer = SVC(kernel="rbf", C=1.0, gamma="scale").fit(
            features.X[tasks.support[task]].astype(float), tasks.support_labels[task]
        )
        assert (answers[task] == peer.predict(features.X[tasks.query[task]].astype(float))).all()


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("ways", [2, 5])
def test_every_baseline_gives_probabilities_or_answers_and_the_same_twice(
    features: Features, name: str, ways: int
) -> None:
    if name == "temperature":
        pytest.skip("its numbers are fitted on base tasks: tests/evaluation/test_calibrate.py")
    tasks = draw_tasks(features.y, ways=ways, shots=3, tasks=6)
    first, second = (BASELINES[name](features, tasks) for _ in range(2))
    assert (first == second).all()
    if first.ndim == 3:
        assert first.shape == (*tasks.query.shape, ways) and np.allclose(first.sum(2), 1)


def test_an_all_zero_feature_vector_gives_finite_probabilities() -> None:
    zeros = Features(np.zeros((40, 3)), np.repeat([0, 1], 20))
    tasks = draw_tasks(zeros.y, ways=2, tasks=3)
    for method in (nearest, class_mean):
        assert np.allclose(method(zeros, tasks), 0.5)
