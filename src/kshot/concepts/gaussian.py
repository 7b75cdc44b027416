"""The Gaussian prior, isotropic, diagonal or full: Section 2.3 and Appendix C.1 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts.base import ConceptPrior
from kshot.concepts.checks import as_vectors, as_weights, check_choice, check_finite, check_varies, generator
from kshot.concepts.covariance import Array, Covariance, CovarianceKind, Diagonal, Floats, read_only
from kshot.concepts.hyperparameters import assumed
from kshot.concepts.niw import NormalInverseWishart
from kshot.errors import UserError

__all__ = ["GaussianPrior"]


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPrior(ConceptPrior):
    """p(w) = N(w | μ, Σ), Eq. (5).

    Arguments:
        mean: μ, (dim,).
        covariance: Σ as an operator.
        has_bias: whether the last coordinate is the bias.
        posterior: what `fit` learned of μ and Σ, Eq. (11), the mode of which this is; else None.
        bias_posterior: the same for the bias of an isotropic prior, whose variance is its own.

    Example:
        >>> prior = GaussianPrior.fit([[0.0, 1.0], [2.0, 1.5], [1.0, 5.0]], covariance="iso")
        >>> prior
        GaussianPrior(dim=2, covariance="iso", variance=1.92)
        >>> prior.log_prob(np.array([[1.0, 2.0]]))
        array([-2.5536...])
    """

    mean: Floats
    covariance: Covariance
    has_bias: bool = False
    posterior: NormalInverseWishart | None = None
    bias_posterior: NormalInverseWishart | None = None

    family: ClassVar[str] = "gaussian"
    is_gaussian: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", read_only(self.mean))
        check_finite(self.mean, "mean")
        if self.mean.shape != (self.covariance.dim,):
            raise UserError(
                f"mean has shape {self.mean.shape}, and the covariance has {self.covariance.dim} dimensions"
            )

    @classmethod
    def fit(
        cls,
        base_weights: ArrayLike,
        *,
        covariance: CovarianceKind = "iso",
        bias: ArrayLike | None = None,
        mu0: ArrayLike | None = None,
        kappa0: float | None = None,
        lambda0: ArrayLike | None = None,
        nu0: float | None = None,
    ) -> GaussianPrior:
        """Fit the mode of the normal-inverse-Wishart posterior, Σ = Λ/(ν + p + 2), to the base weights (C.1).

        By default iso and diag have a flat prior: the empirical mean and the maximum-likelihood variance (Section 2.3);
        give κ₀, Λ₀ > 0 and ν₀ > 0 for a proper normal-inverse-gamma. A full covariance has a proper prior by default,
        worth 2p + 4 vectors of isotropic variance; `kshot.concepts.hyperparameters` states it with its reason.

        Arguments:
            base_weights: W̃, one row per base class, (C̃, p).
            covariance: "iso" (σ² I), "diag" or "full".
            bias: the base layer's biases, (C̃,): one more weight, the last coordinate, with its own mean and variance.
                A full Σ has p + 1 dimensions then, with the bias' own variance on the diagonal of Λ₀.
            mu0: μ₀, a number or (dim,); by default the mean of the base weights.
            kappa0: κ₀, how many vectors μ₀ is worth; by default 0 (iso, diag) or 0.01 (full).
            lambda0: Λ₀: a number; (dim,) unless iso; (dim, dim) if full; for iso with a bias also a pair, one for the
                weights and one for the bias. By default 0 (iso, diag) or (ν₀ + p + 2) σ̂² (full).
            nu0: ν₀; by default −(p + 2) (iso), −3 (diag), p + 2 (full).
        """
        check_choice(covariance, "covariance", ("iso", "diag", "full"))
        vectors = as_vectors(base_weights, bias)
        check_varies(vectors, has_bias=bias is not None, lambda0=lambda0)
        return fit_vectors(
            vectors, covariance, has_bias=bias is not None, mu0=mu0, kappa0=kappa0, lambda0=lambda0, nu0=nu0
        )

    def log_prob(self, weights: Array) -> Array:
        """Give ln N(w | μ, Σ) of each row, (..., dim) -> (...)."""
        shift = as_weights(weights, self.dim) - self.mean
        constant = self.dim * math.log(2 * math.pi) + self.covariance.logdet
        return -0.5 * (constant + self.covariance.mahalanobis(shift))

    def grad_log_prob(self, weights: Array) -> Array:
        """Give −(w − μ) Σ⁻¹ of each row, (..., dim) -> (..., dim)."""
        return -self.covariance.solve(as_weights(weights, self.dim) - self.mean)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors, (n, dim)."""
        noise = generator(seed).standard_normal((n, self.dim))
        return np.asarray(self.mean + self.covariance.factor_t_matmul(noise))

    def _scaled(self, s: float) -> Self:
        return type(self)(self.mean, self.covariance.scaled(s), self.has_bias)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give `mean`, the covariance's `variance`, `variances` or `factor`, and the posteriors', if there are any."""
        arrays = {"mean": self.mean, **self.covariance.parameters()}
        for prefix, niw in (("posterior_", self.posterior), ("bias_posterior_", self.bias_posterior)):
            if niw is not None:
                arrays |= niw.parameters(prefix)
        return arrays

    @classmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self:
        covariance = Covariance.from_parameters(parameters, dim=parameters["mean"].size)
        posteriors = [
            NormalInverseWishart.from_parameters(parameters, prefix) for prefix in ("posterior_", "bias_posterior_")
        ]
        return cls(parameters["mean"], covariance, has_bias, *posteriors)

    def __repr__(self) -> str:
        variance = self.covariance.diagonal()[: self.dim - self.has_bias].mean()
        bias = ", has_bias=True" if self.has_bias else ""
        return f'GaussianPrior(dim={self.dim}, covariance="{self.covariance.kind}", variance={variance:.3g}{bias})'


def fit_vectors(vectors: Floats, kind: CovarianceKind, *, has_bias: bool, **hyperparameters: Any) -> GaussianPrior:
    """Fit a Gaussian to checked vectors, (n, dim); `MixturePrior` fits each of its groups by this."""
    if has_bias and kind == "iso":
        return _fit_iso_and_bias(vectors, **hyperparameters)
    posterior = assumed(vectors, kind=kind, has_bias=has_bias, **hyperparameters).update(vectors)
    return GaussianPrior(*posterior.mode(), has_bias, posterior)


def _fit_iso_and_bias(vectors: Floats, **hyperparameters: Any) -> GaussianPrior:
    """Fit σ² to the weights only: the bias, a number of another scale, is a Gaussian of its own."""
    mu0, lambda0 = (hyperparameters.pop(name, None) for name in ("mu0", "lambda0"))
    if np.shape(mu0) not in {(), vectors.shape[1:]} or np.shape(lambda0) not in {(), (2,)}:
        raise UserError(
            f"with a bias, mu0 must be a number or have shape {vectors.shape[1:]}, and lambda0 be a number or a pair, "
            f"for the weights and for the bias; their shapes are {np.shape(mu0)} and {np.shape(lambda0)}"
        )
    posteriors = []
    for block, part in enumerate((slice(None, -1), slice(-1, None))):
        own = {
            "mu0": np.asarray(mu0)[part] if np.ndim(mu0) else mu0,
            "lambda0": np.asarray(lambda0)[block] if np.ndim(lambda0) else lambda0,
        }
        posteriors.append(assumed(vectors[:, part], kind="iso", **own, **hyperparameters).update(vectors[:, part]))
    (mean, iso), (bias_mean, bias_variance) = (posterior.mode() for posterior in posteriors)
    covariance = Diagonal(np.concatenate([iso.diagonal(), bias_variance.diagonal()]))
    return GaussianPrior(np.concatenate([mean, bias_mean]), covariance, True, *posteriors)
