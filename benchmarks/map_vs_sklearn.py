"""MAP of 600 tasks in one call against a loop over scikit-learn's LogisticRegression; one thread each, the same run.

    python benchmarks/map_vs_sklearn.py [--tasks 600] [--repeats 15]

scikit-learn runs at its default tolerance, ours to a gradient of 1e-8 (what both reach is printed). The two take
turns, so that other work on the machine meets both alike; times are the process's own, medians over the turns.
"""

from __future__ import annotations

import argparse
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import resource  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

import numpy as np  # noqa: E402
from scipy.special import softmax  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import kshot  # noqa: E402
from kshot.concepts import ScaledIdentity  # noqa: E402

WAYS, WIDTH = 5, 256
# What the issue asks for at least, and where this run should end up well above it: shots and variance -> ratio.
FLOOR = {(1, 0.01): 70, (5, 0.01): 32, (10, 0.01): 13, (1, 100.0): 35, (5, 100.0): 7, (10, 100.0): 3}


def draw(tasks: int, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """Class centres of unit variance in each feature, and examples of unit variance about them."""
    random = np.random.default_rng(shots)
    y = np.tile(np.repeat(np.arange(WAYS), shots), (tasks, 1))
    centres = random.normal(size=(tasks, WAYS, WIDTH))
    return centres[np.arange(tasks)[:, None], y] + random.normal(size=(tasks, WAYS * shots, WIDTH)), y


def peer_gradient(model: LogisticRegression, X: np.ndarray, y: np.ndarray, variance: float) -> float:
    miss = softmax(X @ model.coef_.T, axis=1) - (y[:, None] == np.arange(WAYS))
    return float(np.abs(miss.T @ X + model.coef_ / variance).max())


def measure(X: np.ndarray, y: np.ndarray, variance: float, *, repeats: int, chunk: int) -> tuple[float, float, str]:
    """Give microseconds per task of the peer and of ours, and a remark on both gradients."""
    prior = kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(variance, WIDTH))
    ours, peers, slopes = [], [], []
    for turn in range(repeats):
        before = time.process_time()
        weights, info = kshot.fit_tasks(prior, X, y)
        assert isinstance(weights, np.ndarray)
        ours.append((time.process_time() - before) / len(X))
        rows = [(turn * chunk + i) % len(X) for i in range(chunk)]
        before = time.process_time()
        models = [LogisticRegression(C=variance, fit_intercept=False).fit(X[row], y[row]) for row in rows]
        peers.append((time.process_time() - before) / chunk)
        slopes.append(max(peer_gradient(m, X[row], y[row], variance) for m, row in zip(models, rows, strict=True)))
    assert info.converged.all()
    remark = f"gradient {np.median(slopes):.0e} | {info.gradient_norm.max():.0e}"
    return 1e6 * float(np.median(peers)), 1e6 * float(np.median(ours)), remark


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # the peer's convergence warnings
    X, y = draw(arguments.tasks, 1)
    prior = kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(0.01, WIDTH))
    before = time.perf_counter()
    kshot.fit_tasks(prior, X, y)
    first = 1e3 * (time.perf_counter() - before)
    print(f"first call, 1 shot, {arguments.tasks} tasks: {first:.0f} ms (nothing to compile)")
    print("shots  sigma^2   scikit-learn      ours   ratio   (floor)")
    for shots in (1, 5, 10):
        X, y = draw(arguments.tasks, shots)
        LogisticRegression(fit_intercept=False).fit(X[0], y[0])
        for variance in (0.01, 1.0, 100.0):
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            peer, ours, remark = measure(X, y, variance, repeats=arguments.repeats, chunk=20)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident) / 1024
            floor = FLOOR.get((shots, variance))
            memory = f"memory +{grown:.0f} MB (features {X.nbytes / 2**20:.0f} MB)"
            bar = f"({floor}x)" if floor else ""
            row = f"{shots:5}  {variance:7g}  {peer:9.0f} us  {ours:6.1f} us  {peer / ours:5.0f}x  {bar:>7}"
            print(f"{row}   {remark}   {memory}")


if __name__ == "__main__":
    main()
