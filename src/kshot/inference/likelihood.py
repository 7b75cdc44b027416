"""The softmax likelihood of a batch of tasks, with the old classes as one more logit per example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Likelihood", "dot", "row_sums"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Σ_n s_n ln p(y_n | f_n) as a function of the new classes' logits f, all arrays with classes first.

    Of the old classes only r_n = ln Σ_old exp(f_old) matters: p_c = exp(f_c) / (Σ_c' exp(f_c') + exp(r_n)).

    Arguments:
        target: s_n y_nc, (C, tasks, n); all zero in the row of an example of an old class.
        weight: s_n, (tasks, n); None when all are 1.
        rest: r_n, (tasks, n); None when there are no old classes.
        offset: logits to add to f, (C, tasks, n) or (tasks, n); None when zero.
    """

    target: Floats
    weight: Floats | None = None
    rest: Floats | None = None
    offset: Floats | None = None

    def evaluate(self, f: Floats) -> tuple[Floats, Floats]:
        """Give the probabilities, (C, tasks, n), and −Σ_n s_n ln p(y_n | f_n), (tasks,)."""
        if self.offset is not None:
            f = f + self.offset
        top = f.max(axis=0)
        if self.rest is not None:
            np.maximum(top, self.rest, out=top)
        p = f - top
        np.exp(p, out=p)
        total = p.sum(axis=0)
        if self.rest is not None:
            total += np.exp(self.rest - top)
        p /= total
        np.log(total, out=total)
        total += top
        if self.weight is not None:
            total *= self.weight
        total -= np.einsum("ctn,ctn->tn", self.target, f)
        if self.rest is not None:  # an example of an old class was given its share of the remaining probability
            total -= (self._weights() - self.target.sum(axis=0)) * self.rest
        return p, row_sums(total)

    def pull(self, p: Floats) -> Floats:
        """Give s_n (y_nc − p_nc), (C, tasks, n): the gradient of the log likelihood in f."""
        return self.target - (p if self.weight is None else p * self.weight)

    @staticmethod
    def hessian_product(p: Floats, weight: Floats | None, v: Floats, *, out: Floats) -> Floats:
        """Give S W v with W = diag(p_n) − p_n p_nᵀ per example, (C, tasks, n), in the precision of its arguments."""
        np.subtract(v, np.einsum("ctn,ctn->tn", p, v), out=out)
        out *= p
        if weight is not None:
            out *= weight
        return out

    def take(self, tasks: NDArray[np.intp]) -> Self:
        """Keep these tasks only."""
        offset = None if self.offset is None else self.offset[..., tasks, :]
        weight, rest = (None if a is None else a[tasks] for a in (self.weight, self.rest))
        return replace(self, target=self.target[:, tasks], weight=weight, rest=rest, offset=offset)

    def _weights(self) -> Floats:
        return np.ones(self.target.shape[1:]) if self.weight is None else self.weight


def dot(u: Floats, v: Floats) -> Floats:
    """Give Σ_c,n u v of each task, (tasks,)."""
    # einsum over classes runs along memory; a sum over the short last axis is fast only as a product with ones.
    return row_sums(np.einsum("ctn,ctn->tn", u, v))


def row_sums(values: Floats) -> Floats:
    """Give the sums over the last axis; for short rows BLAS is several times faster than `sum`."""
    out: Floats = values @ _ones(values.shape[-1], values.dtype)
    return out


@cache
def _ones(size: int, dtype: np.dtype[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    return np.ones(size, dtype)
