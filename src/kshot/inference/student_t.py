"""MAP under a Student-t prior: the same reduction as a Gaussian's, with an energy that is not convex (C.1)."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import StudentTPrior
from kshot.inference.energy import HeavyTail
from kshot.inference.fit import Fit
from kshot.inference.frame import ByExamples, frame
from kshot.inference.gaussian import batch_size
from kshot.inference.newton import TOLERANCE, minimise
from kshot.inference.search import search
from kshot.inference.tasks import Tasks

__all__ = ["student_t_map"]

Floats = NDArray[np.float64]
_FAR = 100.0  # the "far" start is the MAP under a Gaussian of so many times the scale


def student_t_map(prior: StudentTPrior, tasks: Tasks) -> Fit:
    """Find the MAP of every task: w_c = m + AXᵀa_c, and E = (ν + p)/2 · ln(1 + aᵀKa/ν) with p the prior's dimension.

    A class's energy is convex where d² ≤ ν. A minimum there with an objective below (ν + p)/2 · ln 2, the energy at
    d² = ν, is the lowest of all. Where the first start, all weights at the mean (0), does not end in such, weights
    that fit the examples with hardly any prior (1) are tried too, for all classes and for each.
    """
    fit = Fit.empty(tasks.count, tasks.ways, prior.dim)
    for part in tasks.batches(batch_size(tasks.X.shape[1], tasks.ways, prior.dim)):
        batch = _Batch(prior, tasks, part)
        found = batch.run(np.zeros(fit.start[part].shape, dtype=np.int64), np.arange(part.stop - part.start))
        doubtful = np.flatnonzero(~batch.lowest(found))
        search(batch.run, found, options=2, tasks=doubtful, first=1)
        fit.put(np.arange(part.start, part.stop), found)
    fit.objective[:] -= tasks.ways * prior.log_prob(prior.mean)
    return fit


class _Batch:
    def __init__(self, prior: StudentTPrior, tasks: Tasks, part: slice) -> None:
        X = tasks.features(part, constant=prior.has_bias)
        self.prior, self.ways, self.X = prior, tasks.ways, X
        self.energy = HeavyTail(prior.dof, prior.dim)
        self.likelihood = tasks.likelihood(part, mean_logits=X @ prior.mean)
        self.frame = frame(X, prior.scale)

    def run(self, starts: NDArray[np.int64], tasks: NDArray[np.intp]) -> Fit:
        """Minimise from 0, the mean, or 1, the far point, for each class, (t, C)."""
        coordinates = self.frame.coordinates
        u = coordinates.zeros(self.ways)
        if starts.any():
            u[:, tasks] = np.where(starts.T[..., None] == 1, self.far[:, tasks], 0.0)
        found = minimise(
            coordinates.take(tasks),
            self.likelihood.take(tasks),
            energy=self.energy,
            start=u[:, tasks],
            measure=lambda descent, rows, step: self.frame.measure(descent, tasks[rows], step),
        )
        # The frame speaks of all its tasks, so the others are filled with zeros.
        point, descent = np.zeros_like(u), np.zeros_like(u)
        point[:, tasks], descent[:, tasks] = found.point, found.descent
        fit = Fit.empty(tasks.size, self.ways, self.prior.dim)
        fit.weights[:] = self.prior.mean + self.frame.weights(point)[tasks]
        fit.gradient_norm[:] = self.frame.gradient_norm(descent)[tasks]
        fit.converged[:], fit.iterations[:] = found.residual <= TOLERANCE, found.steps
        fit.objective[:] = found.objective
        return fit

    def lowest(self, found: Fit) -> NDArray[np.bool_]:
        """Say which tasks' minimum is certainly the global one."""
        ceiling = 0.5 * (self.prior.dof + self.prior.dim) * math.log(2)
        lengths = self.prior.scale.mahalanobis(found.weights - self.prior.mean)
        return np.asarray(found.converged & (lengths <= self.prior.dof).all(axis=1) & (found.objective <= ceiling))

    @cached_property
    def far(self) -> Floats:
        """The MAP under a broad Gaussian, in the frame's own coordinates, (C, tasks, r)."""
        broad = frame(self.X, self.prior.scale.scaled(_FAR))
        found = minimise(broad.coordinates, self.likelihood, measure=broad.measure)
        # w − m = s AXᵀa' = AXᵀ(s a'), and √s L z' = L(√s z').
        return found.point * (_FAR if isinstance(self.frame, ByExamples) else math.sqrt(_FAR))
