"""How good the draws are: split R-hat, effective sample size, divergences, and a warning that says what to do."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SamplingWarning", "effective_sample_size", "split_rhat", "warn_if_poor"]

Floats = NDArray[np.float64]

RHAT_LIMIT = 1.05
ESS_PER_CHAIN = 50


class SamplingWarning(UserWarning):
    """The draws of some tasks may not stand for their posterior; the message says what to change."""


def split_rhat(draws: Floats) -> Floats:
    """Give R-hat of the halves of all chains (Gelman et al. 2013, Section 11.4), (chains, draws, ...) -> (...)."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    total = (half - 1) / half * within + between
    return np.asarray(np.sqrt(np.divide(total, within, out=np.ones_like(total), where=within > 0)))


def effective_sample_size(draws: Floats) -> Floats:
    """Give how many independent draws are worth as much, (chains, draws, ...) -> (...).

    From the chains' joint autocorrelations, summed in pairs until one is negative, and made monotone (Geyer 1992;
    Vehtari et al. 2021).
    """
    chains, n = draws.shape[:2]
    centred = draws - draws.mean(axis=1, keepdims=True)
    size = 2 ** int(2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, n=size, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :n] / n
    within = covariance[:, 0].mean(axis=0) * n / (n - 1)
    total = within * (n - 1) / n
    if chains > 1:
        total = total + draws.mean(axis=1).var(axis=0, ddof=1)
    correlation = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / np.where(total > 0, total, 1.0)
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, *correlation.shape[1:]).sum(axis=1)
    kept = np.minimum.accumulate(np.where(np.logical_and.accumulate(pairs > 0, axis=0), pairs, 0.0), axis=0)
    tau = np.maximum(-1 + 2 * kept.sum(axis=0), 1 / np.log10(max(chains * n, 10)))
    return np.asarray(np.where(total > 0, chains * n / tau, chains * n))


def warn_if_poor(diagnostics: Mapping[str, Any], *, chains: int) -> NDArray[np.bool_]:
    """Say which tasks' draws are good, (tasks,), and warn about the others."""
    rhat, ess, divergences = diagnostics["rhat"], diagnostics["ess"], diagnostics["divergences"]
    apart, few, diverged = rhat > RHAT_LIMIT, ess < ESS_PER_CHAIN * chains, divergences > 0
    advice = []
    if diverged.any():
        advice.append(
            f"{_count(diverged)} had divergent steps (up to {divergences.max()}): raise target_accept, to 0.95 say, "
            "or use a narrower prior"
        )
    if apart.any():
        advice.append(
            f"in {_count(apart)} the chains disagree (R-hat up to {rhat.max():.2f}, above {RHAT_LIMIT}): raise warmup "
            "and draws; if that does not help the posterior has several modes, and the averages are over some of "
            "them only"
        )
    if (few & ~apart).any():
        advice.append(
            f"{_count(few & ~apart)} had as few as {ess[few & ~apart].min():.0f} effective draws of a coordinate: "
            "raise draws"
        )
    if advice:
        warnings.warn(
            f"sampling: {'; '.join(advice)}. Set these by inference=kshot.inference.NUTS(...); see info.diagnostics",
            SamplingWarning,
            stacklevel=2,
        )
    good: NDArray[np.bool_] = ~(apart | few | diverged)
    return good


def _count(which: NDArray[np.bool_]) -> str:
    return "the task" if which.size == 1 else f"{int(which.sum())} of {which.size} tasks"
