"""Drawing k-shot tasks: some classes, k support examples and some queries of each (Section 4, and Appendix E.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError

__all__ = ["Tasks", "draw_splits", "draw_tasks"]


@dataclass(frozen=True, eq=False)
class Tasks:
    """Rows of a feature matrix that make up k-shot tasks; all tasks have the same numbers.

    Args:
        classes: (tasks, ways) the class of each of a task's labels 0..ways-1.
        support: (tasks, ways · shots) rows of the support examples, class after class.
        query: (tasks, ways · queries) rows of the queries, class after class.
        split: (tasks,) which choice of classes a task belongs to, where several tasks share one (`draw_splits`); None
            where each task's classes are drawn for it alone. Intervals take the split as their unit.

    """

    classes: NDArray[np.int64]
    support: NDArray[np.int64]
    query: NDArray[np.int64]
    split: NDArray[np.int64] | None = None

    @property
    def ways(self) -> int:
        """Number of classes in a task."""
        return int(self.classes.shape[1])

    @property
    def shots(self) -> int:
        """Number of support examples of each class, k."""
        return int(self.support.shape[1]) // self.ways

    @property
    def support_labels(self) -> NDArray[np.int64]:
        """Labels 0..ways-1 of the support examples, (tasks, ways · shots)."""
        return self._labels(self.support)

    @property
    def query_labels(self) -> NDArray[np.int64]:
        """Labels 0..ways-1 of the queries, (tasks, ways · queries)."""
        return self._labels(self.query)

    def __len__(self) -> int:
        return len(self.classes)

    def _labels(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.broadcast_to(np.repeat(np.arange(self.ways), rows.shape[1] // self.ways), rows.shape)


def draw_tasks(
    y: ArrayLike, *, ways: int = 5, shots: int = 1, queries: int = 15, tasks: int = 600, seed: int = 0
) -> Tasks:
    """Draw `tasks` tasks of `ways` classes with `shots` support examples and `queries` queries each.

    For one seed, a task has the same classes and queries at every number of shots, and the support examples of fewer
    shots are part of those of more: methods and numbers of shots are compared on the same ground.

    Args:
        y: (n,) labels of the feature matrix that the tasks' rows refer to.
        ways: classes in a task.
        shots: support examples of each class, k.
        queries: queries of each class.
        tasks: how many tasks.
        seed: decides them all.

    >>> drawn = draw_tasks([0] * 20 + [1] * 20 + [2] * 20, ways=2, shots=3, tasks=10)
    >>> drawn.support.shape, drawn.query.shape
    ((10, 6), (10, 30))

    """
    return _draw(y, ways=ways, shots=shots, queries=queries, choices=tasks, repetitions=1, seed=seed)


def draw_splits(
    y: ArrayLike,
    *,
    ways: int = 5,
    shots: int = 1,
    queries: int = 15,
    splits: int = 20,
    repetitions: int = 10,
    seed: int = 0,
) -> Tasks:
    """Draw `splits` choices of classes, and for each `repetitions` tasks with other examples (Appendix E.4).

    Each repetition draws support examples and queries anew. Tasks come split after split, and `split` says which; for
    one seed the numbers of shots share classes and queries as in `draw_tasks`.

    Args:
        y: (n,) labels of the feature matrix that the tasks' rows refer to.
        ways: classes in a task.
        shots: support examples of each class, k.
        queries: queries of each class.
        splits: how many choices of `ways` classes.
        repetitions: tasks of each choice.
        seed: decides them all.

    >>> drawn = draw_splits([0] * 20 + [1] * 20 + [2] * 20, ways=2, splits=3, repetitions=2)
    >>> drawn.split, bool((drawn.classes[0] == drawn.classes[1]).all())
    (array([0, 0, 1, 1, 2, 2]), True)

    """
    return _draw(y, ways=ways, shots=shots, queries=queries, choices=splits, repetitions=repetitions, seed=seed)


def _draw(y: ArrayLike, *, ways: int, shots: int, queries: int, choices: int, repetitions: int, seed: int) -> Tasks:
    counts = {"ways": ways, "shots": shots, "queries": queries, "tasks": choices, "repetitions": repetitions}
    labels, rows = _rows_of(np.asarray(y), **counts)
    random = np.random.default_rng(seed)
    count = choices * repetitions
    classes = np.empty((count, ways), np.int64)
    support = np.empty((count, ways, shots), np.int64)
    query = np.empty((count, ways, queries), np.int64)
    for task in range(count):
        if task % repetitions == 0:
            chosen = random.choice(len(labels), ways, replace=False)
        classes[task] = chosen
        for way, label in enumerate(chosen):
            # A whole permutation whatever the shots, so that their number does not change what comes after.
            own = random.permutation(rows[label])
            query[task, way], support[task, way] = own[:queries], own[queries : queries + shots]
    split = None if repetitions == 1 else np.repeat(np.arange(choices), repetitions)
    return Tasks(labels[classes], support.reshape(count, -1), query.reshape(count, -1), split)


def _rows_of(
    y: NDArray[np.int64], *, ways: int, shots: int, queries: int, **others: int
) -> tuple[NDArray[np.int64], list[NDArray[np.intp]]]:
    """Give the classes and the rows of each, or say in a sentence why no task can be drawn from them."""
    for name, value in {"ways": ways, "shots": shots, "queries": queries, **others}.items():
        if value < 1:
            raise UserError(f"{name} must be at least 1, not {value}")
    labels = np.unique(y)
    if len(labels) < ways:
        raise UserError(f"there are {len(labels)} classes, too few for {ways} ways: set ways to {len(labels)} or less")
    rows = [np.flatnonzero(y == label) for label in labels]
    for label, own in zip(labels, rows, strict=True):
        if len(own) < shots + queries:
            raise UserError(
                f"class {label} has {len(own)} examples, too few for {shots} shots and {queries} queries: "
                "leave it out, or ask for fewer"
            )
    return labels, rows
