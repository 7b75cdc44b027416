"""inference="map": the most probable weights, each family of priors by its own solver (Section 2.1, Eq. (3))."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import GaussianPrior, LaplacePrior, MixturePrior, Prior, StudentTPrior
from kshot.inference.fit import Fit
from kshot.inference.gaussian import gaussian_map
from kshot.inference.posterior import Info, PointPosterior
from kshot.inference.tasks import Tasks

__all__ = ["infer", "solve"]

Floats = NDArray[np.float64]


def infer(prior: Prior, tasks: Tasks, *, temperature: Floats, random_state: int) -> PointPosterior:
    """Find the MAP of every task; it is deterministic, so `random_state` has no effect."""
    fit = solve(prior, tasks)
    weights, intercept = split_bias(fit.weights, has_bias=getattr(prior, "has_bias", False))
    start = fit.start if isinstance(prior, MixturePrior | StudentTPrior) else None
    info = Info(fit.converged, fit.iterations, fit.gradient_norm, fit.objective, intercept, start=start)
    return PointPosterior(weights, info, temperature, tasks.base_weights, tasks.base_bias)


def solve(prior: Prior, tasks: Tasks) -> Fit:
    """Hand the tasks to the solver of the prior's family, imported when needed; a user's own prior goes to L-BFGS."""
    if isinstance(prior, GaussianPrior):
        return gaussian_map(prior, tasks)
    if isinstance(prior, StudentTPrior):
        from kshot.inference.student_t import student_t_map

        return student_t_map(prior, tasks)
    if isinstance(prior, MixturePrior):
        from kshot.inference.mixture import mixture_map

        return mixture_map(prior, tasks)
    if isinstance(prior, LaplacePrior):
        from kshot.inference.proximal import laplace_map

        return laplace_map(prior, tasks)
    from kshot.inference.lbfgs import lbfgs_map

    fit = lbfgs_map(prior, tasks)
    if not fit.converged.all():
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"the search for the most probable weights under {type(prior).__name__} ended without an optimum in "
            f"{int((~fit.converged).sum())} of {tasks.count} task(s), the gradient still up to "
            f"{fit.gradient_norm.max():.2g} long: L-BFGS needs a log_prob without kinks, with the right gradient",
            ConvergenceWarning,
            stacklevel=2,
        )
    return fit


def split_bias(weights: Floats, *, has_bias: bool) -> tuple[Floats, Floats]:
    """Split (tasks, C, dim) into weights (tasks, C, p) and intercepts (tasks, C)."""
    if not has_bias:
        return weights, np.zeros(weights.shape[:2])
    return np.ascontiguousarray(weights[..., :-1]), weights[..., -1].copy()
