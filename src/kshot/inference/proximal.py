"""MAP under a Laplace prior: Newton's method within an orthant, on the few weights that leave their location (C.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import LaplacePrior
from kshot.inference.fit import Fit
from kshot.inference.likelihood import Likelihood
from kshot.inference.tasks import Tasks

__all__ = ["TOLERANCE", "laplace_map", "shortest_subgradient"]

Floats = NDArray[np.float64]
_Moving = tuple[NDArray[np.intp], NDArray[np.intp]]  # classes and columns of the weights that take part in a step
_Point = tuple[Floats, float, Floats]  # the shifts v (C, dim), the objective there, and the probabilities (C, n)

TOLERANCE = 1e-8  # of the shortest subgradient over max(1, max|X|)
_MOST_STEPS = 500
_LONGEST = 100.0  # the most that a step may change a logit: where old classes win by far, the curvature says nothing
_FIRST = 10  # how many weights may leave their location at once, at first


def laplace_map(prior: LaplacePrior, tasks: Tasks) -> Fit:
    """Minimise −Σ_n s_n ln p(y_n | x_n, W) + Σ_cj |w_cj − μ_j| / λ_j for each task.

    A minimum is where zero is a subgradient. A task has converged when the shortest subgradient in each class's
    weights is at most 1e-8 · max(1, max|X|) long. Most weights stay exactly at μ, so each step is Newton's on those
    that do not, and those that a kink no longer holds, with their signs kept; where such a step fails, a proximal
    gradient step is taken.
    """
    fit = Fit.empty(tasks.count, tasks.ways, prior.dim)
    penalty = 1.0 / prior.scale
    for task in range(tasks.count):
        part = slice(task, task + 1)
        X = tasks.features(part, constant=prior.has_bias)
        problem = _Problem(X[0], tasks.likelihood(part, mean_logits=X @ prior.mean), penalty)
        _one_task(problem, tasks.ways, fit, task)
    fit.weights[:] += prior.location
    fit.objective[:] -= tasks.ways * prior.log_prob(prior.location)
    return fit


def shortest_subgradient(gradient: Floats, v: Floats, penalty: Floats) -> Floats:
    """Give the shortest vector of ∇ℓ(v) + ∂ Σ_j penalty_j |v_j|, the shape of v; it is zero exactly at a minimum."""
    at_kink = np.sign(gradient) * np.maximum(np.abs(gradient) - penalty, 0.0)
    return np.where(v == 0, at_kink, gradient + penalty * np.sign(v))


@dataclass(frozen=True, eq=False)
class _Problem:
    X: Floats  # (n, dim)
    likelihood: Likelihood
    penalty: Floats  # 1/λ, (dim,)

    @cached_property
    def tiny(self) -> float:
        """A curvature that rounding hides."""
        return 1e-14 * float((self.X**2).sum(axis=0).max(initial=0.0)) + 1e-300

    def largest_change(self, moving: _Moving, direction: Floats) -> float:
        """Give the largest change of a logit along a direction of the moving weights."""
        step = np.zeros((self.likelihood.target.shape[0], self.X.shape[1]))
        step[moving] = direction
        return float(np.abs(step @ self.X.T).max())

    def objective(self, v: Floats) -> tuple[float, Floats]:
        """Give the objective at v = w − μ, (C, dim), and the probabilities, (C, n)."""
        p, loss = self.likelihood.evaluate((v @ self.X.T)[:, None])
        return float(loss[0]) + float((np.abs(v) * self.penalty).sum()), p[:, 0]

    def gradient(self, p: Floats) -> Floats:
        """Give ∇ℓ, (C, dim)."""
        return -self.likelihood.pull(p[:, None])[:, 0] @ self.X

    def hessian(self, p: Floats, classes: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Give the Hessian of ℓ in the weights (classes[i], columns[i]), (m, m)."""
        weight = self.likelihood.weight
        x, q = self.X[:, columns].T, p[classes]
        own = q if weight is None else q * weight[0]
        return np.asarray(((x * own) @ x.T) * (classes[:, None] == classes) - (x * own) @ (x * q).T)


def _one_task(problem: _Problem, ways: int, fit: Fit, task: int) -> None:
    v = np.zeros((ways, problem.X.shape[1]))
    value, p = problem.objective(v)
    scale = max(1.0, float(np.abs(problem.X).max(initial=0.0)))
    allowed = _FIRST
    for step in range(_MOST_STEPS + 1):
        gradient = problem.gradient(p)
        sub = shortest_subgradient(gradient, v, problem.penalty)
        norm = float(np.linalg.norm(sub, axis=1).max())
        if norm <= TOLERANCE * scale or step == _MOST_STEPS:
            break
        moving = _working_set(v, sub, allowed)
        moved = _newton_step(problem, v, value, p, sub, moving) or _proximal_step(problem, v, value, gradient)
        if moved is None:
            break
        allowed = max(allowed, 2 * int(np.count_nonzero(moved[0])))
        v, value, p = moved
    fit.weights[task], fit.objective[task], fit.gradient_norm[task] = v, value, norm
    fit.iterations[task], fit.converged[task] = step, norm <= TOLERANCE * scale


def _working_set(v: Floats, sub: Floats, allowed: int) -> _Moving:
    """Give the classes and columns of the weights off their kink, and of the `allowed` most pressed ones on it."""
    pressed = np.where(v == 0, np.abs(sub), 0.0).ravel()
    count = min(allowed, int(np.count_nonzero(pressed)))
    members = v.ravel() != 0
    if count:
        members[np.argpartition(-pressed, count - 1)[:count]] = True
    classes, columns = np.nonzero(members.reshape(v.shape))
    return classes, columns


def _newton_step(
    problem: _Problem,
    v: Floats,
    value: float,
    p: Floats,
    sub: Floats,
    moving: _Moving,
) -> _Point | None:
    """Take Newton's step on the working set, stopped at kinks and halved until the objective falls, if it ever does."""
    at, slope = v[moving], sub[moving]
    orthant = np.where(at == 0, -np.sign(slope), np.sign(at))
    H = problem.hessian(p, *moving)
    # The ridge keeps steps finite where examples do not determine the weights, and vanishes with the gradient.
    ridge = float(H.trace()) / len(H) * min(1e-2, 1e-2 * float(np.linalg.norm(slope))) + problem.tiny
    direction = np.asarray(np.linalg.solve(H + ridge * np.eye(len(H)), -slope), dtype=np.float64)
    direction[(at == 0) & (direction * orthant < 0)] = 0.0
    length = min(1.0, _LONGEST / max(problem.largest_change(moving, direction), 1e-300))
    while length > 1e-12:
        new = at + length * direction
        new[new * orthant < 0] = 0.0
        trial = v.copy()
        trial[moving] = new
        found, q = problem.objective(trial)
        decrease = float(slope @ (new - at))
        if decrease < 0 and found <= value + 1e-4 * decrease + 1e-15 * abs(value) * len(problem.X):
            return trial, found, q
        length *= 0.5
    return None


def _proximal_step(problem: _Problem, v: Floats, value: float, gradient: Floats) -> _Point | None:
    """Take a proximal gradient step, which lowers the objective if anything does; None where rounding hides that."""
    length = 1.0 / max(0.5 * float((problem.X**2).sum()), 1e-300)
    trial = v - length * gradient
    trial = np.sign(trial) * np.maximum(np.abs(trial) - length * problem.penalty, 0.0)
    found, q = problem.objective(trial)
    return (trial, found, q) if found < value else None
