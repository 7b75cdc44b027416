"""The search for the scale of a prior: up the hill, and then to the middle of the valley of scales as good as the best.

Scale and temperature undo each other to a degree, so that many scales, each with its own temperature, predict about
equally well, and the best of them is decided by noise. Of all scales whose log-likelihood is within one standard error
of the best (paired over tasks, from the jackknife over classes), the geometric middle is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Valley", "search", "standard_error"]

Floats = NDArray[np.float64]

_STEP = math.log(10) / 4  # of ln s
_LIMIT = 20  # steps from 1: scales from 1e-5 to 1e5


@dataclass(frozen=True, eq=False)
class Valley:
    """What the search found: logarithms of scales.

    Arguments:
        middle: the scale to take.
        best: that of the highest log-likelihood.
        low, high: the ends of the valley.
        tried: each scale tried and its mean log-likelihood.
    """

    middle: float
    best: float
    low: float
    high: float
    tried: dict[float, float]


def search(evaluate: Callable[[float], Floats], classes: NDArray[Any]) -> Valley:
    """Find the valley of `evaluate`, from ln s to each task's log-likelihood, (tasks,).

    Arguments:
        evaluate: called once for each scale tried.
        classes: the classes of each task, (tasks, ways): the standard error is over classes.
    """
    tried: dict[float, Floats] = {}

    def value(log_scale: float) -> float:
        log_scale = round(log_scale, 12)  # the same place may be reached by different sums
        if log_scale not in tried:
            tried[log_scale] = evaluate(log_scale)
        return float(tried[log_scale].mean())

    best = round(_top(value), 12)

    def ratio(log_scale: float) -> float:
        """Give by how many standard errors a scale is worse than the best."""
        worse = value(best) - value(log_scale)
        error = standard_error(tried[round(log_scale, 12)] - tried[best], classes)
        return worse / error if error > 0 else (math.inf if worse > 0 else 0.0)

    low, high = (_end(ratio, best, direction) for direction in (-1, 1))
    means = {log_scale: float(tried[log_scale].mean()) for log_scale in sorted(tried)}
    return Valley((low + high) / 2, best, low, high, means)


def _top(value: Callable[[float], float]) -> float:
    """Climb in half decades, then in quarters, then to the top of the parabola through the highest three."""
    best = 0
    for stride in (2, 1):
        while True:
            near = [step for step in (best - stride, best, best + stride) if abs(step) <= _LIMIT]
            highest = max(near, key=lambda step: value(step * _STEP))
            if highest == best:
                break
            best = highest
    if abs(best) == _LIMIT:
        return best * _STEP
    before, at, after = (value((best + side) * _STEP) for side in (-1, 0, 1))
    bend = before - 2 * at + after
    vertex = (best + 0.5 * (before - after) / bend) * _STEP if bend < 0 else best * _STEP
    return vertex if value(vertex) >= at else best * _STEP


def _end(ratio: Callable[[float], float], best: float, direction: int) -> float:
    """Walk in quarter decades from the best to where the ratio passes 1, and interpolate between the last two."""
    inside, inside_ratio = best, 0.0
    while True:
        outside = inside + direction * _STEP
        if abs(outside) > (_LIMIT + 0.5) * _STEP:
            return inside
        outside_ratio = ratio(outside)
        if outside_ratio > 1:
            # Near the top the likelihood falls as the square of the way and the paired error grows as the way: the
            # ratio is about linear in it.
            share = (1 - inside_ratio) / (outside_ratio - inside_ratio) if math.isfinite(outside_ratio) else 0.0
            return inside + direction * share * _STEP
        inside, inside_ratio = outside, outside_ratio


def standard_error(differences: Floats, classes: NDArray[Any]) -> float:
    """Give the standard error of the mean over tasks, for tasks of other classes.

    Tasks that share classes are alike. The jackknife leaves out each class in turn, with all tasks it is in; a task's
    own noise goes with each of its classes and is so counted once for each, which is taken off again: it is what a
    regression on the classes leaves. Where the tasks are too few for that, they count as independent.

    Arguments:
        differences: (tasks,).
        classes: (tasks, ways).
    """
    tasks, ways = classes.shape
    if tasks < 2:
        return 0.0
    independent = float(differences.var(ddof=1)) / tasks
    labels, inverse = np.unique(classes, return_inverse=True)
    member = np.zeros((tasks, len(labels)))
    member[np.arange(tasks)[:, None], inverse.reshape(classes.shape)] = 1.0
    remaining = tasks - member.sum(axis=0)
    effects, _, rank, _ = np.linalg.lstsq(member, differences)
    if not remaining.all() or tasks <= rank:
        return math.sqrt(independent)
    noise = float(((differences - member @ effects) ** 2).sum()) / (tasks - int(rank))
    means = differences @ (1 - member) / remaining
    jackknife = (len(labels) - 1) / len(labels) * float(((means - means.mean()) ** 2).sum())
    return math.sqrt(max(jackknife - (ways - 1) * noise / tasks, independent))
