"""From features and a covariance to coordinates, and from coordinates back to weights and their gradient."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Covariance, ScaledIdentity
from kshot.inference.coordinates import Coordinates, Dual, Primal
from kshot.inference.likelihood import row_sums

__all__ = ["ByDimensions", "ByExamples", "Frame", "example_residual", "frame", "kernel"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_ENOUGH = 1.5  # examples per dimension above which the dimensions are the cheaper coordinates (measured)


_PATIENCE = 12  # Newton steps after which a task is looked at more closely


class Frame(Protocol):
    """The coordinates u of a batch of tasks, and what they stand for."""

    @property
    def coordinates(self) -> Coordinates:
        """The map from u to logits."""

    def weights(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give the weights minus their mean, (C, tasks, r) -> (tasks, C, dim)."""

    def gradient_norm(self, descent: Floats) -> Floats:
        """Give the length of the longest gradient in one class's weights, from minus the gradient in u; (tasks,)."""

    def measure(self, descent: Floats, tasks: Indices, step: int) -> Floats:
        """Give the residual that the solver compares with its tolerance, (tasks,)."""

    def rounding(self, u: Floats) -> Floats:
        """Give the size of the rounding errors in the logits of u, (tasks,)."""


def frame(X: Floats, covariance: Covariance) -> Frame:
    """Choose the cheaper coordinates: the examples, or the dimensions where those are far fewer."""
    return ByExamples(X, covariance) if X.shape[1] <= _ENOUGH * X.shape[2] else ByDimensions(X, covariance)


class ByExamples:
    """w_c − μ = ΣXᵀa_c; the gradient of −ln posterior in w_c is Xᵀr_c with r_c = a_c − S(y_c − p_c).

    The residual is that of `example_residual`.
    """

    def __init__(self, X: Floats, covariance: Covariance) -> None:
        self.X, self.covariance = X, covariance
        self.coordinates = Dual(kernel(X, covariance))

    def weights(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give ΣXᵀa."""
        out = np.empty((u.shape[1], u.shape[0], self.X.shape[2])) if out is None else out
        if isinstance(self.covariance, ScaledIdentity):  # to scale the few numbers a is cheaper
            np.matmul((self.covariance.variance * u).swapaxes(0, 1), self.X, out=out)
        else:
            out[:] = self.covariance.matmul(np.matmul(u.swapaxes(0, 1), self.X))
        return out

    def gradient_norm(self, descent: Floats) -> Floats:
        """Give max_c |Xᵀr_c|."""
        if isinstance(self.covariance, ScaledIdentity):  # |Xᵀr|² = rᵀK r / σ²: no need to go through X again
            squares = row_sums(descent * self.coordinates.image(descent)).T / self.covariance.variance
        else:
            squares = (np.matmul(descent.swapaxes(0, 1), self.X) ** 2).sum(axis=2)
        return np.asarray(np.sqrt(np.maximum(squares.max(axis=1), 0.0)))

    def measure(self, descent: Floats, tasks: Indices, step: int) -> Floats:
        """Give `example_residual`."""
        return example_residual(self.X, descent, tasks, step)

    def rounding(self, u: Floats) -> Floats:
        """Give ε max|K| Σ_n |a_nc|: large where contradictory labels under a broad prior make K a cancel."""
        largest = np.einsum("tii->ti", self.coordinates.kernel).max(axis=1)
        out: Floats = np.finfo(np.float64).eps * largest * row_sums(np.abs(u)).max(axis=0)
        return out


class ByDimensions:
    """w_c − μ = L V z_c with Σ = L Lᵀ, where V is the whole space, or the rows of a `basis` of XL, (tasks, r, dim).

    The residual is the gradient's own length in the weights, over max(1, max|X|).
    """

    def __init__(self, X: Floats, covariance: Covariance, basis: Floats | None = None) -> None:
        self.covariance, self.basis = covariance, basis
        factor = covariance.factor_matmul(X)
        self.coordinates = Primal(factor if basis is None else factor @ basis.swapaxes(1, 2))
        self.scale = np.maximum(1.0, np.abs(X).max(axis=(1, 2)))

    @classmethod
    def of_rank(cls, X: Floats, covariance: Covariance) -> ByDimensions:
        """Give the orthonormal coordinates of the examples' span: exact where K = XΣXᵀ has lost its digits."""
        return cls(X, covariance, np.linalg.svd(covariance.factor_matmul(X), full_matrices=False)[2])

    def weights(self, u: Floats, *, out: Floats | None = None) -> Floats:
        """Give L V z."""
        weights = self._expand(u, np.arange(u.shape[1]))
        if out is None:
            return weights
        out[:] = weights
        return out

    def gradient_norm(self, descent: Floats) -> Floats:
        """Give max_c |L⁻ᵀ V g_c|."""
        return np.asarray(self.measure(descent, np.arange(descent.shape[1])) * self.scale)

    def measure(self, descent: Floats, tasks: Indices, step: int = 0) -> Floats:
        """Give max_c |L⁻ᵀ V g_c| / max(1, max|X|)."""
        gradient = self.covariance.solve(self._expand(descent, tasks))  # Σ⁻¹ L V g = L⁻ᵀ V g
        out: Floats = np.linalg.norm(gradient, axis=2).max(axis=1) / self.scale[tasks]
        return out

    def rounding(self, u: Floats) -> Floats:
        """Give zero: the products are as exact as those of the features with the weights."""
        return np.zeros(u.shape[1])

    def _expand(self, u: Floats, tasks: Indices) -> Floats:
        rows = u.swapaxes(0, 1)
        return np.asarray(self.covariance.factor_t_matmul(rows if self.basis is None else rows @ self.basis[tasks]))


def example_residual(X: Floats, descent: Floats, tasks: Indices, step: int) -> Floats:
    """Give max_c Σ_n |r_nc|, or where it is smaller, max_c |Xᵀr_c| / max(1, max|X|).

    r is `descent`, (C, tasks, n), and X, (all tasks, n, dim), has the features of these `tasks` and others.
    At 1e-8 either implies that no entry of the gradient Xᵀr is above 1e-8 · max(1, max|X|). The second is the dearer
    one, and needed only
    where examples depend on each other: then r has parts that X does not see and that vanish slowly.
    """
    residual: Floats = row_sums(np.abs(descent)).max(axis=0)
    if X.shape[1] > X.shape[2] or step >= _PATIENCE:
        rows = X[tasks]
        lengths = np.linalg.norm(np.matmul(descent.swapaxes(0, 1), rows), axis=2).max(axis=1)
        np.minimum(residual, lengths / np.maximum(1.0, np.abs(rows).max(axis=(1, 2))), out=residual)
    return residual


def kernel(X: Floats, covariance: Covariance) -> Floats:
    """Give K = XΣXᵀ, (tasks, n, n)."""
    if not isinstance(covariance, ScaledIdentity):
        X = covariance.factor_matmul(X)
    n = X.shape[1]
    K = np.empty((len(X), n, n))
    if n > 32:
        np.matmul(X, X.swapaxes(1, 2), out=K)
    else:  # NumPy's product of a matrix with its own transpose is slow for few rows: hide that it is one
        np.matmul(X, X[:, 1:].swapaxes(1, 2), out=K[:, :, 1:])
        np.matmul(X, X[:, :1].swapaxes(1, 2), out=K[:, :, :1])
    if isinstance(covariance, ScaledIdentity):
        K *= covariance.variance
    return K
