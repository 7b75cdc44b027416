"""Coordinates for mixture priors: the logits of the examples, whitened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import MixturePrior
from kshot.inference.reduction import Noise, complete, rank, remainder

__all__ = ["Mixed"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixed:
    """The support logits f = Xw = f̄ + B z have the prior Σ_s π_s N(Xμ_s, XΣ_sXᵀ), and w given f is a mixture too.

    Arguments:
        prior: the mixture.
        bases: V_s, (S, r, dim): the orthonormal rows that span X L_s.
        arrays: B as `factor`, f̄ as `offset`; each component's mean m_s (S, r), inverse factor T_s (S, r, r) and log
            constant, so that e_s = T_s (z − m_s) is white.
    """

    prior: MixturePrior
    bases: Floats
    arrays: dict[str, Floats]
    rows: int
    family: str = "mixture"

    @classmethod
    def of(cls, prior: MixturePrior, X: Floats, *, ways: int) -> Mixed:
        """Take the coordinates that are white under a single Gaussian with the mixture's mean and covariance."""
        root = np.sqrt(prior.proportions)
        features = np.stack([c.factor_matmul(X) for c in prior.covariances])  # X L_s, (S, n, dim)
        shifts = (prior.means - prior.mean) @ X.T
        joint = np.concatenate([*(root[:, None, None] * features), (root[:, None] * shifts).T], axis=1)
        U, S, _ = np.linalg.svd(joint, full_matrices=False)
        width = rank(S)
        U, S = U[:, :width], S[:width]
        inside = (U / S).T @ features  # B⁺ X L_s, (S, r, dim)
        lower = np.linalg.cholesky(inside @ inside.swapaxes(1, 2)) if width else np.zeros((len(root), 0, 0))
        inverse = np.linalg.inv(lower)
        log_volume = np.log(np.einsum("srr->sr", lower)).sum(axis=1)
        arrays = {
            "factor": (U * S).T,
            "offset": X @ prior.mean,
            "means": shifts @ (U / S),
            "inverse": inverse,
            "constant": np.log(prior.proportions) - log_volume,
        }
        return cls(prior, inverse @ inside, arrays, ways)

    @property
    def columns(self) -> int:
        """Count the rank."""
        return int(self.bases.shape[1])

    def start(self, random: np.random.Generator, chains: int) -> Floats:
        """Draw from the single Gaussian."""
        return random.standard_normal((chains, self.rows, self.columns))

    def mean_weights(self, q: Floats) -> Floats:
        """Give E[Σ_s r_s (μ_s + L_s V_sᵀ e_s)]."""
        white, share = self._components(q)
        out = share.mean(axis=0) @ self.prior.means
        for s, covariance in enumerate(self.prior.covariances):
            inside = np.einsum("nc,ncr->cr", share[..., s], white[s]) / len(q)
            out += covariance.factor_t_matmul(inside @ self.bases[s])
        return np.asarray(out)

    def weights(self, q: Floats, random: np.random.Generator) -> Floats:
        """Give μ_s + L_s(V_sᵀe_s + v) with s drawn from the responsibilities of f."""
        white, share = self._components(q)
        chosen = _choose(share, random.random(q.shape[:2]))
        out = np.empty((*q.shape[:2], self.prior.dim))
        for s, covariance in enumerate(self.prior.covariances):
            these = chosen == s
            full = complete(white[s][these], self.bases[s], random)
            out[these] = self.prior.means[s] + covariance.factor_t_matmul(full)
        return out

    def logits(self, q: Floats, Q: Floats, noise: Noise) -> Floats:
        """Give f* given f: a component s from the responsibilities of f, then its Gaussian."""
        white, share = self._components(q)
        chosen = _choose(share, noise.uniform).T
        out = np.empty((q.shape[1], q.shape[0], len(Q)))
        for s, covariance in enumerate(self.prior.covariances):
            features = covariance.factor_matmul(Q)
            inside = features @ self.bases[s].T
            these = chosen == s
            found = white[s].transpose(1, 0, 2)[these] @ inside.T
            found += noise.normal.T[these][:, None] * remainder(features, inside)
            out[these] = found + Q @ self.prior.means[s]
        return out

    def _components(self, q: Floats) -> tuple[list[Floats], Floats]:
        """Give e_s of each draw, a list of (draws, C, r), and the responsibilities, (draws, C, S)."""
        white = [(q - m) @ T.T for m, T in zip(self.arrays["means"], self.arrays["inverse"], strict=True)]
        joint = np.stack([-0.5 * (e * e).sum(axis=2) for e in white], axis=-1) + self.arrays["constant"]
        joint -= joint.max(axis=-1, keepdims=True)
        share = np.exp(joint)
        share /= share.sum(axis=-1, keepdims=True)
        return white, share


def _choose(share: Floats, uniform: Floats) -> NDArray[np.intp]:
    """Draw a component per draw and class from responsibilities (draws, C, S)."""
    return np.asarray(np.minimum((uniform[..., None] > share.cumsum(axis=-1)).sum(axis=-1), share.shape[-1] - 1))
