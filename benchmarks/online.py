"""50 new classes beside 1000 old ones, p = 1280, 5 shots: how long; and 600 tasks of 5 new classes: how much memory.

python benchmarks/online.py
"""

from __future__ import annotations

import resource
import time
import tracemalloc

import numpy as np

import kshot

OLD, WIDTH, SHOTS = 1000, 1280, 5


def main() -> None:
    random = np.random.default_rng(0)
    base = 0.06 * random.normal(size=(OLD, WIDTH))
    bias = 0.1 * random.normal(size=OLD)
    prior = kshot.GaussianPrior.fit(base, bias=bias)
    y = np.repeat(np.arange(50), SHOTS)
    X = np.maximum(random.normal(size=(50, WIDTH))[y] + random.normal(size=(250, WIDTH)), 0)
    names = [f"old {i}" for i in range(OLD)]
    for scale in (1.0, 100.0, 250_000.0):
        times = []
        for _ in range(5):
            model = kshot.KShotClassifier(prior.scaled(scale), base_weights=base, base_bias=bias, base_classes=names)
            before = time.perf_counter()
            model.fit(X, np.char.add("new ", y.astype(str)))
            times.append(time.perf_counter() - before)
        info = model.posterior_.info
        assert info.converged.all()
        variance = prior.scaled(scale).covariance.diagonal()[0]
        print(
            f"50 classes beside {OLD}, sigma^2 = {variance:.3g}: {np.median(times):.3f} s (bar: 1 s), "
            f"{info.iterations[0]} Newton steps, gradient {info.gradient_norm[0]:.0e}"
        )
    y = np.tile(np.repeat(np.arange(5), SHOTS), (600, 1))
    X = np.maximum(random.normal(size=(600, 25, WIDTH)), 0).astype(np.float32)
    tracemalloc.start()
    before = time.perf_counter()
    _, info = kshot.fit_tasks(prior.scaled(100.0), X, y, base_weights=base, base_bias=bias)
    seconds = time.perf_counter() - before
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    assert info.converged.all()
    print(
        f"600 tasks of 5 beside {OLD}: {seconds:.2f} s, {peak:.0f} MB beyond the features' {X.nbytes / 2**20:.0f} MB; "
        f"their logits of all old classes at once would be {600 * 25 * OLD * 8 / 2**20:.0f} MB; "
        f"largest process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
