"""The Student-t prior: a Gaussian with its mean and covariance integrated out, Appendix C.1 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts.base import ConceptPrior
from kshot.concepts.checks import as_vectors, as_weights, check_finite, check_varies, generator
from kshot.concepts.covariance import Array, Covariance, Floats, read_only
from kshot.concepts.hyperparameters import assumed
from kshot.concepts.niw import NormalInverseWishart
from kshot.errors import UserError

__all__ = ["StudentTPrior", "log_gamma_ratio"]


@dataclass(frozen=True, eq=False, repr=False)
class StudentTPrior(ConceptPrior):
    r"""The multivariate Student-t with location m, scale matrix A and ν degrees of freedom.

    .. math:: p(w) = \frac{Γ((ν + p)/2)}{Γ(ν/2) (νπ)^{p/2} |A|^{1/2}} (1 + (w - m) A^{-1} (w - m)ᵀ / ν)^{-(ν + p)/2}

    One such density for each new class is an approximation in itself: integrating θ once for all classes would make
    them depend on each other.

    Arguments:
        mean: m, (dim,): the mean when ν > 1, else only the centre.
        scale: A as an operator; the covariance is A ν/(ν − 2) when ν > 2.
        dof: ν > 0.
        has_bias: whether the last coordinate is the bias.
        posterior: what `fit` learned of the Gaussian's mean and covariance, Eq. (11); else None.

    Example:
        >>> prior = StudentTPrior.fit(np.random.default_rng(0).normal(size=(80, 128)))
        >>> prior
        StudentTPrior(dim=128, dof=340)
    """

    mean: Floats
    scale: Covariance
    dof: float
    has_bias: bool = False
    posterior: NormalInverseWishart | None = None

    family: ClassVar[str] = "student-t"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", read_only(self.mean))
        check_finite(self.mean, "mean")
        object.__setattr__(self, "dof", float(self.dof))
        if self.mean.shape != (self.scale.dim,):
            raise UserError(f"mean has shape {self.mean.shape}, and the scale has {self.scale.dim} dimensions")
        if not (math.isfinite(self.dof) and self.dof > 0):
            raise UserError(f"dof must be a positive number, and it is {self.dof}")

    @classmethod
    def fit(
        cls,
        base_weights: ArrayLike,
        *,
        bias: ArrayLike | None = None,
        mu0: ArrayLike | None = None,
        kappa0: float | None = None,
        lambda0: ArrayLike | None = None,
        nu0: float | None = None,
    ) -> StudentTPrior:
        """Integrate N(w | μ, Σ) over the normal-inverse-Wishart posterior given C̃ base weights, Eq. (9) and C.1.

        The degrees of freedom are ν₀ + C̃ − p + 1, which must be positive, and the scale is
        Λ (κ + 1) / (κ (ν₀ + C̃ − p + 1)) with the posterior's Λ and κ = κ₀ + C̃.

        Arguments:
            base_weights: W̃, one row per base class, (C̃, p).
            bias: the base layer's biases, (C̃,): one more weight, the last coordinate. Σ, and Λ₀ below, then have p + 1
                dimensions; the bias has its own mean, and its own variance on the diagonal of Λ₀.
            mu0: μ₀, a number or (dim,); by default the mean of the base weights.
            kappa0: κ₀, how many vectors μ₀ is worth; by default 0.01.
            lambda0: Λ₀: a number, (dim,) or (dim, dim); by default (ν₀ − p + 1) σ̂², see `concepts.hyperparameters`.
            nu0: ν₀; by default 3p + 3, so that the prior is worth 2p + 4 vectors.
        """
        vectors = as_vectors(base_weights, bias)
        count, dim = vectors.shape
        if nu0 is not None and not nu0 + count - dim + 1 > 0:
            raise UserError(
                f"nu0 is {nu0}, and the degrees of freedom, nu0 + {count} vectors - {dim} dimensions + 1, must be "
                f"positive: give nu0 > {dim - count - 1}, or leave it out"
            )
        check_varies(vectors, has_bias=bias is not None, lambda0=lambda0)
        hyperparameters: dict[str, Any] = {"mu0": mu0, "kappa0": kappa0, "lambda0": lambda0, "nu0": nu0}
        before = assumed(vectors, kind="full", estimate="predictive", has_bias=bias is not None, **hyperparameters)
        posterior = before.update(vectors)
        dof, mean, scale = posterior.predictive()
        return cls(mean, scale, dof, bias is not None, posterior)

    def log_prob(self, weights: Array) -> Array:
        """Give the log density of each row, (..., dim) -> (...)."""
        shift = as_weights(weights, self.dim) - self.mean
        xp, half = shift.__array_namespace__(), (self.dof + self.dim) / 2
        constant = log_gamma_ratio(self.dof / 2, self.dim / 2)
        constant -= 0.5 * (self.dim * math.log(self.dof * math.pi) + self.scale.logdet)
        return constant - half * xp.log1p(self.scale.mahalanobis(shift) / self.dof)

    def grad_log_prob(self, weights: Array) -> Array:
        """Give −(ν + p)/(ν + d²) (w − m) A⁻¹ of each row, d² = (w − m) A⁻¹ (w − m)ᵀ; (..., dim) -> (..., dim)."""
        shift = as_weights(weights, self.dim) - self.mean
        pull = (self.dof + self.dim) / (self.dof + self.scale.mahalanobis(shift))
        return -pull[..., None] * self.scale.solve(shift)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors, (n, dim): Gaussian ones, each divided by √(χ²_ν/ν)."""
        random = generator(seed)
        noise = random.standard_normal((n, self.dim))
        noise /= np.sqrt(random.chisquare(self.dof, size=(n, 1)) / self.dof)
        return np.asarray(self.mean + self.scale.factor_t_matmul(noise))

    def _scaled(self, s: float) -> Self:
        return type(self)(self.mean, self.scale.scaled(s), self.dof, self.has_bias)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give `mean`, the scale's `variance`, `variances` or `factor`, `dof`, and the posterior's, if there is one."""
        arrays = {"mean": self.mean, "dof": np.asarray(self.dof), **self.scale.parameters()}
        return arrays if self.posterior is None else arrays | self.posterior.parameters("posterior_")

    @classmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self:
        scale = Covariance.from_parameters(parameters, dim=parameters["mean"].size)
        posterior = NormalInverseWishart.from_parameters(parameters, "posterior_")
        return cls(parameters["mean"], scale, parameters["dof"].item(), has_bias, posterior)

    def __repr__(self) -> str:
        return f"StudentTPrior(dim={self.dim}, dof={self.dof:.4g}{', has_bias=True' if self.has_bias else ''})"


def log_gamma_ratio(a: float, b: float) -> float:
    """Give ln Γ(a + b) − ln Γ(a); for large `a` by Stirling's series, where the difference of logarithms loses digits.

    >>> round(log_gamma_ratio(1e9, 2.0) - math.log(1e9) - math.log(1e9 + 1), 12)
    0.0
    """
    if a < 100:
        return math.lgamma(a + b) - math.lgamma(a)

    def remainder(z: float) -> float:
        return (1 - (1 - 2 / (7 * z**2)) / (30 * z**2)) / (12 * z)

    return (a - 0.5) * math.log1p(b / a) + b * (math.log(a + b) - 1) + remainder(a + b) - remainder(a)
