"""Which k-shot tasks a folder of photographs is good for: how many classes, examples and queries it has enough of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kshot.errors import UserError

__all__ = ["FEWEST_QUERIES", "Protocol", "choose_protocol"]

FEWEST_QUERIES = 5
"""A class that has fewer photographs left as queries is left out, as long as enough classes remain."""


@dataclass(frozen=True)
class Protocol:
    """The tasks to draw.

    Arguments:
        ways: classes in a task.
        shots: numbers of examples per class.
        queries: queries per class, the same for all.
        classes: the names of the classes to draw from.
        left_out: the names of those that have too few photographs.
        too_many: numbers of examples that were asked for and that too few classes have.
    """

    ways: int
    shots: tuple[int, ...]
    queries: int
    classes: tuple[str, ...]
    left_out: tuple[str, ...]
    too_many: tuple[int, ...]


def choose_protocol(
    counts: Mapping[str, int], *, shots: Sequence[int], ways: int | None = None, queries: int = 15
) -> Protocol:
    """Choose tasks that a folder with so many photographs of each class has enough of.

    A photograph is an example or a query of a task, never both. Numbers of examples that fewer than `ways` classes
    could have beside a query are dropped. Then the queries are as many as every class has left, at most `queries`; but
    a class that leaves fewer than five is left out rather than that all the others lose theirs, if `ways` remain.

    Arguments:
        counts: photographs of each class.
        shots: the numbers of examples per class that are wanted.
        ways: classes in a task; by default five, or all there are with enough photographs.
        queries: queries per class, if there are enough.

    >>> choose_protocol({"a": 30, "b": 18, "c": 11}, shots=[1, 10, 40], ways=2)
    Protocol(ways=2, shots=(1, 10), queries=8, classes=('a', 'b'), left_out=('c',), too_many=(40,))
    """
    if queries < 1 or not shots or min(shots) < 1:
        raise UserError("the numbers of examples (--shots) and of queries (--queries) are at least 1")
    ways = _usual_ways(counts, shots) if ways is None else ways
    if ways < 2:
        raise UserError("a task needs two classes to choose between: give --ways at least 2, and a folder with as many")
    if len(counts) < ways:
        raise UserError(
            f"there are {len(counts)} classes, too few for {ways} ways: set --ways to {len(counts)} or less"
        )
    numbers = sorted(counts.values(), reverse=True)
    most = numbers[ways - 1]  # so many photographs has each of `ways` classes
    possible = tuple(k for k in dict.fromkeys(shots) if k < most)
    if not possible:
        raise UserError(
            f"{min(shots)} examples and a query of each of {ways} classes need {ways} classes with at least "
            f"{min(shots) + 1} photographs: take more, or ask for fewer --shots or --ways"
        )
    needed = max(possible) + min(FEWEST_QUERIES, queries, most - max(possible))
    classes = tuple(name for name, count in counts.items() if count >= needed)
    left_out = tuple(name for name in counts if name not in classes)
    spare = min(counts[name] for name in classes) - max(possible)
    too_many = tuple(k for k in dict.fromkeys(shots) if k not in possible)
    return Protocol(ways, possible, min(queries, spare), classes, left_out, too_many)


def _usual_ways(counts: Mapping[str, int], shots: Sequence[int]) -> int:
    """Choose five, or as many as half of the folder's classes have enough photographs for the largest of `shots`."""
    for k in sorted(shots, reverse=True):
        enough = sum(count >= k + FEWEST_QUERIES for count in counts.values())
        if enough >= max(2, len(counts) / 2):
            return min(5, enough)
    return min(5, max(2, sum(count > min(shots) for count in counts.values())), len(counts))
