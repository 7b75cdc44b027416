"""A user's own prior is a class with one method; this one, a generalised normal density, is not in the paper."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy.stats import gennorm

from kshot.concepts import ConceptPrior, Prior


class BridgePrior:
    """p(w) ∝ Π_j exp(−|w_j / scale|^power): between Laplace (1) and Gauss (2)."""

    def __init__(self, scale=0.1, power=1.5):  # type: ignore[no-untyped-def]
        self.scale, self.power = scale, power

    def log_prob(self, weights):  # type: ignore[no-untyped-def]
        xp = weights.__array_namespace__()
        return -(xp.abs(weights / self.scale) ** self.power).sum(axis=-1)


def test_one_method_makes_a_prior() -> None:
    assert isinstance(BridgePrior(), Prior)
    assert not isinstance(BridgePrior(), ConceptPrior)
    assert not isinstance(object(), Prior)
    assert len(inspect.getsource(BridgePrior).splitlines()) <= 15


def test_its_density_is_scipys_up_to_the_normaliser() -> None:
    weights = np.random.default_rng(0).normal(size=(5, 3))
    difference = BridgePrior().log_prob(weights) - gennorm(1.5, scale=0.1).logpdf(weights).sum(axis=1)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-12)


@pytest.mark.sample
def test_jax_differentiates_it() -> None:
    jax = pytest.importorskip("jax")
    weights = np.random.default_rng(0).normal(size=(5, 3))
    with jax.enable_x64(True):
        gradient = jax.grad(lambda w: BridgePrior().log_prob(w).sum())(jax.numpy.asarray(weights))
    expected = -1.5 * np.sign(weights) * np.abs(weights / 0.1) ** 0.5 / 0.1
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-12)
