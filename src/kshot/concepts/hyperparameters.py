"""μ₀, κ₀, Λ₀ and ν₀: what a fit assumes of the mean and covariance before it has seen the base weights."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kshot.concepts.covariance import CovarianceKind, Floats
from kshot.concepts.niw import NormalInverseWishart
from kshot.errors import UserError

__all__ = ["Estimate", "assumed"]

Estimate: TypeAlias = Literal["mode", "predictive"]


def assumed(
    vectors: Floats,
    *,
    kind: CovarianceKind,
    estimate: Estimate = "mode",
    has_bias: bool = False,
    mu0: ArrayLike | None = None,
    kappa0: float | None = None,
    lambda0: ArrayLike | None = None,
    nu0: float | None = None,
) -> NormalInverseWishart:
    """Give the normal-inverse-Wishart prior of C.1, each hyperparameter as given or else its default.

    iso and diag: flat (κ₀ = 0, Λ₀ = 0, ν₀ = −(p + 2), diag −3), so that the mode is maximum likelihood (Section 2.3).

    full: proper. Maximum likelihood has no full covariance for 80 vectors in 128 dimensions, and the usual vague choice
    (ν₀ = p + 2, Λ₀ = σ̂² I) leaves directions that no base class spans with a 300th of the variance they ought to have.
    So the prior is worth m vectors that vary by the isotropic σ̂² = tr S / (C̃ p): with Λ₀ = m σ̂² I both estimates are

        (m σ̂² I + S) / (m + C̃),   m = ν₀ + p + 2 for the mode,   m = ν₀ − p + 1 for the predictive's scale,

    and m = 2p + 4, which for the mode is ν₀ = p + 2, the least whole ν₀ for which the prior has a mean. On the ImageNet
    weights of EfficientNet-Lite0 (900 classes, 1280 dimensions) this m is near the best, and for 80 classes in 128 to
    256 of those dimensions within 2 nats of it. A bias has its own σ̂², the last entry of the diagonal of Λ₀, so that
    its scale is free. μ₀ is the mean of the base weights, worth κ₀ = 0.01 of a vector because it uses them twice.
    """
    dim = vectors.shape[1]
    flat = NormalInverseWishart.flat(dim, kind=kind)
    centre = vectors.mean(axis=0)
    mean = centre if mu0 is None else _broadcast(mu0, dim, "mu0")
    if kind != "full":
        scale = flat.scale if lambda0 is None else _broadcast(lambda0, dim, "lambda0", kind=kind)
        kappa, dof = (0.0 if kappa0 is None else kappa0), (flat.dof if nu0 is None else nu0)
        return _checked(mean, kappa, scale, dof)
    offset = dim + 2 if estimate == "mode" else 1 - dim
    dof = 2 * dim + 4 - offset if nu0 is None else nu0
    if lambda0 is None:
        variances = ((vectors - centre) ** 2).mean(axis=0)
        p = dim - 1 if has_bias else dim
        variances[:p] = variances[:p].mean()
        lambda0 = max(dof + offset, 0.0) * variances
    scale = _broadcast(lambda0, dim, "lambda0", kind=kind)
    return _checked(mean, 0.01 if kappa0 is None else kappa0, scale, dof)


def _broadcast(values: ArrayLike, dim: int, name: str, *, kind: CovarianceKind = "diag") -> Floats:
    """Give a number, a vector or (full only) a matrix the shape that `kind` asks of Λ; "diag" is that of a mean."""
    array = np.asarray(values, dtype=np.float64)
    every: list[tuple[int, ...]] = [(), (dim,), (dim, dim)]
    shapes = every[: 1 + ("iso", "diag", "full").index(kind)]
    if array.shape not in shapes or not np.isfinite(array).all():
        expected = " or ".join(str(shape) for shape in shapes)
        raise UserError(f"{name} must hold finite numbers in the shape {expected}, and its shape is {array.shape}")
    if kind == "iso" or array.shape == (dim, dim):
        return array
    vector = np.broadcast_to(array, (dim,))
    return np.diag(vector) if kind == "full" else vector


def _checked(mean: Floats, kappa: float, scale: Floats, dof: float) -> NormalInverseWishart:
    if not (np.isfinite(kappa) and kappa >= 0):
        raise UserError(f"kappa0 must be zero or a positive number, and it is {kappa}")
    if not np.isfinite(dof):
        raise UserError(f"nu0 must be a finite number, and it is {dof}")
    variances = np.diag(scale) if scale.ndim == 2 else scale
    if (variances < 0).any() or (scale.ndim == 2 and not np.allclose(scale, scale.T)):
        raise UserError(
            "lambda0 must be zero or positive: a number, variances, or a symmetric positive definite matrix"
        )
    return NormalInverseWishart(mean, float(kappa), scale, float(dof))
