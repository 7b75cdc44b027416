"""Simulated k-shot tasks of base classes, on which `kshot.calibrate` fits its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import draw_tasks
from kshot.errors import UserError

__all__ = ["OldClasses", "Round", "simulate"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_ROUND_BYTES = 64 * 2**20  # features of a round's support and queries at a time
_TASKS_PER_ROUND = 10  # joint: so many tasks share the old rows that stay
_GRID = 0.1  # of ln T, on which the old classes' share is computed


@dataclass(frozen=True, eq=False)
class Round:
    """Tasks that are learned in one call: with the same old classes, and of a size that memory holds.

    Arguments:
        classes: the base class of each new class, (tasks, ways).
        support: rows of the support examples, (tasks, ways, most shots): fewer shots are the first of these.
        query: rows of the queries, (tasks, m): first those of new classes, class after class, then those of old ones.
        labels: what is right, (m,): 0..ways − 1 for the new classes and −1 for an old one.
        weight: of each query in a task's log-likelihood, (m,), 1 in all: new and old queries have half each.
        old: the old classes; None in the closed setting.
    """

    classes: NDArray[Any]
    support: Rows
    query: Rows
    labels: Rows
    weight: Floats
    old: OldClasses | None = None

    def support_rows(self, shots: int) -> Rows:
        """Give the rows of the first `shots` examples of each class, (tasks, ways · shots)."""
        return self.support[:, :, :shots].reshape(len(self.support), -1)


@dataclass(frozen=True, eq=False)
class OldClasses:
    """The old classes of a round at its queries.

    Arguments:
        weights, bias: those that stay, (B, p) and (B,) or None.
        logits: of each different query, (rows, B).
        place: which of these each query is, (tasks, m).
        own: the logit of the class that an old query is of, (tasks, m); 0 for the queries of new classes.
        support_rest: ln Σ_old exp(f) of the support examples, (tasks, ways, most shots).
        answer: "each": an old query's answer is its class; "together": that it is of an old class.
    """

    weights: Floats
    bias: Floats | None
    logits: NDArray[np.float32]
    place: Rows
    own: Floats
    support_rest: Floats
    answer: Literal["each", "together"]
    _nodes: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)

    def rest(self, log_temperature: float) -> Floats:
        """Give r(T) = ln Σ_old exp(T f), (tasks, m).

        It does not depend on what is learned, and costs most: computed on a grid of ln T, with Hermite's cubics between
        (value and derivative are known there, and the error is below 1e-5).
        """
        cell = math.floor(log_temperature / _GRID)
        t = log_temperature / _GRID - cell
        (low, low_slope), (high, high_slope) = self._node(cell), self._node(cell + 1)
        values = (1 + 2 * t) * (1 - t) ** 2 * low + t * t * (3 - 2 * t) * high
        values += _GRID * (t * (1 - t) ** 2 * low_slope - t * t * (1 - t) * high_slope)
        return np.asarray(values[self.place])

    def _node(self, cell: int) -> tuple[Floats, Floats]:
        if cell not in self._nodes:
            f = math.exp(cell * _GRID) * self.logits
            top = f.max(axis=1, keepdims=True)
            p = np.exp(f - top)
            total = p.sum(axis=1, dtype=np.float64)
            slope = np.einsum("rb,rb->r", p, f, dtype=np.float64) / total  # dr / d ln T = Σ p T f
            self._nodes[cell] = (top[:, 0] + np.log(total), slope)
        return self._nodes[cell]


def simulate(
    X: NDArray[np.floating[Any]],
    y: NDArray[Any],
    *,
    ways: int,
    shots: Sequence[int],
    queries: int,
    tasks: int,
    seed: int,
    base: tuple[Floats, Floats | None] | None = None,
    old_answer: Literal["each", "together"] = "each",
) -> list[Round]:
    """Draw tasks of `ways` classes: closed, or with `base` in the presence of the old classes that stay.

    In the joint setting the tasks of a round are drawn from a few classes, whose rows are all taken out of the base
    weights; where labels below 0 mark classes that have no row, the new classes are these, and no row is taken out.
    """
    if base is None:
        drawn = draw_tasks(y, ways=ways, shots=max(shots), queries=queries, tasks=tasks, seed=seed)
        size = max(1, _ROUND_BYTES // (X.itemsize * X.shape[1] * (drawn.support.shape[1] + drawn.query.shape[1])))
        return [
            Round(
                drawn.classes[at : at + size],
                drawn.support[at : at + size].reshape(-1, ways, max(shots)),
                drawn.query[at : at + size],
                drawn.query_labels[0],
                np.full(drawn.query.shape[1], 1 / drawn.query.shape[1]),
            )
            for at in range(0, tasks, size)
        ]
    random = np.random.default_rng([seed, 1])
    rounds = []
    for at in range(0, tasks, _TASKS_PER_ROUND):
        count = min(_TASKS_PER_ROUND, tasks - at)
        rounds.append(_joint_round(X, y, random, base, count, (ways, max(shots), queries), old_answer))
    return rounds


def _joint_round(
    X: NDArray[np.floating[Any]],
    y: Rows,
    random: np.random.Generator,
    base: tuple[Floats, Floats | None],
    count: int,
    numbers: tuple[int, int, int],
    answer: Literal["each", "together"],
) -> Round:
    ways, most, queries = numbers
    weights, bias = base
    removed = _removed(y, random, ways, len(weights))
    kept = np.setdiff1d(np.arange(len(weights)), removed)
    pool = np.flatnonzero(np.isin(y, removed))
    drawn = draw_tasks(y[pool], ways=ways, shots=most, queries=queries, tasks=count, seed=int(random.integers(2**31)))
    staying = np.flatnonzero(np.isin(y, kept))
    if not staying.size:
        raise UserError("y_base holds no image of a base class that stays: give images of more base classes")
    new = drawn.query.shape[1]
    query = np.concatenate([pool[drawn.query], random.choice(staying, (count, new))], axis=1)
    support = pool[drawn.support].reshape(count, ways, most)
    old_weights, old_bias = weights[kept], None if bias is None else bias[kept]
    logits, place = _old_logits(X, query, old_weights, old_bias)
    own = np.zeros(query.shape)
    own[:, new:] = logits[place[:, new:], np.searchsorted(kept, y[query[:, new:]])]
    at_support, which = _old_logits(X, support, old_weights, old_bias)
    top = at_support.max(axis=1)
    rest = (top + np.log(np.exp(at_support - top[:, None]).sum(axis=1)))[which]
    old = OldClasses(old_weights, old_bias, logits.astype(np.float32), place, own, rest, answer)
    labels = np.concatenate([drawn.query_labels[0], np.full(new, -1)])
    return Round(drawn.classes, support, query, labels, np.full(2 * new, 0.5 / new), old)


def _old_logits(
    X: NDArray[np.floating[Any]], rows: Rows, weights: Floats, bias: Floats | None
) -> tuple[Floats, NDArray[np.intp]]:
    """Give the old classes' logits at the different ones of some rows, (different, B), and which each row is."""
    different, place = np.unique(rows, return_inverse=True)
    logits: Floats = X[different].astype(np.float64) @ weights.T
    return logits if bias is None else logits + bias, place.reshape(rows.shape)


def _removed(y: Rows, random: np.random.Generator, ways: int, rows: int) -> Rows:
    """Choose the classes that are new in a round: all without a row, or a few of those with one."""
    labels = np.unique(y)
    rowless = labels[labels < 0]
    if rowless.size:
        return rowless
    # A few more than one task has, so that its tasks differ; few of all, so that almost all old classes stay.
    size = min(len(labels) - 1, max(ways, min(4 * ways, rows // 10)))
    if size < ways:
        raise UserError(
            f"y_base has {len(labels)} classes, too few to learn {ways} of them in the presence of others: set ways to "
            f"{max(1, len(labels) - 1)} or less, or give images of more base classes"
        )
    return np.sort(random.choice(labels, size, replace=False))
