"""Where the Laplace approximation's Gaussian is centred: not at the MAP but where the expected gradient vanishes.

The softmax posterior leans away from the prior: its mean is farther out than its mode, and a Gaussian about the mode is
too unsure. With the covariance of the curvature at the MAP held fixed, the Gaussian nearest to the posterior (in
Kullback-Leibler divergence) has the mean at which E_q[∇ ln p(W, y)] = 0 (Opper & Archambeau, 2009). To find it is a
convex problem with n numbers per class: the MAP's own, with the likelihood averaged over the Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kshot.inference.coordinates import Dual
from kshot.inference.factorise import Curvature, factors
from kshot.inference.likelihood import Likelihood, row_sums
from kshot.inference.newton import minimise
from kshot.inference.predictive import normal_draws

__all__ = ["TOLERANCE", "mean_shift"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TOLERANCE = 1e-3  # of the residual: the draws' own error is larger
_AIM = 1e-8  # what the steps aim at: an answer then does not depend on the other tasks of its batch
_DRAWS = 64  # quasi-random
_LEAST = -300.0  # of a logit below the highest: products of smaller probabilities are denormal, and those are slow
_PATIENCE = 12  # Newton steps after which a task is looked at more closely
_STEPS = 500  # under a very broad prior the average over 64 draws is a staircase, and steps on it are short


def mean_shift(curvature: Curvature, likelihood: Likelihood, X: Floats, f: Floats) -> tuple[Floats, Floats]:
    """Give Δ, (C, t, n), such that the mean is w_c = MAP + Σ_c XᵀΔ_c, and the residual of each task, (t,).

    Δ minimises ½ Σ_c Δ_cᵀK_cΔ_c + Σ_n s_n (E[ln Σ_c exp(f_nc + (K_cΔ_c)_n + ε_nc)] − p_nᵀ(KΔ)_n) with p the
    probabilities at the MAP and ε the posterior's noise in the logits. The residual (see `_residual`) is that of
    r = s (p − E[softmax]) − Δ.

    Arguments:
        curvature: at the MAP.
        likelihood: of these tasks.
        X: their features, (t, n, dim).
        f: their logits at the MAP, (C, t, n).
    """
    ways, tasks, n = f.shape
    noise = factors(curvature.covariance(X, X).reshape(-1, ways, ways)).reshape(tasks, n, ways, ways)
    spread = np.ascontiguousarray(np.einsum("sd,tncd->csnt", normal_draws(_DRAWS, ways, seed=0), noise))
    p, _ = likelihood.evaluate(f)
    # A logit that all classes of an example share changes nothing: without it the objective keeps its digits.
    shared = f.max(axis=0)
    averaged = _Averaged(
        p if likelihood.weight is None else likelihood.weight * p,
        likelihood.weight,
        None if likelihood.rest is None else likelihood.rest - shared,
        f - shared,
        spread=spread,
    )
    kernel = curvature.local.kernel(X, X)
    dual = Dual(kernel[0] if len(kernel) == 1 else kernel)
    size = np.sqrt(np.maximum(1.0, np.einsum("ctnn->ctn", kernel).max(axis=(0, 2), initial=0.0)))
    found = minimise(
        dual, averaged, measure=partial(_residual, X, size), tolerance=TOLERANCE, aim=_AIM, max_steps=_STEPS
    )
    return found.point, found.residual


def _residual(X: Floats, size: Floats, descent: Floats, tasks: Indices, step: int) -> Floats:
    """Give max |r_nc| max(1, √K), or where it is smaller the same of max_c |Xᵀr_c| / max|X|: X may not see all of r.

    r moves the logits by K r, which under a broad prior is far however small r is; √K is their standard deviation. The
    second as in `example_residual`, dearer and needed only where examples depend on each other.

    Arguments:
        X: the features of all tasks, (all tasks, n, dim).
        size: max(1, √max_n K_nn), (all tasks,).
        descent: r, (C, tasks, n).
        tasks: which of all these are.
        step: the number of Newton steps so far.
    """
    residual: Floats = np.abs(descent).max(axis=(0, 2), initial=0.0)
    if X.shape[1] > X.shape[2] or step >= _PATIENCE:
        rows = X[tasks]
        lengths = np.linalg.norm(descent.swapaxes(0, 1) @ rows, axis=2).max(axis=1)
        largest = np.maximum(np.abs(rows).max(axis=(1, 2), initial=0.0), np.finfo(np.float64).tiny)
        np.minimum(residual, lengths / largest, out=residual)
    residual *= size[tasks]
    return residual


@dataclass(frozen=True, eq=False)
class _Averaged(Likelihood):
    """The likelihood averaged over draws of the noise in the logits, with expected targets.

    What `evaluate` gives in the place of probabilities is (C, tasks, n, 1 + C): E[p], and E[diag(p) − p pᵀ].

    Arguments:
        spread: the noise, (C, draws, n, tasks), with the tasks last as the rows are then long.
    """

    spread: Floats = field(kw_only=True)

    def evaluate(self, f: Floats) -> tuple[Floats, Floats]:
        """Give E[p] and E[W], (C, tasks, n, 1 + C), and Σ_n s_n E[ln Σ_c exp(f_nc + ε_nc)] − target · f, (tasks,)."""
        assert self.offset is not None
        f = f + self.offset
        p = f.transpose(0, 2, 1)[:, None] + self.spread
        top = p.max(axis=0)
        rest = None if self.rest is None else np.ascontiguousarray(self.rest.T)
        if rest is not None:
            np.maximum(top, rest, out=top)
        p -= top
        np.maximum(p, _LEAST, out=p)
        np.exp(p, out=p)
        total = p.sum(axis=0)
        if rest is not None:
            total += np.exp(rest - top)
        p /= total
        np.log(total, out=total)
        total += top
        loss = total.mean(axis=0).T
        if self.weight is not None:
            loss = loss * self.weight
        loss = loss - np.einsum("ctn,ctn->tn", self.target, f)
        moments = np.empty((*f.shape, 1 + len(f)))
        moments[..., 0] = p.mean(axis=1).transpose(0, 2, 1)
        moments[..., 1:] = np.einsum("csnt,dsnt->cdnt", p, p).transpose(0, 3, 2, 1) / -p.shape[1]
        np.einsum("ctnc->ctn", moments[..., 1:])[:] += moments[..., 0]
        return moments, row_sums(np.ascontiguousarray(loss))

    def pull(self, p: Floats) -> Floats:
        """Give the target minus s_n E[p_nc], (C, tasks, n)."""
        return super().pull(p[..., 0])

    @staticmethod
    def hessian_product(p: Floats, weight: Floats | None, v: Floats, *, out: Floats) -> Floats:
        """Give S E[W] v, (C, tasks, n)."""
        np.einsum("ctnd,dtn->ctn", p[..., 1:], v, out=out)
        if weight is not None:
            out *= weight
        return out

    def take(self, tasks: Indices) -> Self:
        """Keep these tasks only."""
        return replace(super().take(tasks), spread=self.spread[..., tasks])
