"""inference="nuts": draws from the posterior by the No-U-Turn sampler (Appendix B of the paper), on all cores.

blackjax's NUTS with window adaptation, in the reduced coordinates of `reduction.py`. JAX's programs run outside
Python's lock, so a thread per core is enough, and all share one compilation per shape.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import Prior
from kshot.errors import MissingExtraError
from kshot.inference.diagnostics import effective_sample_size, split_rhat, warn_if_poor
from kshot.inference.draws import DrawnPosterior, reduce_task
from kshot.inference.integrator import turn_and_kick
from kshot.inference.maximum import solve, split_bias
from kshot.inference.padding import padded, unpadded
from kshot.inference.posterior import Info
from kshot.inference.progress import Progress
from kshot.inference.settings import NUTS
from kshot.inference.targets import check_traceable, log_density
from kshot.inference.tasks import Tasks

try:
    import blackjax
    import jax
except ImportError:
    raise MissingExtraError("sampling", "JAX and blackjax", extra="sample") from None

__all__ = ["infer"]

Floats = NDArray[np.float64]

_KEPT_BYTES = 512 * 2**20  # of coordinates, over all tasks; where there are more they are thinned


def infer(
    prior: Prior, tasks: Tasks, *, temperature: Floats, random_state: int, settings: NUTS | None = None
) -> DrawnPosterior:
    """Draw from each task's posterior; `weights` is the posterior mean.

    In `info`, `converged` says whether the draws are good, `iterations` counts leapfrog steps after warm-up,
    `objective` is that of the mean, and there is no gradient; `diagnostics` has per task the largest R-hat and the
    smallest effective sample size of a coordinate, and the divergences.
    """
    sampler = _Sampler.of(prior, tasks, settings or NUTS(), random_state)
    found = _all_tasks(sampler)
    means = np.stack([draws.mean for draws in found])
    weights, intercept = split_bias(means, has_bias=getattr(prior, "has_bias", False))
    diagnostics: dict[str, Any] = {
        "rhat": np.array([draws.rhat for draws in found]),
        "ess": np.array([draws.ess for draws in found]),
        "divergences": np.array([draws.divergences for draws in found]),
        "thinning": sampler.thinning,
    }
    info = Info(
        converged=warn_if_poor(diagnostics, chains=sampler.settings.chains),
        iterations=np.array([draws.steps for draws in found]),
        gradient_norm=np.full(tasks.count, np.nan),
        objective=np.array([_objective(prior, tasks, task, mean) for task, mean in enumerate(means)]),
        intercept=intercept,
        diagnostics=MappingProxyType(diagnostics),
    )
    return DrawnPosterior(weights, info, temperature, prior, tasks, [draws.q for draws in found], random_state)


def _all_tasks(sampler: _Sampler) -> list[_Draws]:
    """Sample all tasks, as many at a time as there are cores; the answers do not depend on how many that is."""
    count = sampler.tasks.count
    jobs = min(count, sampler.settings.jobs or _cores())
    with Progress("sampling", count, shown=sampler.settings.progress) as progress, ThreadPoolExecutor(jobs) as pool:
        found = {0: sampler(0)}  # the first compiles; the others then find the program
        progress.advance()
        futures = {pool.submit(sampler, task): task for task in range(1, count)}
        try:
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                progress.advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[task] for task in range(count)]


@dataclass(frozen=True, eq=False)
class _Draws:
    """What is kept of one task's chains."""

    q: NDArray[np.float32]
    mean: Floats
    rhat: float
    ess: float
    divergences: int
    steps: int


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Sample one task: `sampler(task)`.

    Arguments:
        starts: where the chains of a user's prior start, (tasks, C, dim): the MAP, as no other place is safe in a
            density known by its values only. None for the library's priors.
        thinning: one in so many draws is kept.
    """

    prior: Prior
    tasks: Tasks
    settings: NUTS
    random_state: int
    starts: Floats | None
    thinning: int

    @classmethod
    def of(cls, prior: Prior, tasks: Tasks, settings: NUTS, random_state: int) -> _Sampler:
        """Prepare: check a user's prior and find where its chains start."""
        first, starts = reduce_task(prior, tasks, 0), None
        if first.family == "own":
            with jax.enable_x64(True):
                check_traceable(prior, first.columns)
            starts = solve(prior, tasks).weights
        total = 4 * tasks.count * settings.chains * settings.draws * first.rows * first.columns
        return cls(prior, tasks, settings, random_state, starts, min(-(-total // _KEPT_BYTES) or 1, settings.draws))

    def __call__(self, task: int) -> _Draws:
        settings, random = self.settings, np.random.default_rng([self.random_state, task, 0])
        reduction = reduce_task(self.prior, self.tasks, task)
        if self.starts is None:
            start = reduction.start(random, settings.chains)
        else:
            start = np.repeat(self.starts[task : task + 1], settings.chains, axis=0)
        data, start = padded(
            reduction, self.tasks.likelihood(slice(task, task + 1)), start, dim=self.tasks.X.shape[2] + 1
        )
        own = _ByIdentity(self.prior) if reduction.family == "own" else None
        shape = (settings.warmup, settings.draws, settings.target_accept, settings.max_depth)
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(int(random.integers(2**31))), settings.chains)
            found = _chains(keys, start, data, reduction.family, own, *shape)
            q, divergent, steps = (np.asarray(array) for array in found)
        q = unpadded(q, reduction)
        return _Draws(
            q=_joined(q[:, :: self.thinning]).astype(np.float32),
            mean=reduction.mean_weights(_joined(q)),
            rhat=float(split_rhat(q).max(initial=1.0)),
            ess=float(effective_sample_size(q).min(initial=np.prod(q.shape[:2]))),
            divergences=int(divergent.sum()),
            steps=int(steps.sum()),
        )


class _ByIdentity:
    """A user's prior as a key of JAX's cache of programs: the same object is the same program."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior

    def __hash__(self) -> int:
        return id(self.prior)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.prior is other.prior


@partial(jax.jit, static_argnums=(3, 4, 5, 6, 7, 8))
def _chains(
    keys: Any,
    starts: Any,
    data: dict[str, Any],
    family: str,
    own: _ByIdentity | None,
    warmup: int,
    draws: int,
    target_accept: float,
    max_depth: int,
) -> Any:
    """Run the chains in turn: q (chains, draws, rows, columns), divergences and leapfrog steps (chains, draws)."""

    def density(q: Any) -> Any:
        return log_density(q, data, family, None if own is None else own.prior)

    # The library's coordinates are white, but for a Student-t's scale; of a user's prior nothing is known.
    stiffness = np.full(starts.shape[1:], float(own is None))
    stiffness[:, starts.shape[2] - (family == "student-t") :] = 0.0
    integrator = partial(turn_and_kick, stiffness=stiffness)
    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        density,
        target_acceptance_rate=target_accept,
        adaptation_info_fn=lambda *_: None,
        integrator=integrator,
        max_num_doublings=max_depth,
    )
    kernel = blackjax.nuts.build_kernel(integrator)

    def chain(key_and_start: tuple[Any, Any]) -> Any:
        warm_key, draw_key = jax.random.split(key_and_start[0])
        (state, tuned), _ = adaptation.run(warm_key, key_and_start[1], warmup)

        def step(state: Any, key: Any) -> tuple[Any, Any]:
            state, info = kernel(key, state, density, tuned["step_size"], tuned["inverse_mass_matrix"], max_depth)
            return state, (state.position, info.is_divergent, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(draw_key, draws))[1]

    # Side by side (vmap) every chain would wait for the longest trajectory of each step, and compile twice as long.
    return jax.lax.map(chain, (keys, starts))


def _joined(q: Floats) -> Floats:
    """Put the chains one after another, (chains, draws, rows, columns) -> (chains · draws, rows, columns)."""
    return q.reshape(q.shape[0] * q.shape[1], *q.shape[2:])


def _objective(prior: Prior, tasks: Tasks, task: int, weights: Floats) -> float:
    """Give −ln p(W) − Σ_n s_n ln p(y_n | x_n, W), for weights (C, dim)."""
    part = slice(task, task + 1)
    X = tasks.features(part, constant=bool(getattr(prior, "has_bias", False)))[0]
    _, loss = tasks.likelihood(part).evaluate((weights @ X.T)[:, None, :])
    return float(loss[0] - np.asarray(prior.log_prob(weights)).sum())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
