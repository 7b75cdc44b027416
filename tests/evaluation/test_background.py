"""The answer "something else": its numbers are the best ones, and its simulation hides what it must."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from kshot.errors import UserError
from kshot.evaluation.background import FLATNESS, SHARE, UNRELATED, Simulated, doubt_of, fit_weights, simulate_unrelated
from kshot.evaluation.pretrained import calibrate_pretrained

RNG = np.random.default_rng(0)
WAYS, TASKS, KNOWN = 3, 4, 12


def made(seed: int = 0) -> tuple[list[np.ndarray], list[Simulated]]:
    """Give logits of three classes, of which the right one is larger for known queries, and a round to match."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, WAYS, (TASKS, KNOWN))
    logits = rng.standard_normal((TASKS, 2 * KNOWN, WAYS))
    logits[:, :KNOWN] += 1.5 * np.eye(WAYS)[labels]
    query = np.arange(TASKS * 2 * KNOWN).reshape(TASKS, -1)
    empty = np.zeros((TASKS, 0), np.int64)
    return [logits], [Simulated(empty, empty, query, labels, rng.standard_normal(query.size))]


def likelihood(point: np.ndarray, logits: np.ndarray, each: Simulated) -> float:
    both = np.concatenate([point[0] * logits, (each.rest[each.query] + point[1])[..., None]], axis=2)
    both -= logsumexp(both, axis=2, keepdims=True)
    own = np.take_along_axis(both[:, :KNOWN], each.query_labels[..., None], axis=2)
    return float(0.5 * own.mean() + 0.5 * both[:, KNOWN:, -1].mean())


def test_temperature_and_weight_are_the_best_of_a_fine_grid() -> None:
    logits, rounds = made()
    point, value = fit_weights(logits, rounds)
    assert value == pytest.approx(likelihood(point, logits[0], rounds[0]))
    grid = [
        likelihood(point + np.array([a, b]), logits[0], rounds[0])
        for a in np.linspace(-1, 1, 21)
        for b in np.linspace(-1, 1, 21)
    ]
    assert max(grid) <= value + 1e-9


def test_below_the_doubt_few_answers_are_of_unrelated_photographs() -> None:
    logits, rounds = made()
    point = np.array([2.0, -1.0])
    doubt = doubt_of(logits, rounds, point)
    both = np.concatenate([point[0] * logits[0], (rounds[0].rest[rounds[0].query] + point[1])[..., None]], axis=2)
    other = np.exp(both[..., -1] - logsumexp(both, axis=2))
    known, unrelated = (other[:, :KNOWN] <= doubt).sum(), (other[:, KNOWN:] <= doubt).sum()
    assert known and unrelated <= UNRELATED * (known + unrelated)


def base_classes(count: int = 24, images: int = 12, dim: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give images around a direction of each class, and rows that know them."""
    directions = (
        np.linalg.qr(RNG.standard_normal((count, dim)))[0] if count <= dim else RNG.standard_normal((count, dim))
    )
    y = np.repeat(np.arange(count), images)
    return directions[y] * 3 + 0.5 * RNG.standard_normal((len(y), dim)), y, directions


def test_classes_that_play_new_or_unrelated_have_no_row() -> None:
    X, y, W = base_classes()
    for each in simulate_unrelated(X, y, W, None, ways=3, shots=2, rounds=3, tasks=5, queries=4):
        new, unrelated, staying = (
            set(y[each.query[:, part]].ravel()) for part in (slice(0, 12), slice(12, 18), slice(18, 24))
        )
        assert not new & unrelated and not (new | unrelated) & staying
        assert set(y[each.support].ravel()) <= new | set(np.unique(y))
        assert not set(map(tuple, each.support)) & set(map(tuple, each.query[:, :6]))
        logits = FLATNESS * X @ W.T
        # The rest of an image of such a class lacks its own row at least, and keeps all of those that stay.
        rows = each.query[:, :18].ravel()
        without_own = logits[rows].copy()
        without_own[np.arange(len(rows)), y[rows]] = -np.inf
        assert (each.rest[rows] <= logsumexp(without_own, axis=1) + 1e-9).all()
        assert (each.rest[rows] >= logsumexp(logits[rows][:, sorted(staying)], axis=1) - 1e-9).all()


@pytest.mark.slow
def test_a_pretrained_backbone_is_calibrated_closed_and_beside_its_own_classes() -> None:
    X, y, W = base_classes(24, 14)
    found = calibrate_pretrained(X, y, base_weights=W, shots=(1, 5), tasks=40)
    closed, joint = found["closed:map"], found["joint:map"]
    assert joint.scale == closed.scale and joint.background is not None and joint.setting == "joint"
    assert joint.report["share"] == SHARE and 0 < joint.background.doubt(5) < 1
    assert "joint:map" not in calibrate_pretrained(X[y < 19], y[y < 19], base_weights=W, shots=(1,), tasks=20)
    with pytest.raises(UserError, match="at least 20"):
        simulate_unrelated(X[y < 19], y[y < 19], W, None)
