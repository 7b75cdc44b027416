"""Phase 4 with a posterior: the class probabilities averaged over uncertain logits, and their spread (Eq. (1))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.inference.posterior import sharpened, softmax

__all__ = ["OldLogits", "average_softmax", "normal_draws", "probit_softmax", "tempered"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OldLogits:
    """The old classes at some queries: their shares of each other's mass (m, B), and r = ln Σ_old exp(T f), (m,)."""

    shares: Floats
    rest: Floats

    @classmethod
    def of(
        cls, X: Floats, base_weights: Floats | None, base_bias: Floats | None, temperature: float
    ) -> OldLogits | None:
        """Compute them for queries X, (m, p); None without old classes."""
        if base_weights is None:
            return None
        logits = X @ base_weights.T
        if base_bias is not None:
            logits += base_bias
        logits *= temperature
        top = logits.max(axis=1)
        rest = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        return cls(softmax(logits), rest)


def tempered(
    average: Callable[[float], tuple[Floats, Floats]], temperature: float, *, spread: bool
) -> tuple[Floats, Floats]:
    """Give the averaged probabilities to the power T and, if asked for, the spread of softmax(T × logits).

    Arguments:
        average: from a temperature to the mean and the standard deviation of softmax(temperature × logits).
        temperature: T.
        spread: whether the second answer is wanted; else it is that of T = 1.
    """
    mean, std = average(1.0)
    if temperature == 1:
        return mean, std
    return sharpened(mean, temperature), average(temperature)[1] if spread else std


def average_softmax(logits: Floats, old: OldLogits | None) -> tuple[Floats, Floats]:
    """Give the mean and the standard deviation of softmax over draws, (m, B + C) each, old classes first.

    Arguments:
        logits: the new classes' logits at the test temperature, (C, draws, m); they are overwritten.
        old: the old classes' logits, which are constants.
    """
    top = logits.max(axis=0)
    if old is not None:
        np.maximum(top, old.rest, out=top)
    logits -= top
    p = np.exp(logits, out=logits)
    total = p.sum(axis=0)
    if old is not None:
        remaining = np.exp(old.rest - top)
        total += remaining
        remaining /= total
    p /= total
    mean, std = _moments(p)
    if old is None:
        return mean.T, std.T
    rest_mean, rest_std = _moments(remaining[None])
    return (
        np.concatenate([old.shares * rest_mean.T, mean.T], axis=1),
        np.concatenate([old.shares * rest_std.T, std.T], axis=1),
    )


def probit_softmax(mean: Floats, covariance: Floats, old: OldLogits | None) -> tuple[Floats, Floats]:
    """Approximate the same two without draws: every pair of classes by MacKay's probit formula, then normalised.

    p_c ∝ 1 / Σ_c' exp((μ_c' − μ_c) / sqrt(1 + π/8 · var(f_c − f_c'))); the standard deviation is of first order.

    Arguments:
        mean: of the new classes' logits at the test temperature, (m, C).
        covariance: (m, C, C).
        old: the old classes' logits, which are constants and count as one class.
    """
    if old is not None:
        mean = np.concatenate([old.rest[:, None], mean], axis=1)
        covariance = np.pad(covariance, ((0, 0), (1, 0), (1, 0)))
    variance = np.einsum("mcc->mc", covariance)
    difference = variance[:, :, None] + variance[:, None, :] - 2 * covariance
    margin = (mean[:, None, :] - mean[:, :, None]) / np.sqrt(1 + np.pi / 8 * np.maximum(difference, 0.0))
    top = margin.max(axis=2)
    p = softmax(-top - np.log(np.exp(margin - top[..., None]).sum(axis=2)))
    plain = softmax(mean.copy())
    pulled = covariance - (plain[:, None, :] @ covariance)  # Σ − 1 pᵀΣ
    square = np.einsum("mcc->mc", pulled - (pulled @ plain[:, :, None]))
    std = plain * np.sqrt(np.maximum(square, 0.0))
    if old is None:
        return p, std
    return np.concatenate([old.shares * p[:, :1], p[:, 1:]], axis=1), np.concatenate(
        [old.shares * std[:, :1], std[:, 1:]], axis=1
    )


def normal_draws(count: int, dim: int, seed: int) -> Floats:
    """Give `count` points that fill a standard normal evenly, (count, dim): scrambled Sobol points.

    (Their mirror images instead of the second half were tried: the mean error of a probability is a third larger.)
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    sobol = qmc.Sobol(dim, rng=np.random.default_rng(seed))
    uniform = sobol.random_base2((count - 1).bit_length())[:count]
    return np.asarray(ndtri(np.clip(uniform, 2.0**-32, 1 - 2.0**-32)))


def _moments(p: Floats) -> tuple[Floats, Floats]:
    mean = p.mean(axis=1)
    return mean, np.sqrt(np.maximum(np.einsum("csm,csm->cm", p, p) / p.shape[1] - mean * mean, 0.0))
