"""Print the two tables of docs/priors.md that are computed from EfficientNet-Lite0's 1000 ImageNet weight vectors.

python scripts/prior_defaults.py

The first is why Λ₀ = (2p + 4) σ̂² I is the default of the full Gaussian; the second compares all priors on real weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import kshot

CASES = ((80, 128, 6), (80, 256, 6), (900, 1280, 1))  # vectors to fit, features, random draws


def shrinkages(p: int) -> dict[str, float]:
    """Give the values tried of m in the shrinkage (m σ̂² I + S) / (m + C̃)."""
    return {"3": 3.0, "p/2": p / 2, "p": float(p), "2p + 4": 2.0 * p + 4, "4p": 4.0 * p, "8p": 8.0 * p}


def scores(weights: NDArray[np.float64], count: int, p: int, seed: int) -> dict[str, float]:
    """Fit to `count` random vectors of `p` random features and score the others, for each shrinkage."""
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(len(weights)), random.permutation(weights.shape[1])[:p]
    fitted, held_out = weights[rows[:count]][:, columns], weights[rows[count:]][:, columns]
    variance = float(fitted.var(axis=0).mean())
    priors = {"iso": kshot.GaussianPrior.fit(fitted, covariance="iso")}
    for name, m in shrinkages(p).items():
        # m = ν₀ + p + 2 is what the hyperparameters are worth in vectors, for the joint mode.
        options = {"lambda0": m * variance, "nu0": m - p - 2, "kappa0": 0.01, "mu0": fitted.mean(axis=0)}
        priors[name] = kshot.GaussianPrior.fit(fitted, covariance="full", **options)
    return {name: -float(prior.log_prob(held_out).mean()) for name, prior in priors.items()}


def main() -> None:
    weights = np.asarray(kshot.Backbone.load("efficientnet-lite0").base_weights, np.float64)
    for count, p, draws in CASES:
        each = [scores(weights, count, p, seed) for seed in range(draws)]
        means = {name: np.mean([one[name] for one in each]) for name in each[0]}
        print(f"{count}, {p}:", "  ".join(f"{name}: {mean:.1f}" for name, mean in means.items()))
    random = np.random.default_rng(0)
    rows, columns = random.permutation(1000)[:80], random.permutation(1280)[:128]
    table = kshot.compare_priors(weights[rows][:, columns])
    print(table[["method", "neg_log_prob", "standard_error", "behind", "behind_error"]].round(2).to_string())


if __name__ == "__main__":
    main()
