"""Coordinates for priors that have no reduction: all dimensions, for Laplace priors and users' own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.inference.reduction import Noise

__all__ = ["Whole"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Whole:
    """All dim coordinates: w = q for a user's own prior, w = μ + λ h(q) for a Laplace prior.

    h turns a standard normal variate into a Laplace one, h(q) = sign(q) (−ln 2Φ(−|q|)): NUTS meets no kink.
    """

    X: Floats
    rows: int
    location: Floats | None = None
    scale: Floats | None = None

    @property
    def family(self) -> str:
        """Say which density."""
        return "own" if self.location is None else "laplace"

    @property
    def columns(self) -> int:
        """Count the dimensions."""
        return int(self.X.shape[1])

    @property
    def arrays(self) -> dict[str, Floats]:
        """Give the map to the support's logits."""
        if self.location is None or self.scale is None:
            return {"factor": self.X.T, "offset": np.zeros(len(self.X))}
        return {"factor": (self.X * self.scale).T, "offset": self.X @ self.location}

    def start(self, random: np.random.Generator, chains: int) -> Floats:
        """Draw from the prior."""
        return random.standard_normal((chains, self.rows, self.columns))

    def mean_weights(self, q: Floats) -> Floats:
        """Give E[w]."""
        return np.asarray(self._weights(q).mean(axis=0))

    def weights(self, q: Floats, random: np.random.Generator) -> Floats:
        """Give w."""
        return self._weights(q)

    def logits(self, q: Floats, Q: Floats, noise: Noise) -> Floats:
        """Give w·x."""
        return np.asarray(self._weights(q).transpose(1, 0, 2) @ Q.T)

    def _weights(self, q: Floats) -> Floats:
        if self.location is None or self.scale is None:
            return q
        from scipy.special import log_ndtr

        return np.asarray(self.location - self.scale * np.sign(q) * (log_ndtr(-np.abs(q)) + np.log(2)))
