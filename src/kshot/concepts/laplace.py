"""The Laplace prior, independent in each dimension: Appendix C.3 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts.base import ConceptPrior
from kshot.concepts.checks import as_vectors, as_weights, check_choice, check_finite, check_varies, generator
from kshot.concepts.covariance import Array, Floats, read_only
from kshot.errors import UserError

__all__ = ["LaplacePrior"]


@dataclass(frozen=True, eq=False, repr=False)
class LaplacePrior(ConceptPrior):
    r"""A product of Laplace densities, one per dimension.

    .. math:: p(w) = Π_j \frac{1}{2 λ_j} \exp(-|w_j - μ_j| / λ_j)

    (For all C̃ base classes at once the normaliser has the power C̃, which C.3 leaves out.)

    Arguments:
        location: μ, (dim,); also the mean.
        scale: λ > 0, (dim,); all equal in an isotropic prior.
        has_bias: whether the last coordinate is the bias.

    Example:
        >>> prior = LaplacePrior.fit([[0.0, 1.0], [1.0, 3.0], [5.0, 8.0]])
        >>> prior.location, prior.scale
        (array([1., 3.]), array([1.66666667, 2.33333333]))
    """

    location: Floats
    scale: Floats
    has_bias: bool = False

    family: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", read_only(self.location))
        object.__setattr__(self, "scale", read_only(self.scale))
        check_finite(self.location, "location")
        if self.location.ndim != 1 or self.scale.shape != self.location.shape:
            raise UserError(
                "location and scale must be vectors of one length, and their shapes are "
                f"{self.location.shape} and {self.scale.shape}"
            )
        if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise UserError(f"scale must hold positive numbers, and the smallest is {self.scale.min()}")

    @property
    def mean(self) -> Floats:
        """The location, (dim,)."""
        return self.location

    @classmethod
    def fit(
        cls,
        base_weights: ArrayLike,
        *,
        scale: Literal["iso", "diag"] = "diag",
        bias: ArrayLike | None = None,
        shrinkage: float = 0.0,
    ) -> LaplacePrior:
        """Fit by maximum likelihood: medians μ and mean absolute deviations λ (C.3, whose 1/N is 1/C̃).

        Arguments:
            base_weights: W̃, one row per base class, (C̃, p).
            scale: "diag", a μ_j and λ_j per dimension; "iso", one μ and one λ over all C̃ p numbers.
            bias: the base layer's biases, (C̃,): one more weight, the last coordinate, with its own μ and λ.
            shrinkage: how far each λ_j of "diag" is pulled to their mean: 0 (as in C.3) to 1; not that of a bias.
        """
        check_choice(scale, "scale", ("iso", "diag"))
        if not 0 <= shrinkage <= 1:
            raise UserError(f"shrinkage must lie between 0 and 1, and it is {shrinkage}")
        vectors = as_vectors(base_weights, bias)
        check_varies(vectors, has_bias=bias is not None)
        location, spread = _medians(vectors)
        p = vectors.shape[1] - (bias is not None)
        if scale == "iso":
            location[:p] = np.median(vectors[:, :p])
            spread[:p] = np.abs(vectors[:, :p] - location[:p]).mean()
        spread[:p] += shrinkage * (spread[:p].mean() - spread[:p])
        return cls(location, spread, bias is not None)

    def log_prob(self, weights: Array) -> Array:
        """Give Σ_j (−ln 2λ_j − |w_j − μ_j| / λ_j) of each row, (..., dim) -> (...)."""
        shift = as_weights(weights, self.dim) - self.location
        xp = shift.__array_namespace__()
        return -(self.dim * math.log(2) + float(np.log(self.scale).sum())) - (xp.abs(shift) / self.scale).sum(axis=-1)

    def grad_log_prob(self, weights: Array) -> Array:
        """Give −sign(w_j − μ_j) / λ_j of each row, (..., dim) -> (..., dim); at the kink itself 0, a subgradient."""
        shift = as_weights(weights, self.dim) - self.location
        return -shift.__array_namespace__().sign(shift) / self.scale

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors, (n, dim)."""
        return self.location + self.scale * generator(seed).laplace(size=(n, self.dim))

    def _scaled(self, s: float) -> Self:
        return type(self)(self.location, self.scale * math.sqrt(s), self.has_bias)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give `location` and `scale`, (dim,) each."""
        return {"location": self.location, "scale": self.scale}

    @classmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self:
        return cls(parameters["location"], parameters["scale"], has_bias)

    def __repr__(self) -> str:
        bias = ", has_bias=True" if self.has_bias else ""
        return f"LaplacePrior(dim={self.dim}, scale={self.scale[: self.dim - self.has_bias].mean():.3g}{bias})"


def _medians(vectors: Floats) -> tuple[Floats, Floats]:
    """Give the median and the mean absolute deviation from it of each column, (dim,) each."""
    location = np.median(vectors, axis=0)
    return location, np.abs(vectors - location).mean(axis=0)
