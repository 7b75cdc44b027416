"""The law of the coordinates in which NUTS samples one task's weights, and of the way back to weights and query logits.

Under a Gaussian prior write w = μ + L(Vᵀz + v) with white z and V v = 0, where the rows of V span the support's
features X L. The data see z only; the posterior of v is its prior. So rank(X) coordinates per class are sampled, and v
is added exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kshot.inference.predictive import normal_draws

__all__ = ["Noise", "Reduction", "complete", "rank", "remainder"]

Floats = NDArray[np.float64]


_RANK = 1e-10  # singular values below this, relative to the largest, count as zero


@dataclass(frozen=True, eq=False)
class Noise:
    """What is random beside the sampled coordinates: one number per draw and class, shared by all queries.

    Each query's probabilities have the right distribution, and do not depend on which others are asked for.
    """

    normal: Floats  # (draws, C)
    uniform: Floats  # (draws, C)

    @classmethod
    def of(cls, random: np.random.Generator, draws: int, ways: int) -> Noise:
        """Draw them; the normal ones evenly spread, in random order, which makes the averages less noisy."""
        normal = normal_draws(draws, ways, int(random.integers(2**31)))
        return cls(random.permutation(normal), random.random((draws, ways)))


class Reduction(Protocol):
    """One task's coordinates q, (rows, columns), with a density of the named `family` (see `targets.py`)."""

    @property
    def family(self) -> str:
        """Say which density."""

    @property
    def rows(self) -> int:
        """Count the classes, or their contrasts."""

    @property
    def columns(self) -> int:
        """Count the coordinates of each."""

    @property
    def arrays(self) -> dict[str, Floats]:
        """Give what the density needs: `factor` (columns, n) and `offset` (n,) of the support's logits, and more."""

    def start(self, random: np.random.Generator, chains: int) -> Floats:
        """Give a start per chain, spread more widely than the posterior, (chains, rows, columns)."""

    def mean_weights(self, q: Floats) -> Floats:
        """Give E[W] over draws q (draws, rows, columns) -> (C, dim)."""

    def weights(self, q: Floats, random: np.random.Generator) -> Floats:
        """Give a draw of the weights for each draw q, (draws, C, dim)."""

    def logits(self, q: Floats, Q: Floats, noise: Noise) -> Floats:
        """Give a draw of the logits at queries Q (m, dim) for each draw q, (C, draws, m), up to a shift of all classes.

        The shift does not matter to the softmax.
        """


def rank(singular: Floats) -> int:
    """Count the singular values that are not zero."""
    return int((singular > _RANK * singular.max(initial=0)).sum()) if singular.any() else 0


def complete(z: Floats, basis: Floats, random: np.random.Generator) -> Floats:
    """Give white vectors Vᵀz + v, (..., dim), with v white on the complement of the rows of V."""
    white = random.standard_normal((*z.shape[:-1], basis.shape[1]))
    return np.asarray(white + (z - white @ basis.T) @ basis)


def remainder(white: Floats, inside: Floats) -> Floats:
    """Give the standard deviation that a query's part outside the span adds to its logits, (m,)."""
    return np.asarray(np.sqrt(np.maximum((white**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0)))
