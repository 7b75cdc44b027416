"""What a MAP solver gives for a batch of tasks: weights and the convergence of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fit"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """The MAP of each task, with the entries of `Info` (see there).

    Arguments:
        weights: (tasks, C, dim), the bias last where the prior has one.
        converged, iterations, gradient_norm, objective: (tasks,).
        start: (tasks, C).
    """

    weights: Floats
    converged: NDArray[np.bool_]
    iterations: NDArray[np.int64]
    gradient_norm: Floats
    objective: Floats
    start: NDArray[np.int64]

    @classmethod
    def empty(cls, tasks: int, ways: int, dim: int) -> Fit:
        """Make room for the answers of so many tasks; the objectives are infinite, so that anything is better."""
        return cls(
            np.empty((tasks, ways, dim)),
            np.zeros(tasks, dtype=np.bool_),
            np.zeros(tasks, dtype=np.int64),
            np.full(tasks, np.inf),
            np.full(tasks, np.inf),
            np.zeros((tasks, ways), dtype=np.int64),
        )

    def put(self, tasks: NDArray[np.intp], other: Fit, rows: NDArray[Any] | slice = slice(None)) -> None:
        """Take over `other`'s answers, or those in its `rows`, as those of `tasks`."""
        for name in ("weights", "converged", "iterations", "gradient_norm", "objective", "start"):
            getattr(self, name)[tasks] = getattr(other, name)[rows]
