"""Tasks are drawn as the protocol says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshot.datasets.tasks import draw_splits, draw_tasks

Y = np.repeat(np.arange(8) * 3, 30)


@given(ways=st.integers(1, 8), shots=st.integers(1, 12), queries=st.integers(1, 15), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_a_task_has_its_classes_examples_and_queries_without_overlap(
    ways: int, shots: int, queries: int, seed: int
) -> None:
    tasks = draw_tasks(Y, ways=ways, shots=shots, queries=queries, tasks=5, seed=seed)
    for classes, support, query, s, q in zip(
        tasks.classes, tasks.support, tasks.query, tasks.support_labels, tasks.query_labels, strict=True
    ):
        assert len(set(classes)) == ways
        assert (Y[support] == classes[s]).all() and (Y[query] == classes[q]).all()
        assert len(set(support) | set(query)) == ways * (shots + queries)


def test_the_seed_decides_and_shots_are_nested() -> None:
    one, five = (draw_tasks(Y, shots=shots, tasks=20, seed=4) for shots in (1, 5))
    assert (one.classes == five.classes).all() and (one.query == five.query).all()
    assert (one.support.reshape(20, 5, 1) == five.support.reshape(20, 5, 5)[:, :, :1]).all()
    assert (draw_tasks(Y, tasks=20, seed=5).query != one.query).any()


def test_classes_and_examples_are_drawn_evenly() -> None:
    tasks = draw_tasks(Y, ways=4, shots=2, queries=5, tasks=2000, seed=0)
    counts = np.bincount(tasks.classes.ravel() // 3)
    assert np.abs(counts / 1000 - 1).max() < 0.1
    rows = np.bincount(tasks.support.ravel(), minlength=len(Y))
    assert np.abs(rows / rows.mean() - 1).max() < 0.5


def test_repetitions_of_a_split_share_its_classes_and_nothing_else() -> None:
    tasks = draw_splits(Y, ways=4, shots=2, queries=5, splits=6, repetitions=3, seed=1)
    assert tasks.split is not None and tasks.split.tolist() == [s for s in range(6) for _ in range(3)]
    for split in range(6):
        own = tasks.split == split
        assert (tasks.classes[own] == tasks.classes[own][0]).all()
        assert len({tuple(row) for row in tasks.support[own]}) == 3
        assert len({tuple(row) for row in tasks.query[own]}) == 3
    assert len({tuple(sorted(row)) for row in tasks.classes}) > 1
    for classes, support, query in zip(tasks.classes, tasks.support, tasks.query, strict=True):
        assert (Y[support] == np.repeat(classes, 2)).all() and (Y[query] == np.repeat(classes, 5)).all()
        assert not set(support) & set(query)


def test_splits_too_are_the_same_for_a_seed_and_nested_in_shots() -> None:
    one, five = (draw_splits(Y, shots=shots, splits=4, repetitions=3, seed=2) for shots in (1, 5))
    assert (one.classes == five.classes).all() and (one.query == five.query).all()
    assert (one.support.reshape(12, 5, 1) == five.support.reshape(12, 5, 5)[:, :, :1]).all()
    assert one.shots == 1 and five.shots == 5


def test_twenty_splits_of_ten_are_the_papers() -> None:
    tasks = draw_splits(Y)
    assert len(tasks) == 200 and len(np.unique(tasks.split)) == 20
    assert draw_tasks(Y, tasks=3).split is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"ways": 9}, "too few for 9 ways"), ({"shots": 20}, "too few for 20 shots"), ({"queries": 0}, "at least 1")],
)
def test_what_cannot_be_drawn_is_refused(options, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        draw_tasks(Y, **options)
    with pytest.raises(ValueError, match=sentence):
        draw_splits(Y, **options)


def test_a_split_without_repetitions_is_refused() -> None:
    with pytest.raises(ValueError, match="repetitions must be at least 1"):
        draw_splits(Y, repetitions=0)
