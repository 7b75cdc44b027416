"""The predictive log-likelihood of simulated tasks as a function of the temperature, and its maximum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Prior
from kshot.evaluation.simulation import Round
from kshot.inference import InferenceSettings, Tasks, infer
from kshot.inference.posterior import PointPosterior

__all__ = ["Predictions", "predict"]

Floats = NDArray[np.float64]

_LOWEST, _HIGHEST = math.log(1e-4), math.log(1e8)  # of ln T; a narrow prior has small logits


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a prior at one scale predicts for simulated tasks of one number of shots, but for the temperature.

    Arguments:
        rounds: the tasks.
        logits: of the new classes at the queries, per round (tasks, C, m): ln p̄ where inference averages.
        shift: what the old classes' logits have to be raised by to be on the same footing, per round (tasks, m) or 0.
    """

    rounds: Sequence[Round]
    logits: Sequence[Floats]
    shift: Sequence[Floats | float]

    def log_likelihood(self, log_temperature: float) -> Floats:
        """Give each task's weighted mean of ln p(y* | x*), (tasks,)."""
        parts = zip(self.rounds, self.logits, self.shift, strict=True)
        return np.concatenate([_log_likelihood(*part, log_temperature) for part in parts])

    def best_temperature(self, start: float = 0.0) -> tuple[float, Floats]:
        """Find the ln T of the highest mean log-likelihood, near `start`; give it and each task's log-likelihood."""
        from scipy.optimize import minimize_scalar

        low, high = start - 1.0, start + 1.0
        while True:
            low, high = max(low, _LOWEST), min(high, _HIGHEST)
            found = minimize_scalar(
                lambda t: -self.log_likelihood(t).mean(), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
            ).x
            if found - low < 0.01 and low > _LOWEST:
                low, high = low - 2.0, low + 0.1
            elif high - found < 0.01 and high < _HIGHEST:
                low, high = high - 0.1, high + 2.0
            else:
                return float(found), self.log_likelihood(float(found))


def predict(
    prior: Prior,
    X: NDArray[np.floating[Any]],
    rounds: Sequence[Round],
    shots: int,
    inference: str | InferenceSettings,
    *,
    seed: int,
) -> Predictions:
    """Learn all tasks at one number of shots, and give the logits of their queries."""
    logits, shift = zip(*(_query_logits(prior, X, each, shots, inference, seed) for each in rounds), strict=True)
    return Predictions(rounds, logits, shift)


def _query_logits(
    prior: Prior, X: NDArray[np.floating[Any]], each: Round, shots: int, inference: Any, seed: int
) -> tuple[Floats, Floats | float]:
    rows, ways = each.support_rows(shots), each.classes.shape[1]
    labels = np.broadcast_to(np.repeat(np.arange(ways), shots), rows.shape)
    tasks = Tasks(X[rows], labels, ways)
    if each.old is not None:
        rest = each.old.support_rest[:, :, :shots].reshape(rows.shape)
        tasks = _KnownRest(X[rows], labels, ways, None, each.old.weights, each.old.bias, rest)
    posterior = infer(prior, tasks, inference, random_state=seed)
    Q = X[each.query]
    if isinstance(posterior, PointPosterior):
        weights = posterior.weights.astype(Q.dtype, copy=False)
        return (weights @ Q.swapaxes(1, 2)).astype(np.float64) + posterior.info.intercept[..., None], 0.0
    proba = np.maximum(posterior.predict_proba(Q), np.finfo(np.float64).tiny)
    new = np.log(proba[..., -ways:]).swapaxes(1, 2)
    if each.old is None:
        return new, 0.0
    return new, np.log(proba[..., :-ways].sum(axis=2)) - each.old.rest(0.0)


@dataclass(frozen=True, eq=False)
class _KnownRest(Tasks):
    """Tasks for which ln Σ_old exp(f) of the support, (tasks, n), is known: it is the same at every scale."""

    known: Floats | None = None

    def rest(self, part: slice) -> Floats | None:
        """Give it for these tasks."""
        return None if self.known is None else self.known[part]


def _log_likelihood(each: Round, logits: Floats, shift: Floats | float, log_temperature: float) -> Floats:
    T = math.exp(log_temperature)
    f = T * logits
    top = f.max(axis=1)
    rest = None
    if each.old is not None:
        rest = each.old.rest(log_temperature) + T * shift
        np.maximum(top, rest, out=top)
    total = np.exp(f - top[:, None]).sum(axis=1)
    if rest is not None:
        total += np.exp(rest - top)
    new = int((each.labels >= 0).sum())
    own = np.take_along_axis(f[:, :, :new], each.labels[None, None, :new], axis=1)[:, 0]
    if each.old is not None and rest is not None:
        right = T * (each.old.own + shift) if each.old.answer == "each" else rest
        own = np.concatenate([own, right[:, new:]], axis=1)
    return np.asarray((own - top - np.log(total)) @ each.weight)
