"""MAP by Newton's method, for a whole batch of tasks at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kshot.inference.conjugate import newton_direction
from kshot.inference.coordinates import Coordinates
from kshot.inference.energy import HeavyTail
from kshot.inference.likelihood import Likelihood, dot, row_sums

__all__ = ["TOLERANCE", "Measure", "Minimum", "minimise"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Measure = Callable[[Floats, Indices, int], Floats]

TOLERANCE = 1e-8  # on the residual, for a task to count as converged
AIM = 1e-9  # what the steps aim at, so that weights under broad priors are exact to 1e-6 too
_FORCING = (1e-2, 0.1)  # between which the conjugate gradients of one Newton step reduce the residual
_ARMIJO = 1e-4  # the share of the predicted decrease that a step must bring
_BEYOND = 0.5  # how steeply, relative to the descent at its beginning, the objective may rise at a step's end
_SHORTEST = 1e-30  # no step so short is tried: with features of 1e8 the first steps must be very short
_NOISE = 1e-15  # a rise of the objective by this, times the size of the numbers it is summed from, is rounding


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the solver ended: u and minus the gradient there (C, tasks, r); per task objective, residual, steps."""

    point: Floats
    descent: Floats
    objective: Floats
    residual: Floats
    steps: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _State:
    """A point u with its logits f = image(u), the likelihood there, objective, and minus the gradient in u."""

    u: Floats
    f: Floats
    p: Floats
    objective: Floats
    descent: Floats

    def take(self, tasks: Indices) -> _State:
        u, f, p, descent = (a[:, tasks] for a in (self.u, self.f, self.p, self.descent))
        return _State(u, f, p, self.objective[tasks], descent)

    def put(self, tasks: Indices, new: _State) -> None:
        self.u[:, tasks], self.f[:, tasks], self.p[:, tasks] = new.u, new.f, new.p
        self.objective[tasks], self.descent[:, tasks] = new.objective, new.descent


@dataclass(frozen=True, eq=False)
class _Problem:
    coordinates: Coordinates
    likelihood: Likelihood
    energy: HeavyTail | None

    def state(self, u: Floats, f: Floats) -> _State:
        p, objective = self.likelihood.evaluate(f)
        pair = self.coordinates.pair(u, f)
        descent = self.coordinates.lift(self.likelihood.pull(p))
        if self.energy is None:
            objective += 0.5 * dot(u, pair)
            descent -= u
        else:
            length = row_sums(u * pair)
            objective += self.energy.value(length)
            descent -= self.energy.stiffness(length)[..., None] * u
        return _State(u, f, p, objective, descent)

    def bend(self, state: _State) -> tuple[Floats, Floats, Floats] | None:
        if self.energy is None:
            return None
        length = row_sums(state.u * self.coordinates.pair(state.u, state.f))[..., None]
        return state.u, self.energy.stiffness(length), self.energy.softening(length)

    def take(self, tasks: Indices) -> _Problem:
        return _Problem(self.coordinates.take(tasks), self.likelihood.take(tasks), self.energy)


