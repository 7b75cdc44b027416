"""Priors and base weights that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kshot.concepts import (
    Cholesky,
    ConceptPrior,
    Covariance,
    Diagonal,
    GaussianPrior,
    LaplacePrior,
    MixturePrior,
    ScaledIdentity,
    StudentTPrior,
)

KINDS = ("iso", "diag", "full")


def make_covariance(kind: str, dim: int, seed: int = 0) -> Covariance:
    random = np.random.default_rng(seed)
    if kind == "iso":
        return ScaledIdentity(random.uniform(0.2, 2), dim)
    if kind == "diag":
        return Diagonal(random.uniform(0.2, 2, size=dim))
    square = random.normal(size=(dim, dim))
    return Cholesky.from_dense(square @ square.T + 0.3 * np.eye(dim))


def make_prior(name: str, dim: int, seed: int = 0) -> ConceptPrior:
    """Give a prior of a family, with parameters of no special kind."""
    random = np.random.default_rng(seed + 1)
    family, kind = name.rsplit("-", 1)
    centre = random.normal(size=dim)
    if family == "gauss":
        return GaussianPrior(centre, make_covariance(kind, dim, seed))
    if family == "student":
        return StudentTPrior(centre, make_covariance(kind, dim, seed), 7.5)
    if family == "laplace":
        return LaplacePrior(centre, random.uniform(0.3, 1, size=1 if kind == "iso" else dim) * np.ones(dim))
    covariances = tuple(make_covariance(kind, dim, seed + s) for s in range(3))
    return MixturePrior([0.2, 0.5, 0.3], 2 * random.normal(size=(3, dim)), covariances)


ALL = [f"{family}-{kind}" for family in ("gauss", "student", "mixture") for kind in KINDS]
ALL += ["laplace-iso", "laplace-diag"]


@pytest.fixture(params=ALL)
def any_prior(request: pytest.FixtureRequest) -> Callable[..., ConceptPrior]:
    """A function dim -> prior, for every family and kind of covariance in turn."""
    return lambda dim, seed=0: make_prior(request.param, dim, seed)


@pytest.fixture
def base_weights() -> np.ndarray:
    """Twenty weight vectors of six dimensions, of the size that networks have."""
    random = np.random.default_rng(3)
    return 0.05 * random.normal(size=(20, 6)) @ random.normal(size=(6, 6)) + 0.02
