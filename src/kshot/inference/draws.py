"""The posterior as draws, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior, LaplacePrior, MixturePrior, Prior, StudentTPrior
from kshot.inference.mixed import Mixed
from kshot.inference.posterior import Info
from kshot.inference.predictive import OldLogits, average_softmax, tempered
from kshot.inference.reduction import Noise, Reduction
from kshot.inference.spanned import Spanned
from kshot.inference.tasks import Tasks, with_constant
from kshot.inference.whole import Whole

__all__ = ["DrawnPosterior", "reduce_task"]

Floats = NDArray[np.float64]

_LOGIT_BYTES = 16 * 2**20  # of query logits at a time


@dataclass(frozen=True, eq=False)
class DrawnPosterior:
    """Draws from the posterior of each task; predictions average the softmax over them (Eq. (1)).

    Arguments:
        draws: the coordinates of `reduction.py`, per task (draws, rows, columns) in float32; `sample_weights` makes
            weights of them.
    """

    weights: Floats
    info: Info
    temperature: Floats
    prior: Prior
    tasks: Tasks
    draws: list[NDArray[np.float32]]
    random_state: int

    def predict_proba(self, X_query: NDArray[np.floating[Any]]) -> Floats:
        """Give the class probabilities, averaged over the posterior and then to the power T, (tasks, m, B + C)."""
        return self._predict(X_query, spread=False)[0]

    def predict_moments(self, X_query: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Give these and the standard deviation of softmax(T × logits) under the posterior, (tasks, m, B + C) each."""
        return self._predict(X_query, spread=True)

    def _predict(self, X_query: NDArray[np.floating[Any]], *, spread: bool) -> tuple[Floats, Floats]:
        old = 0 if self.tasks.base_weights is None else len(self.tasks.base_weights)
        shape = (*X_query.shape[:2], old + self.tasks.ways)
        mean, std = np.empty(shape), np.empty(shape)
        for task, q in enumerate(self.draws):
            reduction = self._reduction(task)
            noise = Noise.of(np.random.default_rng([self.random_state, task, 1]), len(q), self.tasks.ways)
            rows = max(1, _LOGIT_BYTES // (8 * len(q) * self.tasks.ways))
            for start in range(0, shape[1], rows):
                at = (task, slice(start, start + rows))
                Q = np.ascontiguousarray(X_query[at], dtype=np.float64)
                logits = reduction.logits(q.astype(np.float64), with_constant(Q) if self._has_bias else Q, noise)
                average = partial(self._average, Q, logits)
                mean[at], std[at] = tempered(average, self.temperature[task], spread=spread)
        return mean, std

    def _average(self, Q: Floats, logits: Floats, temperature: float) -> tuple[Floats, Floats]:
        old = OldLogits.of(Q, self.tasks.base_weights, self.tasks.base_bias, temperature)
        return average_softmax(temperature * logits, old)

    def sample_weights(self, task: int = 0, *, seed: int = 0) -> Floats:
        """Give draws of one task's weights, (draws, C, dim), chain after chain; the bias is last where there is one."""
        random = np.random.default_rng([self.random_state, task, 2, seed])
        return self._reduction(task).weights(self.draws[task].astype(np.float64), random)

    @property
    def _has_bias(self) -> bool:
        return bool(getattr(self.prior, "has_bias", False))

    def _reduction(self, task: int) -> Reduction:
        return reduce_task(self.prior, self.tasks, task)


def reduce_task(prior: Prior, tasks: Tasks, task: int) -> Reduction:
    """Choose the coordinates for a prior and a task."""
    has_bias = bool(getattr(prior, "has_bias", False))
    X = tasks.features(slice(task, task + 1), constant=has_bias)[0]
    if isinstance(prior, GaussianPrior):
        return Spanned.of(prior.mean, prior.covariance, X, ways=tasks.ways, closed=tasks.base_weights is None)
    if isinstance(prior, StudentTPrior):
        return Spanned.of(prior.mean, prior.scale, X, ways=tasks.ways, dof=prior.dof)
    if isinstance(prior, MixturePrior):
        return Mixed.of(prior, X, ways=tasks.ways)
    if isinstance(prior, LaplacePrior):
        return Whole(X, tasks.ways, prior.location, prior.scale)
    return Whole(X, tasks.ways)
