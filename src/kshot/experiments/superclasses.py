"""The hyperparameters of the mixture over superclasses, "GMM (supercl.)", which `compare_priors` does not know."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import MixturePrior
from kshot.concepts.evidence import Splits
from kshot.datasets.cifar100_classes import MERGED_9
from kshot.features import Features

__all__ = ["best_superclasses", "merged_superclasses"]

HELD_OUT = 10
KAPPAS = (0.3, 1.0, 3.0, 10.0)
STRENGTHS = (1.0, 3.0, 10.0, 30.0)


def merged_superclasses(features: Features) -> list[str]:
    """Give each base class's group: CIFAR-100's 20 superclasses merged into the paper's 9 (C.2), others as they are."""
    assert features.base_groups is not None
    return [MERGED_9.get(str(group), str(group)) for group in features.base_groups]


def best_superclasses(features: Features, *, splits: int, seed: int) -> tuple[NDArray[np.float64], dict[str, float]]:
    """Choose κ₀, ν₀ and λ₀ by the probability of held-out base weights, on the splits of `compare_priors`.

    A group's mean is pulled to zero as by κ₀ vectors, and its variance to the common σ̂² as by m vectors:
    ν₀ = m p − (p + 2) and λ₀ = m p σ̂². κ₀ and m come from a small grid.

    Returns the negative log probabilities (splits, held_out), and the hyperparameters.
    """
    weights = features.base_weights
    assert weights is not None
    groups, p = np.array(merged_superclasses(features)), weights.shape[1]
    variance = float(weights.var(axis=0).mean())
    drawn = Splits.draw(weights, splits=splits, held_out=HELD_OUT, seed=seed)
    tried = []
    for kappa0, m in itertools.product(KAPPAS, STRENGTHS):
        chosen = {"mu0": 0.0, "kappa0": kappa0, "nu0": m * p - (p + 2), "lambda0": m * p * variance}
        values = []
        for order in drawn.order:
            held, kept = order[:HELD_OUT], order[HELD_OUT:]
            values.append(-MixturePrior.fit(weights[kept], groups=groups[kept], **chosen).log_prob(weights[held]))
        tried.append((np.stack(values), chosen))
    return min(tried, key=lambda each: float(each[0].mean()))
