"""How long the Laplace approximation takes for 600 tasks, beside MAP, and how far its predictions are from NUTS.

Run: python benchmarks/laplace.py              (time)
     python benchmarks/laplace.py --accuracy   (distance to NUTS; needs the extra `sample`, takes minutes)
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import kshot
from kshot.concepts import ScaledIdentity
from kshot.inference import LaplaceApproximation

TASKS, WAYS, QUERIES = 600, 5, 75


def draw_tasks(count: int, shots: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rectified features of overlapping classes: X (tasks, n, p), y (tasks, n), queries (tasks, 75, p)."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(count, WAYS, dim))
    y = np.tile(np.repeat(np.arange(WAYS), shots), (count, 1))
    y_query = np.tile(np.repeat(np.arange(WAYS), QUERIES // WAYS), (count, 1))

    def features(labels: np.ndarray) -> np.ndarray:
        noise = 1.5 * random.normal(size=(*labels.shape, dim))
        return np.maximum(np.take_along_axis(centres, labels[..., None], axis=1) + noise, 0.0)

    return features(y), y, features(y_query)


def times() -> None:
    print(f"{TASKS} tasks, {WAYS}-way, {QUERIES} queries each, one thread: seconds, best of 3")
    print(f"{'p':>5}{'shots':>7}{'map':>9}{'laplace':>9}{'probit':>9}")
    for dim in (128, 256):
        prior = kshot.GaussianPrior(np.zeros(dim), ScaledIdentity(0.02, dim))
        for shots in (1, 5, 10):
            X, y, queries = draw_tasks(TASKS, shots, dim)
            best = {}
            for name, method in (
                ("map", "map"),
                ("laplace", "laplace"),
                ("probit", LaplaceApproximation(predictive="probit")),
            ):
                seconds = []
                for _ in range(3):
                    start = time.perf_counter()
                    kshot.fit_tasks(prior, X, y, inference=method, X_query=queries)  # type: ignore[arg-type]
                    seconds.append(time.perf_counter() - start)
                best[name] = min(seconds)
            print(f"{dim:5}{shots:7}{best['map']:9.2f}{best['laplace']:9.2f}{best['probit']:9.2f}", flush=True)


def accuracy(tasks: int) -> None:
    from kshot.inference import NUTS

    dim = 128
    print(
        "mean total variation distance to NUTS; K is the mean prior variance of a logit, ESS the fewest effective draws"
    )
    print(f"{'shots':>5}{'K':>7}{'ESS':>7}{'map':>8}{'laplace':>9}{'about MAP':>11}{'probit':>8}")
    for shots in (1, 5, 10):
        X, y, queries = draw_tasks(tasks, shots, dim)
        for variance in (0.001, 0.005, 0.02, 0.1, 0.5):
            prior = kshot.GaussianPrior(np.zeros(dim), ScaledIdentity(variance, dim))
            exact = kshot.fit_tasks(prior, X, y, inference=NUTS(chains=2, warmup=500, draws=3000), X_query=queries)[1]
            row = []
            for method in (
                "map",
                LaplaceApproximation(samples=4096),
                LaplaceApproximation(samples=4096, centre="map"),
                LaplaceApproximation(predictive="probit"),
            ):
                proba = kshot.fit_tasks(prior, X, y, inference=method, X_query=queries)[1].proba  # type: ignore[arg-type]
                row.append(0.5 * np.abs(proba - exact.proba).sum(axis=2).mean())  # type: ignore[operator]
            kernel = variance * (X**2).sum(axis=2).mean()
            print(
                f"{shots:5}{kernel:7.1f}{exact.diagnostics['ess'].min():7.0f}"
                f"{row[0]:8.4f}{row[1]:9.4f}{row[2]:11.4f}{row[3]:8.4f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--tasks", type=int, default=4)
    options = parser.parse_args()
    if options.accuracy:
        accuracy(options.tasks)
    else:
        times()


if __name__ == "__main__":
    main()
