"""One `KShotClassifier.fit` of 25 examples against one `LogisticRegression.fit`: warm, and the first in a new process.

    python benchmarks/estimator.py

The first fit of each runs in a process of its own, timed with and without the import of its class; NumPy and
scikit-learn's base are loaded before for both, because every user of either has them.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

import kshot
from kshot.concepts import ScaledIdentity

WIDTH, SIGMA2 = 1280, 0.004

FIRST = """
import time
import numpy as np, sklearn.base
random = np.random.default_rng(0)
X, y = random.normal(size=(25, 1280)) + np.repeat(random.normal(size=(5, 1280)), 5, axis=0), np.repeat(np.arange(5), 5)
start = time.perf_counter()
{imports}
between = time.perf_counter()
{fit}
end = time.perf_counter()
print(end - between, end - start)
"""
OURS = FIRST.format(
    imports="import kshot; from kshot import KShotClassifier; from kshot.concepts import ScaledIdentity",
    fit=f"KShotClassifier(kshot.GaussianPrior(np.zeros(1280), ScaledIdentity({SIGMA2}, dim=1280))).fit(X, y)",
)
PEER = FIRST.format(
    imports="from sklearn.linear_model import LogisticRegression",
    fit=f"LogisticRegression(C={SIGMA2}, fit_intercept=False).fit(X, y)",
)


def first(code: str) -> list[float]:
    """Give the seconds of the first fit, without and with imports."""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return [float(number) for number in output.split()]


def main() -> None:
    warnings.simplefilter("ignore")
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 5)
    X = random.normal(size=(25, WIDTH)) + random.normal(size=(5, WIDTH))[y]
    prior = kshot.GaussianPrior(np.zeros(WIDTH), ScaledIdentity(SIGMA2, WIDTH))
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(60):
        before = time.perf_counter()
        model = kshot.KShotClassifier(prior).fit(X, y)
        between = time.perf_counter()
        peer = LogisticRegression(C=SIGMA2, fit_intercept=False).fit(X, y)
        times["ours"].append(between - before)
        times["peer"].append(time.perf_counter() - between)
    assert np.abs(model.predict_proba(X) - peer.predict_proba(X)).max() < 1e-2
    ours, theirs = (1e3 * float(np.median(times[name])) for name in ("ours", "peer"))
    print(f"one fit, 25 examples, p = {WIDTH}: scikit-learn {theirs:.2f} ms, ours {ours:.2f} ms, {theirs / ours:.0f}x")
    turns = np.array([(first(PEER), first(OURS)) for _ in range(9)])
    for column, name in enumerate(("first fit in a process", "first fit and import")):
        theirs, ours = 1e3 * np.median(turns[:, :, column], axis=0)
        print(f"{name}: scikit-learn {theirs:.1f} ms, ours {ours:.1f} ms, {theirs / ours:.1f}x")


if __name__ == "__main__":
    main()
