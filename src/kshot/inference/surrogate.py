"""The Gaussian that lies over a mixture's energy at given responsibilities: one mean and precision per class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Cholesky, MixturePrior
from kshot.inference.coordinates import Dual

__all__ = ["Surrogate", "surrogates"]

Floats = NDArray[np.float64]


class Surrogate(Protocol):
    """N(m_c, Λ_c⁻¹) for each class of each task, with Λ_c = Σ_s ρ_cs Σ_s⁻¹ and Λ_c m_c = Σ_s ρ_cs Σ_s⁻¹ μ_s."""

    @property
    def mean(self) -> Floats:
        """The m_c, (tasks, C, dim)."""

    def coordinates(self, X: Floats, gram: Floats) -> Dual:
        """Give the kernels XΛ_c⁻¹Xᵀ of these features, (tasks, n, dim), whose XXᵀ is `gram`, (tasks, n, n)."""

    def expand(self, v: Floats) -> Floats:
        """Give Λ_c⁻¹ v_c, (tasks, C, dim)."""

    def gradient(self, weights: Floats) -> Floats:
        """Give Λ_c (w_c − m_c), (tasks, C, dim): at the weights that ρ belongs to, the mixture's own −∇ ln p."""


class surrogates:  # noqa: N801  (used as a function: what it prepares once, it applies to many responsibilities)
    """From responsibilities ρ (tasks, C, S) to the `Surrogate`; precisions are inverted once."""

    def __init__(self, prior: MixturePrior) -> None:
        self.full = isinstance(prior.covariances[0], Cholesky)
        if self.full:
            self.precision = np.stack([c.solve(np.eye(c.dim)) for c in prior.covariances])
            self.shift = np.einsum("sij,sj->si", self.precision, prior.means)
        else:
            self.precision = np.stack([1.0 / c.diagonal() for c in prior.covariances])
            self.shift = self.precision * prior.means

    def __call__(self, rho: Floats) -> Surrogate:
        """Mix the components' precisions."""
        shift = rho @ self.shift
        if self.full:
            return _Dense(np.tensordot(rho, self.precision, axes=1), shift)
        return _Diagonal(rho @ self.precision, shift)


@dataclass(frozen=True, eq=False)
class _Diagonal:
    precision: Floats  # (tasks, C, dim)
    shift: Floats  # Λ m

    @property
    def mean(self) -> Floats:
        return self.shift / self.precision

    def coordinates(self, X: Floats, gram: Floats) -> Dual:
        if (self.precision == self.precision[..., :1]).all():  # isotropic: one kernel, scaled for each class
            return Dual(gram, 1.0 / self.precision[..., 0].T[..., None])
        kernel = np.empty((self.precision.shape[1], *gram.shape))
        for c in range(len(kernel)):
            np.matmul(X / self.precision[:, c, None], X.swapaxes(1, 2), out=kernel[c])
        return Dual(kernel)

    def expand(self, v: Floats) -> Floats:
        return v / self.precision

    def gradient(self, weights: Floats) -> Floats:
        return self.precision * weights - self.shift


@dataclass(frozen=True, eq=False)
class _Dense:
    precision: Floats  # (tasks, C, dim, dim)
    shift: Floats

    @property
    def mean(self) -> Floats:
        return self.expand(self.shift)

    def coordinates(self, X: Floats, gram: Floats) -> Dual:
        spread = np.linalg.solve(self.precision, X.swapaxes(1, 2)[:, None])
        return Dual(np.ascontiguousarray((X[:, None] @ spread).swapaxes(0, 1)))

    def expand(self, v: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self.precision, v[..., None])[..., 0])

    def gradient(self, weights: Floats) -> Floats:
        return np.asarray((self.precision @ weights[..., None])[..., 0] - self.shift)
