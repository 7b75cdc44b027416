"""How many effective draws a second NUTS gives in reduced coordinates, against the raw p × C weights.

Run: python benchmarks/nuts.py            (the comparison, about a minute)
     python benchmarks/nuts.py --protocol (200 tasks × 1, 5 and 10 shots, two chains of 500 + 500 draws each)
Needs the extra `sample`. Both samplers have the same target, the same code for the likelihood and its gradient, and the
same adaptation; what differs are the coordinates, and the integrator that they allow.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import kshot
from kshot.concepts import ScaledIdentity
from kshot.inference import NUTS, SamplingWarning
from kshot.inference.diagnostics import effective_sample_size
from kshot.inference.draws import reduce_task
from kshot.inference.nuts import _Sampler
from kshot.inference.tasks import Tasks

DIM, WAYS, QUERIES = 128, 5, 75


class Raw:
    """The same Gaussian as a user's prior would be given: NUTS then samples all p × C weights."""

    def __init__(self, prior: kshot.GaussianPrior) -> None:
        self.prior = prior

    def log_prob(self, weights: object, /) -> object:
        """Give the log density of each row."""
        return self.prior.log_prob(weights)


def draw_tasks(count: int, shots: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rectified features of overlapping classes: X (tasks, n, p), y (tasks, n), queries (tasks, 75, p)."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(count, WAYS, DIM))
    y = np.tile(np.repeat(np.arange(WAYS), shots), (count, 1))
    y_query = np.tile(np.repeat(np.arange(WAYS), QUERIES // WAYS), (count, 1))

    def features(labels: np.ndarray) -> np.ndarray:
        noise = 1.5 * random.normal(size=(*labels.shape, DIM))
        return np.maximum(np.take_along_axis(centres, labels[..., None], axis=1) + noise, 0.0)

    return features(y), y, features(y_query)


def effective_draws(weights: np.ndarray, X: np.ndarray, chains: int) -> float:
    """Give the smallest effective sample size of a logit less the classes' mean, at features X.

    The support's logits are what the data tell of, and both samplers explore them. A query's logit has a part besides
    that the data do not touch. In reduced coordinates it is drawn independently: exact, but NUTS on the raw weights
    draws it better than independently (successive draws are anticorrelated), so that the ratio is lower there.
    """
    logits = weights @ X.T  # (draws, C, n)
    logits -= logits.mean(axis=1, keepdims=True)
    return float(effective_sample_size(logits.reshape(chains, -1, *logits.shape[1:])).min())


def compare(variance: float, settings: NUTS, *, repeats: int = 5) -> None:
    prior = kshot.GaussianPrior(np.zeros(DIM), ScaledIdentity(variance, DIM))
    raw = Raw(prior)
    for shots in (1, 5, 10):
        X, y, queries = draw_tasks(repeats + 1, shots)
        speeds: dict[str, list[tuple[float, float]]] = {"reduced": [], "raw": []}
        for task in range(repeats + 1):  # interleaved; the first compiles and is not counted
            for name, density in (("reduced", prior), ("raw", raw)):
                tasks = Tasks.check(X[task : task + 1], y[task : task + 1])
                sampler = _Sampler.of(density, tasks, settings, task)  # finds the mode for `raw`: not counted
                start = time.process_time()
                draws = sampler(0)
                seconds = time.process_time() - start
                if task:
                    weights = reduce_task(density, tasks, 0).weights(draws.q.astype(float), np.random.default_rng(0))
                    at_support, at_queries = (effective_draws(weights, Z[task], settings.chains) for Z in (X, queries))
                    speeds[name].append((at_support / seconds, at_queries / seconds))
        reduced, raw_speed = (np.mean(speeds[name], axis=0) for name in ("reduced", "raw"))
        ratios = reduced / raw_speed
        print(
            f"{variance:8}{shots:7}{reduced[0]:12.0f}{raw_speed[0]:8.0f}{ratios[0]:7.1f}x"
            f"{reduced[1]:14.0f}{raw_speed[1]:8.0f}{ratios[1]:7.1f}x",
            flush=True,
        )


def peak_memory() -> float:
    """Give the greatest resident memory of this process so far, in MB (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return float(found[1]) / 1024 if found else float("nan")


def protocol(variance: float, tasks: int) -> None:
    prior = kshot.GaussianPrior(np.zeros(DIM), ScaledIdentity(variance, DIM))
    total, divergent, good = 0.0, 0, 0
    for shots in (1, 5, 10):
        X, y, queries = draw_tasks(tasks, shots)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            _, info = kshot.fit_tasks(prior, X, y, inference=NUTS(chains=2), X_query=queries)
        seconds = time.perf_counter() - start
        total += seconds
        divergent += int((info.diagnostics["divergences"] > 0).sum())
        good += int(info.converged.sum())
        effective = np.median(info.diagnostics["ess"])
        print(f"{shots:3} shots: {seconds:6.1f} s, effective draws {effective:.0f} (median of tasks)", flush=True)
    print(f"{3 * tasks} tasks in {total:.0f} s, compilation included; {divergent} had a divergence, {good} are good")
    print(f"peak memory {peak_memory():.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", action="store_true")
    parser.add_argument("--tasks", type=int, default=200)
    options = parser.parse_args()
    print(f"jax {jax.__version__}, p = {DIM}, {WAYS}-way")
    if options.protocol:
        protocol(0.02, options.tasks)
        return
    print("effective draws per second of CPU time; logits of the support, and of queries")
    print(f"{'variance':>8}{'shots':>7}{'reduced':>12}{'raw':>8}{'ratio':>8}{'reduced':>14}{'raw':>8}{'ratio':>8}")
    for variance in (0.005, 0.02, 0.1):
        compare(variance, NUTS(chains=2))


if __name__ == "__main__":
    main()
