"""Which tasks a folder is good for: every class drawn from has enough, and nothing is dropped without need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshot.datasets.tasks import draw_tasks
from kshot.errors import UserError
from kshot.photos.protocol import FEWEST_QUERIES, choose_protocol


@settings(deadline=None, max_examples=150)
@given(
    numbers=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    shots=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    ways=st.integers(2, 6),
    queries=st.integers(1, 20),
)
def test_the_tasks_can_be_drawn_and_only_too_small_classes_are_left_out(
    numbers: list[int], shots: list[int], ways: int, queries: int
) -> None:
    counts = {f"class {row}": number for row, number in enumerate(numbers)}
    try:
        chosen = choose_protocol(counts, shots=shots, ways=ways, queries=queries)
    except UserError:
        enough = sorted(numbers, reverse=True)[ways - 1 : ways]
        assert not enough or enough[0] <= min(shots)
        return
    y = np.repeat(np.arange(len(chosen.classes)), [counts[name] for name in chosen.classes])
    for k in chosen.shots:
        draw_tasks(y, ways=chosen.ways, shots=k, queries=chosen.queries, tasks=2)
    assert chosen.ways == ways and 1 <= chosen.queries <= queries
    assert {*chosen.shots, *chosen.too_many} == set(shots)
    assert {*chosen.classes, *chosen.left_out} == set(counts)
    for name in chosen.left_out:  # it would have cost the others their queries
        assert counts[name] - max(chosen.shots) < min(FEWEST_QUERIES, chosen.queries)
    for k in chosen.too_many:
        assert sum(number > k for number in numbers) < ways


def test_one_small_class_does_not_take_the_queries_of_the_others() -> None:
    chosen = choose_protocol({"a": 40, "b": 40, "c": 12}, shots=(1, 10), ways=2)
    assert (chosen.classes, chosen.left_out, chosen.queries) == (("a", "b"), ("c",), 15)
    # But where it is needed it stays, with fewer queries for all.
    chosen = choose_protocol({"a": 40, "b": 40, "c": 12}, shots=(1, 10), ways=3)
    assert (chosen.left_out, chosen.queries) == ((), 2)
    chosen = choose_protocol({"a": 40, "b": 40, "c": 17}, shots=(1, 10), ways=2)
    assert (chosen.left_out, chosen.queries) == ((), 7)


@pytest.mark.parametrize(
    ("numbers", "ways", "shots"),
    [
        ([40] * 20, 5, (1, 5, 10)),
        ([40, 40, 40], 3, (1, 5, 10)),
        ([40, 40, 40, 1], 3, (1, 5, 10)),  # one poor class does not decide
        ([40, 40, 40, 40, 3], 4, (1, 5, 10)),
        ([40, 15, *[12] * 18], 5, (1, 5, 10)),  # nor do two rich ones
        ([8] * 6, 5, (1, 5)),
        ([2, 2], 2, (1,)),
    ],
)
def test_by_default_the_classes_in_a_task_are_those_the_folder_has_enough_of(
    numbers: list[int], ways: int, shots: tuple[int, ...]
) -> None:
    chosen = choose_protocol({str(row): number for row, number in enumerate(numbers)}, shots=(1, 5, 10))
    assert (chosen.ways, chosen.shots) == (ways, shots)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"shots": [5], "ways": 4}, "3 classes, too few for 4 ways"),
        ({"shots": [5], "ways": 1}, "two classes"),
        ({"shots": [0]}, "at least 1"),
        ({"shots": []}, "at least 1"),
        ({"shots": [1], "queries": 0}, "at least 1"),
        (
            {"shots": [30, 50]},
            "30 examples and a query of each of 2 classes need 2 classes with at least 31 photographs",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        choose_protocol({"a": 9, "b": 9, "c": 9}, **arguments)  # type: ignore[arg-type]
