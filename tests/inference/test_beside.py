"""Learning beside a known logit is learning beside the old classes that it comes from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import kshot
from kshot.concepts import ScaledIdentity
from kshot.inference.beside import fit_beside


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("ways", [1, 3])
def test_beside_the_old_classes_logit_the_weights_are_those_of_the_online_softmax(variance: float, ways: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 3 * ways, 7)), np.tile(np.repeat(np.arange(ways), 3), (4, 1))
    old = rng.standard_normal((6, 7))
    prior = kshot.GaussianPrior(np.zeros(7), ScaledIdentity(variance, dim=7))
    expected, _ = kshot.fit_tasks(prior, X, y, base_weights=old, ways=ways)
    found = fit_beside(variance, X, y, logsumexp(X @ old.T, axis=2))
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, variance))
