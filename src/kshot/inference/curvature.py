"""The covariance that the prior's curvature at the MAP amounts to: the prior's part of the Laplace approximation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Covariance, GaussianPrior, LaplacePrior, MixturePrior, Prior, StudentTPrior
from kshot.errors import UserError

__all__ = ["LocalCovariance", "check_curved", "local_covariance"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalCovariance:
    """Σ_c = (−∇² ln p(w_c))⁻¹ = A_c + U_c N_c U_cᵀ for each class of some tasks; the first axis is 1 if all share it.

    Arguments:
        multiply: X (t, a, dim) -> X A_c, (C or 1, t, a, dim).
        logdet: ln |Σ_c|, (C or 1, t).
        columns: U, (C, t, dim, k); None where the prior is Gaussian.
        core: N, (C, t, k, k).
        flattened: which classes' prior is not concave at the MAP, (C, t), so that U N Uᵀ was left out.
    """

    multiply: Callable[[Floats], Floats]
    logdet: Floats
    columns: Floats | None = None
    core: Floats | None = None
    flattened: NDArray[np.bool_] | None = None

    def kernel(self, X: Floats, Z: Floats) -> Floats:
        """Give X Σ_c Zᵀ, (C or 1, t, a, b)."""
        out: Floats = self.multiply(X) @ Z.swapaxes(1, 2)
        if self.columns is not None and self.core is not None:
            out = out + (X @ self.columns @ self.core) @ (Z @ self.columns).swapaxes(2, 3)
        return out

    def expand(self, a: Floats, X: Floats) -> Floats:
        """Give Σ_c Xᵀa_c, (t, C, dim), for a (C, t, n)."""
        # multiply() takes one X for all classes: give it the classes' vectors as rows, and keep each class's own.
        ways, tasks = a.shape[:2]
        rows = a.swapaxes(0, 1) @ X
        spread = np.broadcast_to(self.multiply(rows), (ways, tasks, ways, X.shape[2]))
        out: Floats = np.einsum("ctcd->tcd", spread).copy()
        if self.columns is not None and self.core is not None:
            inside = (rows.swapaxes(0, 1)[:, :, None, :] @ self.columns @ self.core) @ self.columns.swapaxes(2, 3)
            out += inside[:, :, 0].swapaxes(0, 1)
        return out

    def variances(self, X: Floats) -> Floats:
        """Give the diagonal of X Σ_c Xᵀ, (C or 1, t, a)."""
        out: Floats = np.einsum("ctad,tad->cta", self.multiply(X), X)
        if self.columns is not None and self.core is not None:
            projected = X @ self.columns
            out = out + np.einsum("ctak,ctak->cta", projected @ self.core, projected)
        return out


def check_curved(prior: Prior) -> None:
    """Refuse priors whose curvature at the MAP is not known."""
    if isinstance(prior, LaplacePrior):
        raise UserError(
            'inference="laplace" needs a curvature, and a Laplace prior has none at its kinks, where its MAP lies: '
            'use inference="map" or "nuts"'
        )
    if not isinstance(prior, GaussianPrior | StudentTPrior | MixturePrior):
        raise UserError(
            'inference="laplace" takes the library\'s Gaussian, Student-t and mixture priors, and prior is a '
            f'{type(prior).__name__}: use inference="map" or "nuts"'
        )


def local_covariance(prior: Prior, weights: Floats) -> LocalCovariance:
    """Give Σ_c at the weights of some tasks, (t, C, dim)."""
    if isinstance(prior, GaussianPrior):
        covariance = prior.covariance
        return LocalCovariance(lambda X: covariance.matmul(X)[None], np.full((1, len(weights)), covariance.logdet))
    weights = weights.swapaxes(0, 1)  # classes first
    if isinstance(prior, StudentTPrior):
        return _student_t(prior, weights)
    if isinstance(prior, MixturePrior):
        return _mixture(prior, weights)
    raise TypeError(type(prior).__name__)


def _student_t(prior: StudentTPrior, weights: Floats) -> LocalCovariance:
    """−∇² ln p = τ A⁻¹ − κ A⁻¹ d dᵀ A⁻¹ with d = w − m, τ = (ν + p)/(ν + |d|²), κ = 2 τ/(ν + |d|²)."""
    shift = weights - prior.mean
    length = prior.dof + prior.scale.mahalanobis(shift)
    stiffness = (prior.dof + prior.dim) / length
    bend = np.sqrt(2 * stiffness / length)
    columns = (bend / stiffness)[..., None] * shift  # A_c H
    scale = prior.scale
    return _bent(
        lambda X: scale.matmul(X)[None] / stiffness[..., None, None],
        scale.logdet - prior.dim * np.log(stiffness),
        columns[..., None],
        (bend**2 / stiffness * (length - prior.dof))[..., None, None],
    )


def _mixture(prior: MixturePrior, weights: Floats) -> LocalCovariance:
    """−∇² ln p = Σ_s r_s Λ_s − Σ_s r_s (g_s − ḡ)(g_s − ḡ)ᵀ with responsibilities r and g_s = Λ_s (μ_s − w)."""
    share = prior.responsibilities(weights)
    pull = np.stack(
        [c.solve(np.asarray(m - weights)) for m, c in zip(prior.means, prior.covariances, strict=True)], axis=-1
    )
    bend = (pull - np.einsum("ctds,cts->ctd", pull, share)[..., None]) * np.sqrt(share)[..., None, :]
    if all(c.kind != "full" for c in prior.covariances):
        inverse = np.stack([1 / c.diagonal() for c in prior.covariances])
        spread = 1 / (share @ inverse)  # A_c is diagonal, (C, t, dim)
        columns = spread[..., None] * bend
        return _bent(
            lambda X: X * spread[:, :, None, :], np.log(spread).sum(axis=2), columns, bend.swapaxes(2, 3) @ columns
        )
    precision = _mean_precision(prior.covariances, share)
    dense = np.linalg.inv(precision)
    columns = dense @ bend
    return _bent(lambda X: X @ dense, -np.linalg.slogdet(precision)[1], columns, bend.swapaxes(2, 3) @ columns)


def _mean_precision(covariances: tuple[Covariance, ...], share: Floats) -> Floats:
    """Give Σ_s r_s Λ_s, (C, t, dim, dim)."""
    precisions = np.stack([c.solve(np.eye(c.dim)) for c in covariances])
    return np.asarray(np.tensordot(share, precisions, axes=1))


def _bent(multiply: Callable[[Floats], Floats], logdet: Floats, columns: Floats, gram: Floats) -> LocalCovariance:
    """Invert A⁻¹ − H Hᵀ: A + A H (I − HᵀA H)⁻¹ HᵀA, given U = A H and HᵀA H; where it is not positive, keep A."""
    inside = np.eye(gram.shape[-1]) - 0.5 * (gram + gram.swapaxes(-1, -2))
    values, vectors = np.linalg.eigh(inside)
    flattened = values[..., 0] <= 1e-6
    values = np.where(flattened[..., None], 1.0, values)
    core = (vectors / values[..., None, :]) @ vectors.swapaxes(-1, -2)
    core[flattened] = 0.0
    return LocalCovariance(multiply, logdet - np.log(values).sum(axis=-1), columns, core, flattened)