# OpenBLAS's products in single precision report invalid numbers where there are none; real ones fail every comparison
# here.
@np.errstate(invalid="ignore")
def minimise(
    coordinates: Coordinates,
    likelihood: Likelihood,
    *,
    energy: HeavyTail | None = None,
    measure: Measure,
    start: Floats | None = None,
    precise: bool = False,
    tolerance: float = TOLERANCE,
    aim: float = AIM,
    max_steps: int = 100,
) -> Minimum:
    """Minimise E(w) − Σ_n s_n ln p(y_n | f_n) over the weights of each task.

    A Newton direction is found in single precision where that is safe; the step along it is taken, judged, and halved
    until the objective falls, in double precision. Tasks that have finished leave the batch: those whose residual is
    at most `aim`, or at most `tolerance` and no longer halved by a step.

    Arguments:
        coordinates: from u to logits.
        likelihood: of the logits.
        energy: E of the prior; without one it is a Gaussian's, ½ ⟨u, u⟩.
        start: where to begin, (C, tasks, r); by default all weights at their mean.
        measure: from minus the gradient in u, the indices of its tasks and the number of the step to the residual per
            task.
        precise: whether to use double precision throughout.
        tolerance: of the residual.
        aim: what the steps aim at, below the tolerance.
        max_steps: Newton's, after which a task is given up.
    """
    problem = _Problem(coordinates, likelihood, energy)
    u = coordinates.zeros(likelihood.target.shape[0]) if start is None else start
    state = problem.state(u, coordinates.image(u))
    rough, active = coordinates if precise else coordinates.single(), np.arange(state.objective.size)
    before, stuck = np.full(active.size, np.inf), np.zeros(active.size, dtype=np.bool_)
    final = Minimum(
        np.empty_like(u), np.empty_like(u), np.empty(active.size), before.copy(), np.zeros(active.size, np.int64)
    )
    for step in range(max_steps + 1):
        residual = measure(state.descent, active, step)
        done = stuck | (residual <= np.where(residual > 0.5 * before, tolerance, aim))
        going = np.flatnonzero(~done)
        if going.size <= 0.75 * active.size or step == max_steps:
            _record(final, active, state, residual)
            if going.size == 0 or step == max_steps:
                break
            active, state, problem, rough = active[going], state.take(going), problem.take(going), rough.take(going)
            residual, before = residual[going], before[going]
        final.steps[active] += 1
        # Eisenstat and Walker's rule: the better the last step did, the more exactly is the next one found.
        forcing = np.clip((residual / before) ** 2, *_FORCING)
        direction = _direction(rough, problem, state, np.maximum(forcing, 0.5 * aim / residual))
        before = residual
        state, stuck = _walk(problem, state, direction)
    return final


def _record(final: Minimum, tasks: Indices, state: _State, residual: Floats) -> None:
    final.point[:, tasks], final.descent[:, tasks] = state.u, state.descent
    final.objective[tasks], final.residual[tasks] = state.objective, residual


def _direction(rough: Coordinates, problem: _Problem, state: _State, forcing: Floats) -> Floats:
    """Find Newton's direction in the precision of `rough`."""
    cast = partial(np.asarray, dtype=rough.dtype)
    bend, weight = problem.bend(state), problem.likelihood.weight
    direction = newton_direction(
        rough,
        partial(problem.likelihood.hessian_product, cast(state.p), None if weight is None else cast(weight)),
        state.descent.astype(rough.dtype),
        forcing=cast(forcing),
        bend=None if bend is None else (cast(bend[0]), cast(bend[1]), cast(bend[2])),
    )
    return direction.astype(np.float64, copy=False)


def _walk(problem: _Problem, state: _State, direction: Floats) -> tuple[_State, NDArray[np.bool_]]:
    """Step along the direction, half as far until that is good; say also which tasks found no such step."""
    image = problem.coordinates.image(direction)
    pair = problem.coordinates.pair(direction, image)
    new = problem.state(state.u + direction, state.f + image)
    step = np.ones(len(new.objective))
    poor = np.flatnonzero(_is_poor(new, state, pair, step))
    while poor.size:
        step[poor] *= 0.5
        some, old, length = problem.take(poor), state.take(poor), step[poor, None]
        tried = some.state(old.u + length * direction[:, poor], old.f + length * image[:, poor])
        new.put(poor, tried)
        poor = poor[_is_poor(tried, old, pair[:, poor], step[poor]) & (step[poor] > _SHORTEST)]
    return new, step <= _SHORTEST


def _is_poor(new: _State, old: _State, pair: Floats, step: Floats) -> NDArray[np.bool_]:
    """Say where the objective did not fall, or the step went so far beyond the minimum that it rises steeply again.

    Both are Wolfe's conditions, up to rounding. The first alone lets steps bounce between two walls for ever: where old
    classes win by far, the curvature is that of a valley's floor on one side and of its slope on the other.
    """
    slope, slope_there = -dot(old.descent, pair), -dot(new.descent, pair)
    excess = new.objective - old.objective - _ARMIJO * step * slope
    beyond = slope_there - _BEYOND * np.abs(slope)
    poor: NDArray[np.bool_] = ~((excess <= 0) & (beyond <= 0))
    if poor.any():
        noise = _NOISE * (np.abs(old.f).max(axis=(0, 2)) * old.f.shape[2] + np.abs(old.objective))
        poor &= ~((excess <= noise) & (beyond <= noise))
    return poor
