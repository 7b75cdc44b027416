"""How long the priors take to fit a large network's last layer, in how much memory, and how long Table 9 takes.

Run: python benchmarks/priors.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CLASSES, DIM = 1000, 2048
FITS = {
    "gauss-iso": "kshot.GaussianPrior.fit(weights)",
    "gauss-diag": 'kshot.GaussianPrior.fit(weights, covariance="diag")',
    "gauss-full": 'kshot.GaussianPrior.fit(weights, covariance="full")',
    "student-t": "kshot.StudentTPrior.fit(weights)",
    "laplace-diag": "kshot.LaplacePrior.fit(weights)",
    "gmm-3-iso": "kshot.MixturePrior.fit(weights, components=3)",
}
# Each fit has a process of its own, so that its peak of memory is its own.
SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from priors import best_of, peak_memory
import numpy as np
import kshot
weights = (0.05 * np.random.default_rng(0).normal(size=({classes}, {dim}))).astype(np.float32)
before = peak_memory()
print(best_of({repeats}, lambda: {fit}), before, peak_memory())
"""


def best_of(repeats: int, run: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_memory() -> float:
    """Give the greatest resident memory of this process so far, in MB (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return float(found[1]) / 1024 if found else float("nan")


def main() -> None:
    print(f"fits to {CLASSES} base classes of {DIM} features (16 MB as float64), best of 3")
    print(f"{'prior':14}{'seconds':>9}{'peak MB':>9}{'of which before':>17}")
    here = str(Path(__file__).parent)
    for name, fit in FITS.items():
        script = SCRIPT.format(here=here, classes=CLASSES, dim=DIM, repeats=3, fit=fit)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        seconds, before, peak = map(float, done.stdout.split())
        print(f"{name:14}{seconds:9.3f}{peak:9.0f}{before:17.0f}")

    import numpy as np

    import kshot

    weights = 0.05 * np.random.default_rng(0).normal(size=(80, 128))
    kshot.compare_priors(weights, splits=2)  # the imports are not what is measured
    seconds = best_of(1, lambda: kshot.compare_priors(weights))
    print(f"\ncompare_priors: nine rows, 50 splits of 80 vectors in 128 dimensions: {seconds:.1f} s")


if __name__ == "__main__":
    main()
