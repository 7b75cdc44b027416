"""Baselines against a few lines of the plainest code."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from kshot import Features
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.baselines import BASELINES, class_mean, nearest, with_sklearn


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


def test_a_scikit_learn_classifier_is_fitted_to_each_task_alone(features: Features) -> None:
    tasks = draw_tasks(features.y, shots=3, tasks=60)
    estimator = LogisticRegression(C=0.3)
    proba = with_sklearn(estimator, features, tasks)
    assert not hasattr(estimator, "coef_")
    for task in (0, 31, 59):
        own = LogisticRegression(C=0.3).fit(features.X[tasks.support[task]].astype(float), tasks.support_labels[task])
        assert np.allclose(proba[task], own.predict_proba(features.X[tasks.query[task]].astype(float)), atol=1e-6)


def test_a_classifier_without_probabilities_is_sure_of_what_it_says(features: Features) -> None:
    proba = with_sklearn(RidgeClassifier(), features, draw_tasks(features.y, shots=3, tasks=5))
    assert set(np.unique(proba)) <= {0.0, 1.0} and np.allclose(proba.sum(2), 1)


@pytest.mark.parametrize("name", [name for name in BASELINES if name.startswith("logreg")])
def test_regularisation_from_the_base_weights_needs_base_weights(name: str, features: Features) -> None:
    tasks = draw_tasks(features.y, shots=2, tasks=5)
    assert np.allclose(BASELINES[name](features, tasks).sum(2), 1)
    with pytest.raises(ValueError, match="base weights"):
        BASELINES[name](Features(features.X, features.y), tasks)


def test_an_all_zero_feature_vector_gives_finite_probabilities() -> None:
    zeros = Features(np.zeros((40, 3)), np.repeat([0, 1], 20))
    tasks = draw_tasks(zeros.y, ways=2, tasks=3)
    for method in (nearest, class_mean):
        assert np.allclose(method(zeros, tasks), 0.5)
