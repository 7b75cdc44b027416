"""The mixture of Gaussians, by EM or by given groups of classes: Appendix C.2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts.base import ConceptPrior
from kshot.concepts.checks import as_vectors, as_weights, check_choice, check_finite, check_varies, generator
from kshot.concepts.covariance import Array, Covariance, CovarianceKind, Floats, read_only
from kshot.concepts.gaussian import GaussianPrior, fit_vectors
from kshot.errors import UserError

__all__ = ["MixturePrior"]


@dataclass(frozen=True, eq=False, repr=False)
class MixturePrior(ConceptPrior):
    r"""A mixture of S Gaussians, Eq. (13).

    .. math:: p(w) = Σ_s π_s N(w | μ_s, Σ_s)

    Arguments:
        proportions: π, (S,), positive, of sum one.
        means: μ, (S, dim).
        covariances: Σ_1, ..., Σ_S, all of one kind.
        has_bias: whether the last coordinate is the bias.

    Example:
        >>> prior = MixturePrior.fit([[0.0], [1.0], [10.0], [14.0]], groups=["near", "near", "far", "far"])
        >>> prior.means.ravel(), prior.covariances[0].variance
        (array([12. ,  0.5]), 4.0)
    """

    proportions: Floats
    means: Floats
    covariances: tuple[Covariance, ...]
    has_bias: bool = False

    family: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        proportions, means = read_only(self.proportions), read_only(self.means)
        object.__setattr__(self, "proportions", proportions)
        object.__setattr__(self, "means", means)
        check_finite(means, "means")
        object.__setattr__(self, "covariances", tuple(self.covariances))
        kinds = {(c.kind, c.dim) for c in self.covariances}
        if proportions.ndim != 1 or means.ndim != 2 or len({proportions.size, len(means), len(self.covariances)}) != 1:
            raise UserError("proportions, means and covariances must have one entry per component, at least one")
        if len(kinds) != 1 or self.covariances[0].dim != means.shape[1]:
            raise UserError("covariances must all be of one kind, with as many dimensions as the means")
        if not ((proportions > 0).all() and abs(proportions.sum() - 1) < 1e-6):
            raise UserError(f"proportions must be positive and of sum one, and they are {proportions}")

    @classmethod
    def fit(
        cls,
        base_weights: ArrayLike,
        *,
        components: int = 3,
        covariance: CovarianceKind = "iso",
        groups: ArrayLike | Sequence[object] | None = None,
        bias: ArrayLike | None = None,
        regularisation: float | None = None,
        seed: int = 0,
        **hyperparameters: Any,
    ) -> MixturePrior:
        """Fit by EM (scikit-learn's `GaussianMixture`), or with `groups` one Gaussian to each given group (C.2).

        Arguments:
            base_weights: W̃, one row per base class, (C̃, p).
            components: S, the number of Gaussians that EM fits; not used with `groups`.
            covariance: "iso" (each component its own σ_s² I), "diag" or "full".
            groups: a label per base class, such as its superclass, (C̃,). Each group is fitted as `GaussianPrior.fit`
                does (C.1), with its share of the base classes as its proportion.
            bias: the base layer's biases, (C̃,): one more weight, the last coordinate, with its own mean and variance
                in each component. With iso covariances EM sees the weights only, and the bias follows its components.
            regularisation: what EM adds to each variance, as a fraction of the mean variance of the base weights (for
                the bias, of the biases), so that a component of few vectors keeps a density. scikit-learn's own is an
                absolute 1e-6, which means nothing to weights whose variance may be 1e-3. By default 0.01; for full
                covariances S p / C̃, at most 1 and at least 0.01: with fewer vectors than dimensions in a component,
                most directions have no variance but this. Not with `groups`: those take `lambda0`.
            seed: for the k-means from whose best of ten runs EM starts.
            hyperparameters: mu0, kappa0, lambda0, nu0 of each group, see `GaussianPrior.fit`; only with `groups`.
        """
        check_choice(covariance, "covariance", ("iso", "diag", "full"))
        vectors = as_vectors(base_weights, bias)
        check_varies(vectors, has_bias=bias is not None, lambda0=hyperparameters.get("lambda0"))
        if groups is not None:
            if regularisation is not None:
                raise UserError(
                    "regularisation: groups are fitted without EM, which it is for; give lambda0, or leave it out"
                )
            return _fit_groups(vectors, groups, covariance, has_bias=bias is not None, **hyperparameters)
        if hyperparameters:
            raise UserError(f"{', '.join(hyperparameters)}: EM takes no such argument; give groups, or leave it out")
        from kshot.concepts.em import few_threads, fit_em

        if regularisation is None:
            ratio = components * vectors.shape[1] / len(vectors)
            regularisation = min(max(ratio, 0.01), 1.0) if covariance == "full" else 0.01
        with few_threads(vectors.shape[1]):
            mixture = fit_em(
                vectors, components, covariance, has_bias=bias is not None, regularisation=regularisation, seed=seed
            )
        return cls(*mixture, bias is not None)

    @cached_property
    def _gaussians(self) -> tuple[GaussianPrior, ...]:
        return tuple(
            GaussianPrior(mean, covariance) for mean, covariance in zip(self.means, self.covariances, strict=True)
        )

    @cached_property
    def mean(self) -> Floats:
        """Σ_s π_s μ_s, (dim,)."""
        return read_only(self.proportions @ self.means)

    def component_log_prob(self, weights: Array) -> Array:
        """Give ln π_s + ln N(w | μ_s, Σ_s) for each row and component, (..., dim) -> (..., S)."""
        weights = as_weights(weights, self.means.shape[1])
        xp = weights.__array_namespace__()
        return xp.stack([g.log_prob(weights) for g in self._gaussians], axis=-1) + np.log(self.proportions)

    def responsibilities(self, weights: Array) -> Array:
        """Give each component's posterior probability for each row, (..., dim) -> (..., S)."""
        joint = self.component_log_prob(weights)
        xp = joint.__array_namespace__()
        likelihood = xp.exp(joint - xp.max(joint, axis=-1, keepdims=True))
        return likelihood / likelihood.sum(axis=-1, keepdims=True)

    def log_prob(self, weights: Array) -> Array:
        """Give ln Σ_s π_s N(w | μ_s, Σ_s) of each row, (..., dim) -> (...)."""
        joint = self.component_log_prob(weights)
        xp = joint.__array_namespace__()
        most = xp.max(joint, axis=-1, keepdims=True)  # taken out, so that no exponential overflows
        return most[..., 0] + xp.log(xp.exp(joint - most).sum(axis=-1))

    def grad_log_prob(self, weights: Array) -> Array:
        """Give Σ_s r_s(w) (μ_s − w) Σ_s⁻¹ of each row, r the responsibilities; (..., dim) -> (..., dim)."""
        shares = self.responsibilities(weights)
        return sum(shares[..., s, None] * g.grad_log_prob(weights) for s, g in enumerate(self._gaussians))

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors, (n, dim)."""
        random = generator(seed)
        component = random.choice(self.proportions.size, size=n, p=self.proportions / self.proportions.sum())
        noise = random.standard_normal((n, self.dim))
        for s, covariance in enumerate(self.covariances):
            noise[component == s] = covariance.factor_t_matmul(noise[component == s])
        return self.means[component] + noise

    def _scaled(self, s: float) -> Self:
        means = self.mean + np.sqrt(s) * (self.means - self.mean)
        return type(self)(self.proportions, means, tuple(c.scaled(s) for c in self.covariances), self.has_bias)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give `proportions` (S,), `means` (S, dim) and the covariances' numbers, stacked: `variance` (S,), ..."""
        each = [covariance.parameters() for covariance in self.covariances]
        stacked = {name: np.stack([parameters[name] for parameters in each]) for name in each[0]}
        return {"proportions": self.proportions, "means": self.means, **stacked}

    @classmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self:
        proportions, means = parameters["proportions"], parameters["means"]
        stacked = {name: values for name, values in parameters.items() if name not in {"proportions", "means"}}
        covariances = [
            Covariance.from_parameters({name: values[s] for name, values in stacked.items()}, dim=means.shape[1])
            for s in range(len(means))
        ]
        return cls(proportions, means, tuple(covariances), has_bias)

    def __repr__(self) -> str:
        kind, bias = self.covariances[0].kind, ", has_bias=True" if self.has_bias else ""
        return f'MixturePrior(dim={self.means.shape[1]}, components={len(self.means)}, covariance="{kind}"{bias})'


def _fit_groups(
    vectors: Floats,
    groups: ArrayLike | Sequence[object],
    kind: CovarianceKind,
    *,
    has_bias: bool,
    **hyperparameters: Any,
) -> MixturePrior:
    labels = np.asarray(groups)
    if labels.shape != vectors.shape[:1]:
        raise UserError(
            f"groups must have one label per base class, {len(vectors)} of them, and its shape is {labels.shape}"
        )
    gaussians, counts = [], []
    for name in np.unique(labels):
        members = vectors[labels == name]
        lambda0 = hyperparameters.get("lambda0")
        if (lambda0 is None or not np.any(lambda0)) and (np.ptp(members, axis=0) == 0).any():
            raise UserError(
                f"groups: the {len(members)} base class(es) of group {str(name)!r} have zero variance in a dimension; "
                "merge it with another group, or give a proper prior (kappa0, lambda0 and nu0)"
            )
        gaussians.append(fit_vectors(members, kind, has_bias=has_bias, **hyperparameters))
        counts.append(len(members))
    means = np.stack([g.mean for g in gaussians])
    return MixturePrior(np.array(counts) / len(vectors), means, tuple(g.covariance for g in gaussians), has_bias)
