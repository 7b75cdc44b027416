"""EM for a mixture of Gaussians, through scikit-learn, in units in which the base weights have variance one (C.2)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.concepts.covariance import Cholesky, Covariance, CovarianceKind, Diagonal, Floats, ScaledIdentity
from kshot.errors import UserError

__all__ = ["cluster", "few_threads", "fit_em", "standardise"]

Mixture: TypeAlias = tuple[Floats, Floats, tuple[Covariance, ...]]
_SKLEARN_NAME = {"iso": "spherical", "diag": "diag", "full": "full"}


def few_threads(dim: int) -> AbstractContextManager[Any]:
    """Give a context with one BLAS thread for matrices so small that several would mostly wait for each other."""
    # Only libraries that are loaded can be limited, and SciPy brings a BLAS of its own.
    import sklearn.cluster
    import sklearn.mixture  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1) if dim <= 512 else nullcontext()


def fit_em(
    vectors: Floats,
    components: int,
    kind: CovarianceKind,
    *,
    has_bias: bool,
    regularisation: float,
    seed: int,
    labels: NDArray[np.intp] | None = None,
) -> Mixture:
    """Give proportions (S,), means (S, dim) and covariances; `labels` (n,) are `cluster`'s, where it has run before."""
    if not (np.isfinite(regularisation) and regularisation > 0):
        raise UserError(f"regularisation must be a positive fraction of the variance, and it is {regularisation}")
    standard, units = standardise(vectors, has_bias=has_bias)
    # An isotropic component has one σ for the weights, in which a bias has no part: it is added afterwards.
    apart = has_bias and kind == "iso"
    if apart:
        standard, bias = standard[:, :-1], standard[:, -1]
    if labels is None:
        labels = cluster(standard, components, seed=seed)
    model = _run(standard, labels, components, kind, regularisation)
    means, covariances = model.means_, model.covariances_
    if apart:
        shares = model.predict_proba(standard)
        bias_means, bias_variances = _follow(shares, bias, regularisation)
        means = np.column_stack([means, bias_means])
        covariances = np.column_stack([np.repeat(covariances[:, None], standard.shape[1], axis=1), bias_variances])
    return model.weights_, vectors.mean(axis=0) + means * units, tuple(_restore(c, units, kind) for c in covariances)


def cluster(vectors: Floats, components: int, *, seed: int) -> NDArray[np.intp]:
    """Give the k-means cluster of each vector, (n,): the best of ten runs."""
    from sklearn.cluster import KMeans

    distinct = len(np.unique(vectors, axis=0))
    if not 1 <= components <= distinct:
        raise UserError(
            f"components must lie between 1 and the number of distinct vectors in base_weights, {distinct}, and it is "
            f"{components}"
        )
    labels: NDArray[np.intp] = KMeans(components, n_init=10, random_state=seed).fit(vectors).labels_
    return labels


def standardise(vectors: Floats, *, has_bias: bool) -> tuple[Floats, Floats]:
    """Give the vectors with mean zero in units (dim,) of the weights' root mean variance, the bias in its own."""
    units: Floats = vectors.std(axis=0)
    p = vectors.shape[1] - has_bias
    units[:p] = np.sqrt((units[:p] ** 2).mean())
    return (vectors - vectors.mean(axis=0)) / units, units


def _run(
    standard: Floats, labels: NDArray[np.intp], components: int, kind: CovarianceKind, regularisation: float
) -> Any:
    """Run EM from the clusters' own moments to convergence, and give the fitted `GaussianMixture`."""
    from sklearn.mixture import GaussianMixture

    clusters = [standard[labels == s] for s in range(components)]
    model = GaussianMixture(
        components,
        covariance_type=_SKLEARN_NAME[kind],
        reg_covar=regularisation,
        max_iter=1000,
        weights_init=np.array([len(members) for members in clusters]) / len(standard),
        means_init=np.stack([members.mean(axis=0) for members in clusters]),
        precisions_init=np.stack([_precision(members, kind, regularisation) for members in clusters]),
    )
    return model.fit(standard)


def _precision(members: Floats, kind: CovarianceKind, regularisation: float) -> Floats:
    """Give the inverse of a cluster's regularised covariance: (), (dim,) or (dim, dim)."""
    if kind == "full":
        covariance = np.cov(members, rowvar=False, bias=True).reshape(members.shape[1], -1)
        inverse = np.linalg.inv(covariance + regularisation * np.eye(members.shape[1]))
        return np.asarray(inverse + inverse.T) / 2  # scikit-learn refuses a precision that rounding made asymmetric
    variances = members.var(axis=0) + regularisation
    return np.asarray(1 / (variances.mean() if kind == "iso" else variances))


def _follow(shares: Floats, bias: Floats, regularisation: float) -> tuple[Floats, Floats]:
    """Give the bias' mean and variance in each component, (S,) each: the M-step for one more coordinate."""
    mass = shares.sum(axis=0)
    means = shares.T @ bias / mass
    return means, (shares * (bias[:, None] - means) ** 2).sum(axis=0) / mass + regularisation


def _restore(covariance: Any, units: Floats, kind: CovarianceKind) -> Covariance:
    """Give a component's covariance in the units of the base weights."""
    if np.ndim(covariance) == 0:
        return ScaledIdentity(float(covariance) * units[0] ** 2, units.size)
    if kind == "full":
        return Cholesky.from_dense(covariance * np.outer(units, units))
    return Diagonal(covariance * units**2)
