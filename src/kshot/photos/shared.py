"""Coordinates (`kshot.inference.coordinates`) of many tasks that have their examples in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["SharedFactor", "SharedKernel"]

Floats = NDArray[np.float64]

_SINGLE_LIMIT = 1e5  # of K, above which single precision is too coarse


@dataclass(frozen=True, eq=False)
class SharedKernel:
    """f_c = K a_c with K = XΣXᵀ, as `Dual`.

    Arguments:
        kernel: K, (n, n).
        tasks: how many.
    """

    kernel: Floats
    tasks: int

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Say in which precision K is held."""
        return self.kernel.dtype

    def image(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give K a, (C, tasks, n) -> (C, tasks, n)."""
        return np.matmul(u, self.kernel, out=out)

    def lift(self, g: Floats) -> Floats:
        """Give g itself: the gradient K g in a is g in the inner product of K."""
        return g

    def pair(self, u: Floats, image: Floats) -> Floats:
        """Give K a."""
        return image

    def zeros(self, classes: int) -> Floats:
        """Give a = 0, (C, tasks, n)."""
        return np.zeros((classes, self.tasks, len(self.kernel)))

    def single(self) -> Self:
        """Give the same in single precision, where that is enough."""
        if self.kernel.diagonal().max() > _SINGLE_LIMIT:
            return self
        return replace(self, kernel=self.kernel.astype(np.float32))

    def take(self, tasks: NDArray[np.intp]) -> Self:
        """Keep these tasks only."""
        return replace(self, tasks=len(tasks))

    def measure(self, descent: Floats, tasks: NDArray[np.intp], step: int) -> Floats:
        """Give the residual max_c Σ_n |r_nc|, (tasks,)."""
        out: Floats = np.abs(descent).sum(axis=2).max(axis=0)
        return out


@dataclass(frozen=True, eq=False)
class SharedFactor:
    """f_c = B z_c with K = B Bᵀ and white z_c, as `Primal`: exact also where K is singular.

    Arguments:
        factor: B, (n, r).
        tasks: how many.
    """

    factor: Floats
    tasks: int

    @classmethod
    def of_rank(cls, factor: Floats, tasks: int) -> Self:
        """Turn X L, (n, dim), to the r = min(n, dim) coordinates of its rows' span."""
        left, values, _ = np.linalg.svd(factor, full_matrices=False)
        return cls(left * values, tasks)

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Say in which precision B is held."""
        return self.factor.dtype

    def image(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give B z, (C, tasks, r) -> (C, tasks, n)."""
        return np.matmul(u, self.factor.T, out=out)

    def lift(self, g: Floats) -> Floats:
        """Give Bᵀ g, (C, tasks, n) -> (C, tasks, r)."""
        out: Floats = np.matmul(g, self.factor)
        return out

    def pair(self, u: Floats, image: Floats) -> Floats:
        """Give z itself."""
        return u

    def zeros(self, classes: int) -> Floats:
        """Give z = 0, (C, tasks, r)."""
        return np.zeros((classes, self.tasks, self.factor.shape[1]))

    def single(self) -> Self:
        """Give itself: it is for tasks that need their digits."""
        return self

    def take(self, tasks: NDArray[np.intp]) -> Self:
        """Keep these tasks only."""
        return replace(self, tasks=len(tasks))

    def measure(self, descent: Floats, tasks: NDArray[np.intp], step: int) -> Floats:
        """Give the gradient's length max_c |g_c|, (tasks,): no z_c is further from the minimum than this."""
        out: Floats = np.linalg.norm(descent, axis=2).max(axis=0)
        return out
