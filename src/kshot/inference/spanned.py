"""Coordinates for Gaussian and Student-t priors: the span of the examples, whitened, and contrasts of the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Covariance
from kshot.inference.reduction import Noise, complete, rank, remainder

__all__ = ["Spanned", "contrasts"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spanned:
    """A Gaussian's z; for a Student-t, a Gaussian of precision scaled by g_c ~ Gamma(ν/2, ν/2), also ξ = √(ν/2) ln g.

    z = Rᵀq is as white as q, for any orthonormal rows R. Those here are the classes' mean and contrasts: the data tell
    more of the contrasts than of the mean, and nothing at all of the mean of a Gaussian's z when there are no old
    classes. Then the mean is left out: its posterior is its prior, and the softmax does not see it.

    Arguments:
        basis: V, (r, dim), orthonormal rows.
        arrays: B as `factor` (r, n), `offset` (n,), R as `rotation` (rows, C), and ν as `dof`.
        dof: ν, or None for a Gaussian.
    """

    mean: Floats
    covariance: Covariance
    basis: Floats
    arrays: dict[str, Floats]
    dof: float | None = None

    @classmethod
    def of(
        cls,
        mean: Floats,
        covariance: Covariance,
        X: Floats,
        *,
        ways: int,
        closed: bool = False,
        dof: float | None = None,
    ) -> Spanned:
        """Take the features' span by a singular value decomposition: B = U S.

        Arguments:
            mean: μ, (dim,).
            covariance: Σ, or the Student-t's scale.
            X: the support's features, (n, dim).
            ways: C.
            closed: whether there are no old classes.
            dof: ν.
        """
        U, S, V = np.linalg.svd(covariance.factor_matmul(X), full_matrices=False)
        width = rank(S)
        rotation = contrasts(ways)[1 if closed and dof is None else 0 :]
        arrays = {"factor": (U[:, :width] * S[:width]).T, "offset": X @ mean, "rotation": rotation}
        if dof is not None:
            arrays["dof"] = np.asarray(dof)
        return cls(mean, covariance, V[:width], arrays, dof)

    @property
    def family(self) -> str:
        """Say which density."""
        return "gaussian" if self.dof is None else "student-t"

    @property
    def rows(self) -> int:
        """Count the contrasts, and the mean."""
        return len(self.arrays["rotation"])

    @property
    def columns(self) -> int:
        """Count the rank, and the scale."""
        return len(self.basis) + (self.dof is not None)

    def start(self, random: np.random.Generator, chains: int) -> Floats:
        """Draw from the prior."""
        q = random.standard_normal((chains, self.rows, self.columns))
        if self.dof is not None:
            q[..., -1] *= min(
                1.0, self.dof / 2
            )  # ln of a Gamma variate of small shape is skewed: start near its middle
        return q

    def mean_weights(self, q: Floats) -> Floats:
        """Give μ + L Vᵀ E[z / √g]: v has mean zero."""
        z, spread = self._split(q)
        inside = np.einsum("scr,sc->cr", z, spread) / len(q)
        return np.asarray(self.mean + self.covariance.factor_t_matmul(inside @ self.basis))

    def weights(self, q: Floats, random: np.random.Generator) -> Floats:
        """Give μ + L(Vᵀz + v) / √g."""
        z, spread = self._split(q)
        ways = z.shape[1]
        if self.rows < ways:
            z = z + random.standard_normal((len(q), 1, z.shape[2])) / np.sqrt(ways)
        white = complete(z, self.basis, random)
        return np.asarray(self.mean + self.covariance.factor_t_matmul(white * spread[..., None]))

    def logits(self, q: Floats, Q: Floats, noise: Noise) -> Floats:
        """Give μ·x + (x L Vᵀz + |x L v| ε) / √g."""
        z, spread = self._split(q)
        white = self.covariance.factor_matmul(Q)
        inside = white @ self.basis.T
        out = np.matmul(z.transpose(1, 0, 2), inside.T)
        out += noise.normal.T[..., None] * remainder(white, inside)
        if self.dof is not None:
            out *= spread.T[..., None]
        out += Q @ self.mean
        return np.asarray(out)

    def _split(self, q: Floats) -> tuple[Floats, Floats]:
        """Give z, (draws, C, r), and 1/√g, (draws, C)."""
        z = self.arrays["rotation"].T @ q[..., : len(self.basis)]
        if self.dof is None:
            return z, np.ones(z.shape[:2])
        return z, np.exp(-0.5 * np.sqrt(2 / self.dof) * q[..., -1])


def contrasts(ways: int) -> Floats:
    """Give orthonormal rows, (C, C): the first is the mean of the classes, the others compare each with those before.

    >>> contrasts(2).round(3)
    array([[ 0.707,  0.707],
           [ 0.707, -0.707]])
    """
    rows = np.tril(np.ones((ways, ways)), -1) - np.diag(np.arange(ways))
    rows[0] = 1.0
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
