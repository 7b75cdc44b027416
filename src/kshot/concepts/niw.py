"""The normal-inverse-Wishart: what is known of a Gaussian's mean and covariance, before and after seeing vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts.covariance import Cholesky, Covariance, CovarianceKind, Diagonal, Floats, ScaledIdentity, read_only
from kshot.errors import UserError

__all__ = ["NormalInverseWishart"]


@dataclass(frozen=True, eq=False)
class NormalInverseWishart:
    r"""The conjugate prior of a Gaussian's mean μ and covariance Σ, Eq. (10) with its exponent corrected.

    .. math:: p(μ, Σ) ∝ |Σ|^{-((ν + p)/2 + 1)} \exp(-½ tr(Λ Σ⁻¹) - ½ κ (μ - m) Σ⁻¹ (μ - m)ᵀ)

    The shape of the scale Λ says what Σ is:

    - (p, p): any matrix ("full");
    - (p,): diagonal ("diag"). Each coordinate has its own variance, and the formula with p = 1;
    - (): σ² I ("iso"). One variance for all: σ² ~ inverse-gamma(ν/2, Λ/2) and μ ~ N(m, σ²/κ I). Each vector then
      brings p observations of σ², so ν grows by p with each.

    Arguments:
        mean: m, (p,).
        kappa: κ >= 0, the number of vectors that m is worth.
        scale: Λ, (p, p), (p,) or ().
        dof: ν. The density is proper when κ > 0, Λ is positive definite, and ν > p - 1 (diag, iso: ν > 0).

    Example:
        >>> flat = NormalInverseWishart.flat(2, kind="diag")
        >>> mean, covariance = flat.update(np.array([[0.0, 1.0], [2.0, 5.0]])).mode()
        >>> mean, covariance.diagonal()
        (array([1., 3.]), array([1., 4.]))
    """

    mean: Floats
    kappa: float
    scale: Floats
    dof: float

    def __post_init__(self) -> None:
        mean, scale = read_only(self.mean), read_only(self.scale)
        if mean.ndim != 1 or scale.shape not in {(), (mean.size,), (mean.size, mean.size)}:
            raise UserError(f"a mean of shape {mean.shape} and a scale of shape {scale.shape} do not go together")
        if not self.kappa >= 0:
            raise UserError(f"kappa must not be negative, and it is {self.kappa}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)

    @classmethod
    def flat(cls, dim: int, *, kind: CovarianceKind) -> NormalInverseWishart:
        """Give p(μ, Σ) ∝ 1 (κ = 0, Λ = 0, ν = −(p + 2)): the joint mode after an update is maximum likelihood."""
        shape = {"iso": (), "diag": (dim,), "full": (dim, dim)}[kind]
        return cls(np.zeros(dim), 0.0, np.zeros(shape), -3.0 if kind == "diag" else -(dim + 2.0))

    @property
    def kind(self) -> CovarianceKind:
        """Whether Σ is "iso", "diag" or "full"."""
        kinds: tuple[CovarianceKind, ...] = ("iso", "diag", "full")
        return kinds[self.scale.ndim]

    def update(self, vectors: Floats) -> NormalInverseWishart:
        r"""Give the posterior after seeing `vectors` (n, p), Eq. (11), in which S is the scatter matrix.

        .. math:: m' = \frac{κ m + n \bar w}{κ + n},\; κ' = κ + n,\; ν' = ν + n,\;
            Λ' = Λ + S + \frac{κ n}{κ + n} (\bar w - m)ᵀ(\bar w - m),\; S = Σ_i (w_i - \bar w)ᵀ(w_i - \bar w)
        """
        n, p = vectors.shape
        average = vectors.mean(axis=0)
        centred, shift = vectors - average, self.mean - average
        weight = self.kappa * n / (self.kappa + n)
        if self.kind == "full":
            gain: Any = centred.T @ centred + weight * np.outer(shift, shift)
        else:
            gain = (centred * centred).sum(axis=0) + weight * shift * shift
        if self.kind == "iso":
            gain = gain.sum()
        return NormalInverseWishart(
            # Written as a correction, so that κ = 0 gives the average itself, to the last bit.
            mean=average + self.kappa / (self.kappa + n) * shift,
            kappa=self.kappa + n,
            scale=self.scale + gain,
            dof=self.dof + n * (p if self.kind == "iso" else 1),
        )

    def mode(self) -> tuple[Floats, Covariance]:
        """Give the joint mode: μ = m and Σ = Λ/(ν + p + 2), with p = 1 for each coordinate of a diagonal Σ."""
        p = self.mean.size
        divisor = self.dof + (3 if self.kind == "diag" else p + 2)
        if not divisor > 0:
            raise UserError(f"the density has no mode: nu + p + 2 is {divisor}; give more vectors or a larger nu0")
        if self.kind == "full":
            return self.mean, Cholesky.from_dense(self.scale / divisor)
        if self.kind == "diag":
            return self.mean, Diagonal(self.scale / divisor)
        return self.mean, ScaledIdentity(float(self.scale) / divisor, p)

    def predictive(self) -> tuple[float, Floats, Cholesky]:
        """Integrate the next vector's density over μ and a full Σ (C.1): a Student-t's dof, location and scale.

        They are ν − p + 1, m, and Λ (κ + 1) / (κ (ν − p + 1)).
        """
        if self.kind != "full":
            raise UserError(
                f"only a full covariance integrates to a multivariate Student-t, and this one is {self.kind}"
            )
        dof = self.dof - self.mean.size + 1
        if not dof > 0:
            raise UserError(f"nu - p + 1 must be positive, and it is {dof}: give more vectors or a larger nu0")
        if not self.kappa > 0:
            raise UserError("kappa must be positive to integrate the mean out: give vectors or a larger kappa0")
        return dof, self.mean, Cholesky.from_dense(self.scale * ((self.kappa + 1) / (self.kappa * dof)))

    def log_prob(self, mean: Floats, covariance: Covariance) -> float:
        """Give the normalised log density of one (μ, Σ), Σ of this distribution's kind; it must be proper."""
        if covariance.kind != self.kind:
            raise UserError(f"covariance must be {self.kind}, as this distribution is, and it is {covariance.kind}")
        if not self.is_proper:
            raise UserError(
                "an improper distribution (kappa = 0, scale = 0 or dof too small) has no normalised density"
            )
        p, shift = self.mean.size, mean - self.mean
        # ln N(μ | m, Σ/κ), then ln p(Σ).
        given = -0.5 * (
            p * math.log(2 * math.pi / self.kappa)
            + covariance.logdet
            + self.kappa * float(covariance.mahalanobis(shift))
        )
        half = self.dof / 2
        if self.kind == "full":
            scale = Cholesky.from_dense(self.scale)
            gammas = p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(half - j / 2) for j in range(p))
            trace = float(covariance.mahalanobis(scale.factor.T).sum())
            return (
                given
                + half * (scale.logdet - p * math.log(2))
                - gammas
                - (half + (p + 1) / 2) * covariance.logdet
                - trace / 2
            )
        variances = covariance.diagonal() if self.kind == "diag" else covariance.diagonal()[:1]
        each = (
            half * np.log(self.scale / 2)
            - math.lgamma(half)
            - (half + 1) * np.log(variances)
            - self.scale / (2 * variances)
        )
        return given + float(each.sum())

    def parameters(self, prefix: str = "") -> dict[str, Floats]:
        """Give `mean` (p,), `kappa` (), `scale` (p, p), (p,) or (), and `dof` (), with a prefix to each name."""
        values = {"mean": self.mean, "kappa": np.asarray(self.kappa), "scale": self.scale, "dof": np.asarray(self.dof)}
        return {prefix + name: value for name, value in values.items()}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, NDArray[Any]], prefix: str) -> NormalInverseWishart | None:
        """Rebuild the distribution that gave these `parameters`, or give None where they hold none."""
        if f"{prefix}mean" not in parameters:
            return None
        mean, kappa, scale, dof = (parameters[prefix + name] for name in ("mean", "kappa", "scale", "dof"))
        return cls(mean, kappa.item(), scale, dof.item())

    @property
    def is_proper(self) -> bool:
        """Whether the density integrates to one."""
        least = self.mean.size - 1 if self.kind == "full" else 0
        positive = np.linalg.eigvalsh(self.scale)[0] > 0 if self.kind == "full" else (self.scale > 0).all()
        return bool(self.kappa > 0 and self.dof > least and positive)
