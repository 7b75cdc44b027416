"""Features of a world that the method's assumptions fit: classes are Gaussian blobs, weights lie along their means."""

from __future__ import annotations

import numpy as np
import pytest

import kshot
from kshot.experiments.result import Options


@pytest.fixture(scope="session")
def small_features() -> kshot.Features:
    random = np.random.default_rng(0)
    groups = np.repeat(["birds", "boats", "trees", "tools"], 8)
    centre = random.normal(size=(4, 12))
    base = np.repeat(centre, 8, axis=0) + 0.7 * random.normal(size=(32, 12))
    new = random.normal(size=(8, 12))
    X, base_X = (
        np.repeat(means, 30, axis=0) + 0.9 * random.normal(size=(30 * len(means), 12)) for means in (new, base)
    )
    return kshot.Features(
        X,
        np.repeat(np.arange(8), 30),
        base_weights=0.15 * base,
        base_names=[f"class {i}" for i in range(32)],
        base_X=base_X,
        base_y=np.repeat(np.arange(32), 30),
        base_groups=list(groups),
    )


@pytest.fixture
def quick() -> Options:
    return Options(shots=(1, 5), tasks=20, repeated=20, queries=5, splits=3, nuts=False)
