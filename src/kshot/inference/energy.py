"""The Student-t prior's energy −ln p(w) as a function of the squared length d² = (w − m)ᵀA⁻¹(w − m)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HeavyTail"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeavyTail:
    """E(w) = (ν + p)/2 · ln(1 + d²/ν), with p the dimension of the weights and not that of the coordinates.

    The reduced marginal's exponent (ν + n)/2 would have another mode. Without this energy the solver uses a
    Gaussian's, ½ d².
    """

    dof: float
    dim: int

    def value(self, length: Floats) -> Floats:
        """Give Σ_c E, (C, tasks) -> (tasks,)."""
        out: Floats = (0.5 * (self.dof + self.dim) * np.log1p(length / self.dof)).sum(axis=0)
        return out

    def stiffness(self, length: Floats) -> Floats:
        """Give τ of the gradient τ u, (C, tasks)."""
        return (self.dof + self.dim) / (self.dof + length)

    def softening(self, length: Floats) -> Floats:
        """Give κ of the Hessian τ I − κ u ⟨u, ·⟩, (C, tasks)."""
        return 2 * (self.dof + self.dim) / (self.dof + length) ** 2
