"""The posterior's curvature in white coordinates of the examples' span: dearer, and exact where the kernel is huge.

Under a broad prior, or with large features, the factorisation class by class (`factorise.py`) subtracts numbers of
the size of K² ε from each other. Here nothing is subtracted but the probabilities: (C r)³ for examples of rank r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.inference.curvature import LocalCovariance

__all__ = ["WhiteCurvature"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WhiteCurvature:
    """H⁻¹ = T Tᵀ of the white coordinates z_c, in which the examples' logits are f_c = B_c z_c, K_c = B_c B_cᵀ.

    H = I + GᵀG, where G has a row √(s_n p_nk) (e_k − p_n) ⊗ B_n for each example n and class k, old ones together.

    Arguments:
        local: the prior's covariances.
        project: from k_c(X, x*) to the coordinates of x*, B_c's pseudo-inverse, (C or 1, t, r, n).
        root: T, (t, C, r, C r).
        logdet: ln |H| = ln |I + S W K|, (t,).
    """

    local: LocalCovariance
    project: Floats
    root: Floats
    logdet: Floats

    @classmethod
    def of(cls, local: LocalCovariance, X: Floats, p: Floats, weight: Floats | None) -> WhiteCurvature:
        """Decompose; X (t, n, dim), p the probabilities at the MAP (C, t, n), weight (t, n) or None."""
        ways, tasks, n = p.shape
        values, vectors = np.linalg.eigh(local.kernel(X, X))
        kept = values > n * np.finfo(np.float64).eps * values[..., -1:]  # the rest is rounding
        rank = max(1, int(kept.sum(axis=-1).max()))
        kept, values, vectors = kept[..., -rank:], values[..., -rank:], vectors[..., -rank:]
        size = np.sqrt(np.where(kept, values, 0.0))
        factor = np.broadcast_to(vectors * size[..., None, :], (ways, tasks, n, rank))
        inverse = np.divide(1.0, size, out=np.zeros_like(size), where=kept)
        # e_k − p_n for each k, the old classes last: (t, n, k, C)
        away = np.eye(ways + 1, ways) - p.transpose(1, 2, 0)[:, :, None, :]
        chance = np.concatenate([p, np.maximum(1 - p.sum(axis=0), 0.0)[None]]).transpose(1, 2, 0)
        away *= np.sqrt(chance if weight is None else weight[..., None] * chance)[..., None]
        rows = np.einsum("tnkc,ctnr->tnkcr", away, factor).reshape(tasks, n * (ways + 1), ways * rank)
        _, spread, basis = np.linalg.svd(rows, full_matrices=False)
        root = basis.swapaxes(1, 2) / np.hypot(1.0, spread)[:, None, :]
        return cls(
            local,
            (vectors * inverse[..., None, :]).swapaxes(-1, -2),
            root.reshape(tasks, ways, rank, -1),
            2 * np.log(np.hypot(1.0, spread)).sum(axis=1),
        )

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.project.nbytes + self.root.nbytes

    def covariance(self, X: Floats, X_query: Floats) -> Floats:
        """Give the covariance of the new classes' logits at each query, (t, m, C, C)."""
        inside = self.project @ self.local.kernel(X, X_query)
        outside = self.local.variances(X_query) - np.einsum("ctrm,ctrm->ctm", inside, inside)
        shape = (self.root.shape[1], *inside.shape[1:])
        shared = np.einsum("ctrm,tcrq->tmcq", np.broadcast_to(inside, shape), self.root, optimize=True)
        out: Floats = shared @ shared.swapaxes(2, 3)
        at = np.arange(shape[0])
        out[..., at, at] += np.maximum(outside, 0.0).transpose(1, 2, 0)
        return out
