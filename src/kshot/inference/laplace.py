"""inference="laplace": a Gaussian with the curvature at the MAP, in the n examples and not the p dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior, Prior
from kshot.inference.centre import TOLERANCE, mean_shift
from kshot.inference.curvature import check_curved, local_covariance
from kshot.inference.factorise import Curvature, curvature_at, factors, too_large
from kshot.inference.maximum import solve, split_bias
from kshot.inference.posterior import Info
from kshot.inference.predictive import OldLogits, average_softmax, normal_draws, probit_softmax, tempered
from kshot.inference.settings import LaplaceApproximation
from kshot.inference.tasks import Tasks, with_constant

__all__ = ["LaplacePosterior", "infer"]

Floats = NDArray[np.float64]

_LARGEST_FEATURE = 1e150  # the squares of larger ones overflow
_BATCH_BYTES = 4 * 2**20  # a batch's matrices stay in the cache
_KEPT_BYTES = 64 * 2**20  # up to this much is kept for the next call of predict_proba; what is not is computed again
_DRAW_BYTES = 2 * 2**20  # the logits drawn at a time


def infer(
    prior: Prior,
    tasks: Tasks,
    *,
    temperature: Floats,
    random_state: int,
    settings: LaplaceApproximation | None = None,
) -> LaplacePosterior:
    """Find each task's MAP, the curvature there, the mean, and the approximate log evidence ln p(y | X).

    `weights` is the mean; gradient and objective in `info` are those of the MAP. A task has converged when its MAP has
    and the expected gradient at the mean, `info.diagnostics["centre_residual"]` (see `centre.py`), is at most 1e-3.
    """
    check_curved(prior)
    if float(np.abs(tasks.X).max(initial=0.0)) > _LARGEST_FEATURE:  # a Python number: float32 does not reach so far
        raise too_large(tasks.X)
    settings = settings or LaplaceApproximation()
    fit = solve(prior, tasks)
    evidence, flattened = np.empty(tasks.count), np.zeros(tasks.count, np.bool_)
    residual = np.zeros(tasks.count)
    centre = fit.weights.copy() if settings.centre == "mean" else fit.weights
    gaussian = _Gaussians(prior, tasks, fit.weights)
    for part in gaussian.parts():
        curvature, X = gaussian.curvature(part), gaussian.support(part)
        local = curvature.local
        # ln Z = ln p(y, ŵ) + ½ Σ_c (p ln 2π + ln |Σ_c|) − ½ ln |I + S W K|
        volume = np.broadcast_to(local.logdet, (tasks.ways, len(X))).sum(axis=0)
        volume = volume + tasks.ways * fit.weights.shape[2] * np.log(2 * np.pi)
        evidence[part] = -fit.objective[part] + 0.5 * (volume - curvature.logdet)
        if local.flattened is not None:
            flattened[part] = local.flattened.any(axis=0)
        if settings.centre == "mean":
            f = (fit.weights[part] @ X.swapaxes(1, 2)).swapaxes(0, 1)
            shift, residual[part] = mean_shift(curvature, tasks.likelihood(part), X, f)
            centre[part] += local.expand(shift, X)
    uncentred = ~(residual <= TOLERANCE)
    if uncentred.any():
        _warn_about(residual, uncentred)
    weights, intercept = split_bias(centre, has_bias=gaussian.has_bias)
    start = None if isinstance(prior, GaussianPrior) else fit.start
    diagnostics = MappingProxyType({"log_evidence": evidence, "flattened": flattened, "centre_residual": residual})
    info = Info(
        fit.converged & ~uncentred,
        fit.iterations,
        fit.gradient_norm,
        fit.objective,
        intercept,
        start=start,
        diagnostics=diagnostics,
    )
    return LaplacePosterior(weights, info, temperature, gaussian, centre, settings, random_state)


def _warn_about(residual: Floats, uncentred: NDArray[np.bool_]) -> None:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"the search for the posterior mean ended without it in {int(uncentred.sum())} of {uncentred.size} task(s), "
        f"the residual still up to {np.nanmax(residual):.2g} (it should be at most {TOLERANCE:g}): the prior "
        "is very broad for these features; divide them by their size, or narrow the prior by prior.scaled(s)",
        ConvergenceWarning,
        stacklevel=3,
    )


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """The curvature of all tasks at their MAP, (tasks, C, dim), computed in batches and kept where it is small."""

    prior: Prior
    tasks: Tasks
    mode: Floats
    _kept: dict[int, Curvature] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is kept for speed: it holds functions, which do not travel to another process."""
        return self.__dict__ | {"_kept": {}}

    @property
    def has_bias(self) -> bool:
        """Say whether the features have a constant 1 at their end."""
        return bool(getattr(self.prior, "has_bias", False))

    def support(self, part: slice) -> Floats:
        """Give these tasks' features, (t, n, dim)."""
        return self.tasks.features(part, constant=self.has_bias)

    def parts(self) -> list[slice]:
        """Split the tasks into batches whose matrices stay in the cache."""
        n, dim = self.tasks.X.shape[1], self.mode.shape[2]
        size = 8 * self.tasks.ways * n * (4 * n + dim) + 1
        return list(self.tasks.batches(max(1, _BATCH_BYTES // size)))

    def curvature(self, part: slice) -> Curvature:
        """Give the curvature of these tasks, kept from the last call or computed."""
        if part.start in self._kept:
            return self._kept[part.start]
        X, mode = self.support(part), self.mode[part]
        p, _ = self.tasks.likelihood(part).evaluate((mode @ X.swapaxes(1, 2)).swapaxes(0, 1))
        weight = None if self.tasks.weight is None else self.tasks.weight[part]
        found = curvature_at(local_covariance(self.prior, mode), X, p, weight)
        if self.tasks.count * found.nbytes <= _KEPT_BYTES * len(X):
            self._kept[part.start] = found
        return found


@dataclass(frozen=True, eq=False)
class LaplacePosterior:
    """N(W | mean, H⁻¹) of each task, and its predictions; `weights` is the mean."""

    weights: Floats
    info: Info
    temperature: Floats
    gaussian: _Gaussians
    centre: Floats
    settings: LaplaceApproximation
    random_state: int

    def predict_proba(self, X_query: NDArray[np.floating[Any]]) -> Floats:
        """Give the class probabilities, averaged over the posterior and then to the power T, (tasks, m, B + C)."""
        return self._predict(X_query, spread=False)[0]

    def predict_moments(self, X_query: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Give these and the standard deviation of softmax(T × logits) under the posterior, (tasks, m, B + C) each."""
        return self._predict(X_query, spread=True)

    def _predict(self, X_query: NDArray[np.floating[Any]], *, spread: bool) -> tuple[Floats, Floats]:
        tasks = self.gaussian.tasks
        old = 0 if tasks.base_weights is None else len(tasks.base_weights)
        shape = (*X_query.shape[:2], old + tasks.ways)
        mean, std = np.empty(shape), np.empty(shape)
        draws = normal_draws(self.settings.samples, tasks.ways, self.random_state)
        step = max(1, _DRAW_BYTES // (8 * draws.size))
        for part in self.gaussian.parts():
            for start in range(0, shape[1], step):
                rows = slice(start, min(start + step, shape[1]))
                Q = np.ascontiguousarray(X_query[part, rows], dtype=np.float64)
                logits, covariance = self.logits(part, Q)
                for i, task in enumerate(range(part.start, part.stop)):
                    average = partial(self._average, Q[i], logits[i], covariance[i], draws)
                    mean[task, rows], std[task, rows] = tempered(average, self.temperature[task], spread=spread)
        return mean, std

    def logits(self, part: slice, Q: Floats) -> tuple[Floats, Floats]:
        """Give the mean (t, m, C) and covariance (t, m, C, C) of the new classes' logits at queries Q, (t, m, p)."""
        whole = with_constant(Q) if self.gaussian.has_bias else Q
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = self.gaussian.curvature(part).covariance(self.gaussian.support(part), whole)
        if not np.isfinite(covariance).all():
            raise too_large(whole)
        return whole @ self.centre[part].swapaxes(1, 2), covariance

    def _average(
        self, Q: Floats, mean: Floats, covariance: Floats, draws: Floats, temperature: float
    ) -> tuple[Floats, Floats]:
        """Give the mean and the standard deviation of softmax(temperature × logits) under the posterior."""
        tasks = self.gaussian.tasks
        old = OldLogits.of(Q, tasks.base_weights, tasks.base_bias, temperature)
        mean = temperature * mean
        if self.settings.predictive == "probit":
            return probit_softmax(mean, temperature**2 * covariance, old)
        logits = np.matmul(draws, (temperature * factors(covariance)).transpose(1, 2, 0))  # (C, draws, m)
        logits += mean.T[:, None, :]
        return average_softmax(logits, old)
