"""The online protocol against one softmax over all classes, task by task."""

from __future__ import annotations

import numpy as np
import pytest

import kshot
from kshot.concepts import Calibration, ScaledIdentity, Temperature
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.maximum_likelihood import maximum_likelihood
from kshot.evaluation.online import FIGURE_5, online_outcomes, online_per_task, run_online

OLD, WIDTH = 7, 6
CALIBRATED = {
    name: Calibration(2.0, Temperature((1,), (3.0,)), inference, setting).apply(
        kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(1.0, dim=WIDTH))
    )
    for name, inference, setting in (
        ("closed", "map", "closed"),
        ("joint", "map", "joint"),
        ("laplace", "laplace", "joint"),
    )
}


def make(*, bias: bool = False, counts: int = 30) -> kshot.Features:
    random = np.random.default_rng(0)
    weights = random.normal(size=(OLD, WIDTH))
    y, base_y = np.repeat(np.arange(5), 30), np.repeat(np.arange(OLD), np.arange(OLD) * 3 + counts)
    centres = random.normal(size=(5, WIDTH))
    return kshot.Features(
        1.5 * centres[y] + random.normal(size=(len(y), WIDTH)),
        y,
        base_weights=weights,
        base_bias=random.normal(size=OLD) if bias else None,
        base_X=weights[base_y] + random.normal(size=(len(base_y), WIDTH)),
        base_y=base_y,
    )


def prior_of(features: kshot.Features, name: str) -> kshot.GaussianPrior:
    """Give the prior that a method assumes."""
    assert features.base_weights is not None
    if name == "gauss-iso":
        return kshot.GaussianPrior.fit(features.base_weights, bias=features.base_bias)
    variance = features.base_weights.var(axis=0).mean()
    return kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(variance, dim=WIDTH))


def by_hand(features: kshot.Features, name: str, tasks, task: int) -> tuple[float, float]:
    """Give the accuracy on old and new classes of one task by the estimator, or with its weights put side by side."""
    support, labels = features.X[tasks.support[task]], tasks.support_labels[task]
    bias = np.zeros(OLD) if features.base_bias is None else features.base_bias
    if name == "logreg-mle":
        weights = maximum_likelihood(
            support[None], labels[None], base_weights=features.base_weights, base_bias=features.base_bias
        )[0]
        new_bias = np.zeros(len(weights))
    elif name == "logreg-sigma2-only-new":
        alone = kshot.KShotClassifier(prior=prior_of(features, name)).fit(support, labels)
        weights, new_bias = alone.coef_, alone.intercept_
    else:
        beside = kshot.KShotClassifier(
            prior=prior_of(features, name),
            base_weights=features.base_weights,
            base_bias=features.base_bias,
            base_classes=list(range(OLD)),
        ).fit(support, labels + OLD)
        weights, new_bias = beside.coef_[OLD:], beside.intercept_[OLD:]
    rows, biases = np.vstack([features.base_weights, weights]), np.append(bias, new_bias)
    old = (features.base_X @ rows.T + biases).argmax(1) == features.base_y
    new = (features.X[tasks.query[task]] @ rows.T + biases).argmax(1) == OLD + tasks.query_labels[task]
    per_class = [old[features.base_y == c].mean() for c in range(OLD)]
    return float(np.mean(per_class)), float(new.mean())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", FIGURE_5)
def test_accuracies_are_those_of_one_softmax_over_old_and_new_classes(name: str, bias: bool) -> None:
    features = make(bias=bias)
    (outcome,) = online_outcomes(features, [name], ways=3, shots=(4,), tasks=4, queries=6)
    tasks = draw_tasks(features.y, ways=3, shots=4, tasks=4, queries=6)
    for task in range(4):
        old, new = by_hand(features, name, tasks, task)
        assert outcome.old[task] == pytest.approx(old)
        assert outcome.new[task] == pytest.approx(new)
        assert outcome.all[task] == pytest.approx((OLD * old + 3 * new) / (OLD + 3))


def test_a_row_per_method_and_shots_with_intervals_over_tasks_and_what_was_before() -> None:
    features = make()
    assert features.base_weights is not None and features.base_X is not None
    table = run_online(features, ["gauss-iso", "gauss-full"], ways=3, shots=(1, 5), tasks=8, queries=6)
    names = ["method", "shots", "accuracy_all", "accuracy_all_ci95", "accuracy_old", "accuracy_old_ci95"]
    assert list(table.columns[:8]) == [*names, "accuracy_new", "accuracy_new_ci95"]
    right = (features.base_X @ features.base_weights.T).argmax(1) == features.base_y
    before = np.mean([right[features.base_y == c].mean() for c in range(OLD)])
    assert table["accuracy_old_before"].to_numpy() == pytest.approx(before)
    assert (table["accuracy_old"] <= before).all()  # classes that are added can only take from the old ones
    assert (table[["ways", "old_classes", "tasks", "queries"]] == [3, OLD, 8, 6]).all(axis=None)
    assert table.equals(run_online(features, ["gauss-iso", "gauss-full"], ways=3, shots=(1, 5), tasks=8, queries=6))


def test_the_tasks_are_kept() -> None:
    features = make()
    outcomes = list(online_outcomes(features, ["gauss-iso", "logreg-sigma2"], ways=3, shots=(2,), tasks=5, queries=6))
    tasks = online_per_task(outcomes)
    assert list(tasks.columns) == ["method", "shots", "task", "accuracy_all", "accuracy_old", "accuracy_new"]
    means = tasks.groupby("method", sort=False)["accuracy_new"].mean()
    assert means.to_numpy() == pytest.approx([outcome.new.mean() for outcome in outcomes])


def test_ones_own_prior_is_learned_beside_the_old_weights() -> None:
    features = make()
    prior = prior_of(features, "logreg-sigma2")
    named, own = online_outcomes(features, ["logreg-sigma2", prior], ways=3, shots=(2,), tasks=5, queries=6)
    assert own.method == "GaussianPrior"
    np.testing.assert_array_equal(named.new, own.new)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("gauss-iso:nuts", "compared by their MAP: gauss-iso in place of"),
        ("nearest", "there is no method"),
        (3, "is no online method"),
        ("gauss-iso-calibrated", "calibration"),
        ("gauss-diag-calibrated", "numbers for new classes alone"),
        (CALIBRATED["closed"], "calibrated for map in the closed setting"),
        (CALIBRATED["laplace"], "calibrated for laplace in the joint setting"),
    ],
)
def test_what_is_no_online_method_is_refused(method, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run_online(make(), [method], ways=3, shots=(1,), tasks=2)


def test_a_prior_calibrated_beside_old_classes_is_learned_so() -> None:
    plain = kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(2.0, dim=WIDTH))  # what the calibration makes of it
    scaled, own = online_outcomes(make(), [plain, CALIBRATED["joint"]], ways=3, shots=2, tasks=5, queries=6)
    np.testing.assert_array_equal(scaled.new, own.new)


def test_test_images_of_the_old_classes_are_needed() -> None:
    features = make()
    bare = kshot.Features(features.X, features.y, base_weights=features.base_weights)
    with pytest.raises(ValueError, match="set base_X and base_y"):
        run_online(bare, tasks=2)
