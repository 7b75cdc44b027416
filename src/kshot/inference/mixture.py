"""MAP under a mixture of Gaussians: EM, each round a Gaussian MAP with a mean and covariance per class (C.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Cholesky, MixturePrior
from kshot.inference.coordinates import Dual
from kshot.inference.fit import Fit
from kshot.inference.frame import example_residual
from kshot.inference.lbfgs import lbfgs_map
from kshot.inference.newton import TOLERANCE, minimise
from kshot.inference.search import search
from kshot.inference.surrogate import surrogates
from kshot.inference.tasks import Tasks

__all__ = ["mixture_map"]

Floats = NDArray[np.float64]

_ROUNDS = 50
_STILL = 1e-8  # where a round brings less, relatively, EM has become slow
_BATCH_BYTES = 64 * 2**20


def mixture_map(prior: MixturePrior, tasks: Tasks) -> Fit:
    """Find the MAP of every task from several starts; `start` is the component each class of the best began at.

    Given responsibilities ρ_cs of the components for a class's weights, −ln p(w_c) lies under Σ_s ρ_cs ½ (w −
    μ_s)ᵀΣ_s⁻¹(w − μ_s): a Gaussian's with Λ_c = Σ_s ρ_cs Σ_s⁻¹ and mean Λ_c⁻¹ Σ_s ρ_cs Σ_s⁻¹ μ_s, whose MAP needs
    only the kernel XΛ_c⁻¹Xᵀ. Where EM is slow, because components overlap at the weights, L-BFGS ends it:
    such a task has converged at a gradient of 1e-6 · max(1, max|X|), L-BFGS's own tolerance, and not 1e-8 of it.
    """
    fit = Fit.empty(tasks.count, tasks.ways, prior.dim)
    n = tasks.X.shape[1]
    per_task = 8 * tasks.ways * (n * (n + prior.dim) + prior.dim * (prior.dim if _is_full(prior) else 1))
    for part in tasks.batches(max(1, _BATCH_BYTES // per_task)):
        batch = _Batch(prior, tasks, part)
        found = Fit.empty(part.stop - part.start, tasks.ways, prior.dim)
        everything = np.arange(part.stop - part.start)
        search(batch.run, found, options=len(prior.means), tasks=everything, floor=batch.floor)
        fit.put(np.arange(part.start, part.stop), found)
    slow = np.flatnonzero(~fit.converged)
    if slow.size:
        polished = lbfgs_map(prior, tasks, start=fit.weights[slow], indices=slow)
        polished.start[:] = fit.start[slow]
        polished.iterations[:] += fit.iterations[slow]
        better = polished.objective <= fit.objective[slow]
        fit.put(slow[better], polished, better)
    return fit


def _is_full(prior: MixturePrior) -> bool:
    return isinstance(prior.covariances[0], Cholesky)


class _Batch:
    def __init__(self, prior: MixturePrior, tasks: Tasks, part: slice) -> None:
        self.prior, self.X = prior, tasks.features(part, constant=prior.has_bias)
        self.likelihood = tasks.likelihood(part)
        self.surrogates = surrogates(prior)
        self.gram = np.matmul(self.X, self.X.swapaxes(1, 2))
        self.scale = np.maximum(1.0, np.abs(self.X).max(axis=(1, 2)))
        self.last = Dual(self.gram).zeros(tasks.ways)  # a of the last run: a good beginning for the next

    def run(self, starts: NDArray[np.int64], tasks: NDArray[np.intp]) -> Fit:
        """Run EM from components `starts`, (t, C), for these tasks."""
        rho = (starts[..., None] == np.arange(len(self.prior.means))).astype(np.float64)
        fit = Fit.empty(tasks.size, starts.shape[1], self.prior.dim)
        active, a, before = np.arange(tasks.size), self.last[:, tasks], fit.objective.copy()
        for _ in range(_ROUNDS):
            a, rho = self._round(rho, a, tasks[active], fit, active)
            self.last[:, tasks[active]] = a
            fallen, before = before - fit.objective[active], fit.objective[active]
            going = ~fit.converged[active] & ~(fallen < _STILL * (1 + np.abs(before)))
            active, a, rho, before = active[going], a[:, going], rho[going], before[going]
            if not active.size:
                break
        return fit

    def floor(self, starts: NDArray[np.int64]) -> Floats:
        """Give what no weights near these components, (t, C), get below: the objective at their means, without loss.

        Where component s is the most probable of S, the mixture's density is at most S π_s N(μ_s | μ_s, Σ_s).
        """
        log_peaks = np.diag(self.prior.component_log_prob(self.prior.means)) + np.log(len(self.prior.means))
        return np.asarray(-log_peaks[starts].sum(axis=1))

    def _round(
        self, rho: Floats, a: Floats, tasks: NDArray[np.intp], fit: Fit, rows: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """Minimise under the surrogate at ρ, record where that leads, and give the new a and ρ."""
        X, surrogate = self.X[tasks], self.surrogates(rho)
        mean = surrogate.mean
        offset = np.matmul(mean, X.swapaxes(1, 2)).swapaxes(0, 1)
        likelihood = replace(self.likelihood.take(tasks), offset=offset)
        found = minimise(
            surrogate.coordinates(X, self.gram[tasks]), likelihood, start=a, measure=partial(example_residual, X)
        )
        weights = mean + surrogate.expand(np.matmul(found.point.swapaxes(0, 1), X))
        joint = self.prior.component_log_prob(weights)
        top = joint.max(axis=2, keepdims=True)
        rho = np.exp(joint - top)
        total = rho.sum(axis=2, keepdims=True)
        rho /= total
        p, loss = self.likelihood.take(tasks).evaluate(np.matmul(weights, X.swapaxes(1, 2)).swapaxes(0, 1))
        gradient = self.surrogates(rho).gradient(weights) - np.matmul(likelihood.pull(p).swapaxes(0, 1), X)
        fit.weights[rows] = weights
        fit.objective[rows] = loss - (top + np.log(total)).sum(axis=(1, 2))
        fit.gradient_norm[rows] = np.linalg.norm(gradient, axis=2).max(axis=1)
        fit.converged[rows] = fit.gradient_norm[rows] <= TOLERANCE * self.scale[tasks]
        fit.iterations[rows] += found.steps
        return found.point, rho
