"""The posterior's curvature in the logits of n examples, factorised class by class: C n³ and not (C n)³.

Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), Sections 3.5 and 3.9, algorithms 3.3 and 3.4; here
with example weights, old classes, and a kernel per class. The classes stay coupled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.inference.curvature import LocalCovariance
from kshot.inference.whitened import WhiteCurvature

__all__ = ["ClassCurvature", "Curvature", "curvature_at", "factors"]

Floats = NDArray[np.float64]

# Of s_n K_nn. k** − k*ᵀE k* has an error of about K² ε, 2e-4 here; a hundred times more and M is no longer positive.
_LARGEST = 1e6
_MOST_COORDINATES = 8192  # C r, of which the safe coordinates need a dense matrix


class Curvature(Protocol):
    """The posterior's curvature at the MAP of some tasks."""

    @property
    def local(self) -> LocalCovariance:
        """The prior's covariances."""

    @property
    def logdet(self) -> Floats:
        """The logarithm of |I + S W K|, (t,)."""

    @property
    def nbytes(self) -> int:
        """The memory it takes."""

    def covariance(self, X: Floats, X_query: Floats) -> Floats:
        """Give the covariance of the new classes' logits at each query, (t, m, C, C)."""


def curvature_at(local: LocalCovariance, X: Floats, p: Floats, weight: Floats | None) -> Curvature:
    """Factorise class by class, or where that loses its digits in the examples' span; arguments as there."""
    with np.errstate(over="ignore"):
        variances = local.variances(X)
    if not (np.isfinite(variances).all() and np.isfinite(p).all()):
        raise too_large(X)
    if (variances if weight is None else weight * variances).max(initial=0.0) <= _LARGEST:
        return ClassCurvature.of(local, X, p, weight)
    if len(p) * min(X.shape[1:]) > _MOST_COORDINATES:
        raise too_large(X)
    return WhiteCurvature.of(local, X, p, weight)


def too_large(X: NDArray[np.floating[Any]]) -> UserError:
    """Say that features are too large for the prior."""
    return UserError(
        f'inference="laplace" runs out of digits with features as large as {np.abs(X).max(initial=0.0):.2g} under this '
        "prior: divide the features by their size, or narrow the prior by prior.scaled(s) with a small s"
    )


@dataclass(frozen=True, eq=False)
class ClassCurvature:
    """The posterior's curvature in the logits: E_c = (K_c + D_c⁻¹)⁻¹ and M = P₀ + Σ_c E_c = L Lᵀ.

    With D = diag(s_n p_nc) and P₀ = diag(s_n p_n,old), (K + (SW)⁻¹)⁻¹ = E − E R M⁻¹ Rᵀ E, and P₀ = 0 is R & W's case.

    Arguments:
        local: the prior's covariances.
        shrink: E, (C, t, n, n).
        mix: L⁻¹, (t, n, n).
        logdet: ln |I + S W K|, (t,).
    """

    local: LocalCovariance
    shrink: Floats
    mix: Floats
    logdet: Floats

    @classmethod
    def of(cls, local: LocalCovariance, X: Floats, p: Floats, weight: Floats | None) -> ClassCurvature:
        """Factorise; X (t, n, dim), p the probabilities at the MAP (C, t, n), weight (t, n) or None."""
        s = np.ones(p.shape[1:]) if weight is None else weight
        kernel, root = local.kernel(X, X), np.sqrt(s * p)
        inner = root[..., :, None] * kernel * root[..., None, :]
        inner += np.eye(X.shape[1])
        logdet = _logdet(inner).sum(axis=0)
        shrink: Floats = np.asarray(np.linalg.inv(inner), dtype=np.float64)
        shrink *= root[..., :, None]
        shrink *= root[..., None, :]
        mixed = shrink.sum(axis=0)
        empty = s == 0  # padding: its rows of E are zero
        at = np.arange(X.shape[1])
        mixed[:, at, at] += np.where(empty, 1.0, s * np.maximum(1 - p.sum(axis=0), 0.0))
        lower = np.linalg.cholesky(mixed)
        logdet += 2 * np.log(lower[:, at, at]).sum(axis=1) - np.log(np.where(empty, 1.0, s)).sum(axis=1)
        return cls(local, shrink, np.linalg.inv(lower), logdet)

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.shrink.nbytes + self.mix.nbytes

    def covariance(self, X: Floats, X_query: Floats) -> Floats:
        """Give the covariance of the new classes' logits at each query, (t, m, C, C)."""
        cross = self.local.kernel(X, X_query)
        pulled = self.shrink @ cross
        alone = self.local.variances(X_query) - np.einsum(
            "ctnm,ctnm->ctm", np.broadcast_to(cross, pulled.shape), pulled
        )
        shared = (self.mix @ pulled).transpose(1, 3, 0, 2)
        out = shared @ shared.swapaxes(2, 3)
        at = np.arange(len(pulled))
        out[..., at, at] += np.maximum(alone, 0.0).transpose(1, 2, 0)
        return out


def _logdet(matrices: Floats) -> Floats:
    diagonal = np.einsum("...ii->...i", np.linalg.cholesky(matrices))
    return np.asarray(2 * np.log(diagonal).sum(axis=-1))


def factors(covariance: Floats) -> Floats:
    """Give a lower triangular factor of each covariance, (m, C, C); zeros where there is no spread (at x = 0)."""
    at = np.arange(covariance.shape[-1])
    scale = np.einsum("mcc->mc", covariance).max(axis=1, initial=np.finfo(float).tiny)
    jittered = covariance / scale[:, None, None]
    jittered[:, at, at] += 1e-12
    return np.asarray(np.linalg.cholesky(jittered) * np.sqrt(scale)[:, None, None])
