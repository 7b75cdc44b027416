"""In which coordinates the weights are sought: the n examples (dual) or the dimensions of the prior (primal)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coordinates", "Dual", "Primal"]

Floats = NDArray[np.float64]


class Coordinates(Protocol):
    """A linear map from coordinates u of the weights to logits f, and an inner product in which the prior is white.

    The weights minus their mean have squared length ⟨u, u⟩ = u · pair(u, image(u)) under the prior's Σ⁻¹. Vectors
    have classes
    first: u (C, tasks, r) and f (C, tasks, n).
    """

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Say in which precision the map computes."""

    def image(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give the logits f of u."""

    def lift(self, g: Floats) -> Floats:
        """Give the gradient in u, in this inner product, of a function of f with gradient g."""

    def pair(self, u: Floats, image: Floats) -> Floats:
        """Give u* such that ⟨v, u⟩ = v · u*."""

    def zeros(self, classes: int) -> Floats:
        """Give the origin: all weights at their mean."""

    def single(self) -> Self:
        """Give the same map in single precision, or itself where its numbers are too large for that."""

    def take(self, tasks: NDArray[np.intp]) -> Self:
        """Keep these tasks only."""


# Above this the sums of a conjugate-gradient step no longer have three good digits in single precision.
_SINGLE_LIMIT = 1e5


@dataclass(frozen=True, eq=False)
class Dual:
    """w_c = μ + ΣXᵀa_c, so f_c = K a_c with K = XΣXᵀ and ⟨a, a'⟩ = aᵀK a': the dimension has dropped out.

    Arguments:
        kernel: K, (tasks, n, n), or (C, tasks, n, n) where each class has a Σ of its own.
        scale: by which each class's Σ is multiplied, (C, tasks, 1); None for 1.
    """

    kernel: Floats
    scale: Floats | None = None

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Say in which precision K is held."""
        return self.kernel.dtype

    def image(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give K a of each class."""
        out = np.empty_like(u) if out is None else out
        if self.kernel.ndim == 4:
            np.matmul(u[:, :, None, :], self.kernel, out=out[:, :, None, :])
        else:
            np.matmul(u.swapaxes(0, 1), self.kernel, out=out.swapaxes(0, 1))
        if self.scale is not None:
            out *= self.scale
        return out

    def lift(self, g: Floats) -> Floats:
        """Give g itself: the gradient K g in a is g in the inner product of K."""
        return g

    def pair(self, u: Floats, image: Floats) -> Floats:
        """Give K u."""
        return image

    def zeros(self, classes: int) -> Floats:
        """Give a = 0, (C, tasks, n)."""
        return np.zeros((classes, *self.kernel.shape[-3:-1]))

    def single(self) -> Dual:
        """Give K in single precision."""
        # No entry of a positive matrix is larger than the largest on its diagonal.
        largest = np.einsum("...ii->...i", self.kernel).max(initial=0)
        if self.scale is None:
            return self if largest > _SINGLE_LIMIT else Dual(self.kernel.astype(np.float32))
        if largest * self.scale.max() > _SINGLE_LIMIT:
            return self
        return Dual(self.kernel.astype(np.float32), self.scale.astype(np.float32))

    def take(self, tasks: NDArray[np.intp]) -> Dual:
        """Keep these tasks only."""
        return Dual(self.kernel[..., tasks, :, :], None if self.scale is None else self.scale[:, tasks])


@dataclass(frozen=True, eq=False)
class Primal:
    """w_c = μ + A z_c with white z_c, so f_c = B z_c with B = X A and ⟨z, z'⟩ = z · z'.

    Arguments:
        factor: B, (tasks, n, r).
    """

    factor: Floats

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """Say in which precision B is held."""
        return self.factor.dtype

    def image(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give B z of each class."""
        return _product(u, self.factor.swapaxes(1, 2), out)

    def lift(self, g: Floats) -> Floats:
        """Give Bᵀ g."""
        return _product(g, self.factor, None)

    def pair(self, u: Floats, image: Floats) -> Floats:
        """Give z itself."""
        return u

    def zeros(self, classes: int) -> Floats:
        """Give z = 0, (C, tasks, r)."""
        return np.zeros((classes, self.factor.shape[0], self.factor.shape[2]))

    def single(self) -> Primal:
        """Give B in single precision."""
        size = np.einsum("tnr,tnr->tn", self.factor, self.factor).max(initial=0)
        return self if size > _SINGLE_LIMIT else Primal(self.factor.astype(np.float32))

    def take(self, tasks: NDArray[np.intp]) -> Primal:
        """Keep these tasks only."""
        return Primal(self.factor[tasks])


def _product(u: Floats, matrix: Floats, out: Floats | None) -> Floats:
    if out is None:
        out = np.empty((u.shape[0], u.shape[1], matrix.shape[2]), u.dtype)
    np.matmul(u.swapaxes(0, 1), matrix, out=out.swapaxes(0, 1))
    return out
