"""Starts for objectives with several minima: one for all classes at once, then single classes while it improves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kshot.inference.fit import Fit

__all__ = ["search"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Starts = NDArray[np.int64]

_FEW = 32  # so many combinations of starts are all tried
_GAIN = 1e-9  # an objective that falls by less, relatively, has not improved


def search(
    run: Callable[[Starts, Indices], Fit],
    best: Fit,
    *,
    options: int,
    tasks: Indices,
    first: int = 0,
    floor: Callable[[Starts], Floats] | None = None,
) -> None:
    """Minimise from each start, `first` to `options` − 1, for all classes, then change the start of single ones.

    Where classes and starts are few, all combinations are tried.

    Arguments:
        run: from the starts of each class, (t, C), and the indices of their tasks, (t,), to what the solver found, t
            tasks.
        best: the best so far, of all tasks; it is overwritten.
        options: how many starts a class has.
        first: the first start to try for all classes; those before it are in `best`.
        tasks: the indices of the tasks that take part.
        floor: from starts (t, C) to an objective, (t,), that none of them gets below: those that cannot win are not
            run.
    """
    ways = best.start.shape[1]
    if options**ways <= _FEW:
        for combination in product(range(options), repeat=ways):
            _try(run, floor, np.tile(np.array(combination, dtype=np.int64), (tasks.size, 1)), tasks, best)
        return
    for option in range(first, options):
        _try(run, floor, np.full((tasks.size, ways), option), tasks, best)
    while tasks.size:
        improved = np.zeros(tasks.size, dtype=np.bool_)
        for c in range(ways):
            for option in range(options):
                rows = np.flatnonzero(best.start[tasks, c] != option)
                starts = best.start[tasks[rows]]
                starts[:, c] = option
                improved[rows] |= _try(run, floor, starts, tasks[rows], best)
        tasks = tasks[improved]


def _try(
    run: Callable[[Starts, Indices], Fit],
    floor: Callable[[Starts], Floats] | None,
    starts: Starts,
    tasks: Indices,
    best: Fit,
) -> NDArray[np.bool_]:
    """Run, keep what is better than before, and say where that is."""
    before = best.objective[tasks]
    limit = before - _GAIN * np.where(np.isfinite(before), 1 + np.abs(before), 0.0)
    better = np.ones(tasks.size, dtype=np.bool_) if floor is None else floor(starts) < limit
    rows = np.flatnonzero(better)
    if rows.size:
        found = run(starts[rows], tasks[rows])
        found.start[:] = starts[rows]
        won = found.objective < limit[rows]
        best.put(tasks[rows[won]], found, won)
        better[rows] = won
    return better
