"""Which hyperparameters give held-out base weights the highest probability, found by cheap searches (Appendix E.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.concepts.covariance import CovarianceKind, Floats
from kshot.concepts.em import cluster, fit_em, standardise
from kshot.concepts.mixture import MixturePrior
from kshot.concepts.student_t import log_gamma_ratio

__all__ = ["Outcome", "Splits", "best_gaussian", "best_laplace", "best_mixture", "best_student_t", "search_range"]

# Negative log probabilities of the held-out vectors, (splits, held_out), and the hyperparameters that gave them.
Outcome: TypeAlias = tuple[Floats, dict[str, float]]
# κ₀ and λ₀ -> ln |Λ| of each split (splits,), and the held-out vectors' (w − m) Λ⁻¹ (w − m)ᵀ (splits, held_out).
Terms: TypeAlias = Callable[[float, float], tuple[Floats, Floats]]

_REGULARISATIONS = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True, eq=False)
class Splits:
    """Random partitions of the base weights into vectors to fit and vectors held out."""

    vectors: Floats
    order: NDArray[np.intp]
    held_out: int

    @classmethod
    def draw(cls, vectors: Floats, *, splits: int, held_out: int, seed: int) -> Splits:
        """Draw `splits` permutations of the vectors; the first `held_out` of each are held out."""
        random = np.random.default_rng(seed)
        return cls(vectors, np.stack([random.permutation(len(vectors)) for _ in range(splits)]), held_out)

    def __iter__(self) -> Iterator[tuple[Floats, Floats]]:
        for order in self.order:
            yield self.vectors[order[self.held_out :]], self.vectors[order[: self.held_out]]

    @property
    def fitted(self) -> int:
        """How many vectors each fit sees."""
        return len(self.vectors) - self.held_out


def best_gaussian(splits: Splits, kind: CovarianceKind) -> Outcome:
    """Choose κ₀, λ₀ and ν₀ of the mode Σ = Λ/d, with Λ₀ = λ₀ I and μ₀ = 0.

    The best d = ν₀ + (what the vectors add) has a closed form, p over the mean of (w − m) Λ⁻¹ (w − m)ᵀ: two remain.
    """
    n, p = splits.fitted, splits.vectors.shape[1]
    terms = _full_terms(splits) if kind == "full" else _factored_terms(splits, iso=kind == "iso")

    def score(kappa0: float, lambda0: float) -> tuple[Floats, float]:
        logdet, squares = terms(kappa0, lambda0)
        d = p / squares.mean()
        return 0.5 * (p * math.log(2 * math.pi / d) + logdet[:, None] + d * squares), d

    kappa0, lambda0 = _search(splits, lambda *point: float(score(*point)[0].mean()))
    values, d = score(kappa0, lambda0)
    added = {"iso": n * p + p + 2, "diag": n + 3, "full": n + p + 2}[kind]
    return values, {"mu0": 0.0, "kappa0": kappa0, "nu0": d - added, "lambda0": lambda0}


def best_student_t(splits: Splits) -> Outcome:
    """Choose κ₀, λ₀ and ν₀ of the integrated prior, with Λ₀ = λ₀ I and μ₀ = 0.

    The negative log probability is convex in the degrees of freedom f = ν₀ + n − p + 1, and they enter it through
    Γ(f/2), Γ((f + p)/2) and the exponent alone: the best f solves ψ((f + p)/2) − ψ(f/2) = mean ln(1 + d²).
    """
    n, p = splits.fitted, splits.vectors.shape[1]
    terms = _full_terms(splits)

    def score(kappa0: float, lambda0: float) -> tuple[Floats, float]:
        logdet, squares = terms(kappa0, lambda0)
        kappa = kappa0 + n
        logs = np.log1p(squares * (kappa / (kappa + 1)))
        f = _degrees_of_freedom(float(logs.mean()), p)
        constant = p / 2 * math.log(math.pi * (kappa + 1) / kappa) - log_gamma_ratio(f / 2, p / 2)
        return constant + 0.5 * logdet[:, None] + (f + p) / 2 * logs, f

    kappa0, lambda0 = _search(splits, lambda *point: float(score(*point)[0].mean()))
    values, f = score(kappa0, lambda0)
    return values, {"mu0": 0.0, "kappa0": kappa0, "nu0": f - n + p - 1, "lambda0": lambda0}


def _degrees_of_freedom(target: float, p: int) -> float:
    """Solve ψ((f + p)/2) − ψ(f/2) = target for f, between a millionth and a milliard (a Gaussian to nine digits)."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    def excess(log_f: float) -> float:
        half = math.exp(log_f) / 2
        return float(digamma(half + p / 2) - digamma(half)) - target  # falls in f

    low, high = math.log(1e-6), math.log(1e9)
    if excess(low) <= 0 or excess(high) >= 0:
        return math.exp(low if excess(low) <= 0 else high)
    return math.exp(brentq(excess, low, high))


def _factored_terms(splits: Splits, *, iso: bool) -> Terms:
    """Give the terms of a diagonal Λ, or of λ I: the scatter of each coordinate, or of all together."""
    n = splits.fitted
    means = np.stack([train.mean(axis=0) for train, _ in splits])
    scatter = np.stack([n * train.var(axis=0) for train, _ in splits])
    held = np.stack([held for _, held in splits])
    p = means.shape[1]

    def terms(kappa0: float, lambda0: float) -> tuple[Floats, Floats]:
        gain = scatter + kappa0 * n / (kappa0 + n) * means**2
        scale = lambda0 + (np.repeat(gain.sum(axis=1, keepdims=True), p, axis=1) if iso else gain)
        shift = held - n / (kappa0 + n) * means[:, None]
        return np.log(scale).sum(axis=1), np.einsum("shp,sp->sh", shift**2, 1 / scale)

    return terms


def _full_terms(splits: Splits) -> Terms:
    """Give the terms of a full Λ = λ₀ I + S + c m mᵀ from one eigendecomposition S = V diag(e) Vᵀ per split.

    In the coordinates V, λ₀ I + S is diagonal; the outer product of the mean m is a rank-one update of it, by the
    matrix determinant lemma and the Sherman-Morrison formula.
    """
    n = splits.fitted
    spectra, means, held = [], [], []
    for train, out in splits:
        average = train.mean(axis=0)
        centred = train - average
        values, vectors = np.linalg.eigh(centred.T @ centred)
        spectra.append(np.maximum(values, 0))
        means.append(average @ vectors)
        held.append(out @ vectors)
    e, m, w = np.stack(spectra), np.stack(means), np.stack(held)
    mm, wm, ww = m * m, w * m[:, None], w * w

    def terms(kappa0: float, lambda0: float) -> tuple[Floats, Floats]:
        inverse = 1 / (lambda0 + e)
        q_mm = np.einsum("sp,sp->s", mm, inverse)[:, None]
        q_wm, q_ww = (np.einsum("shp,sp->sh", products, inverse) for products in (wm, ww))
        shrunk, c = n / (kappa0 + n), kappa0 * n / (kappa0 + n)
        grown = 1 + c * q_mm
        squares = q_ww - 2 * shrunk * q_wm + shrunk**2 * q_mm - c * (q_wm - shrunk * q_mm) ** 2 / grown
        return np.log(lambda0 + e).sum(axis=1) + np.log(grown[:, 0]), squares

    return terms


def search_range(splits: Splits) -> tuple[tuple[float, float], tuple[float, float]]:
    """Give the least and greatest κ₀, and λ₀: from nothing to the mean all but held at 0, and to all but σ² I.

    λ₀ goes up to ten times the scatter of all coordinates together, where the vectors hardly count any more, and down
    to a millionth of a millionth of one coordinate's: the least eigenvalue of a scatter matrix may be that small.
    """
    n, p = splits.fitted, splits.vectors.shape[1]
    scatter = n * float(splits.vectors.var(axis=0).sum())
    return (1e-6 * n, 30.0 * n), (1e-12 * scatter / p, 10 * scatter)


def _search(splits: Splits, score: Callable[[float, float], float]) -> tuple[float, float]:
    """Minimise over κ₀ and λ₀ on a logarithmic grid, then by Nelder-Mead from its best point."""
    from scipy.optimize import minimize

    bounds = [(math.log(low), math.log(high)) for low, high in search_range(splits)]

    def at(logs: Sequence[float] | Floats) -> float:
        return score(math.exp(logs[0]), math.exp(logs[1]))

    kappas, lambdas = np.linspace(*bounds[0], 8), np.linspace(*bounds[1], 36)
    start = min(((float(k), float(scale)) for k in kappas for scale in lambdas), key=at)
    found = minimize(at, start, method="Nelder-Mead", bounds=bounds, options={"xatol": 1e-4, "fatol": 1e-9})
    return math.exp(found.x[0]), math.exp(found.x[1])


def best_laplace(splits: Splits, *, iso: bool) -> Outcome:
    """Choose how far the scales of a diagonal Laplace prior are pulled to their mean; for an isotropic one nothing."""
    locations, scales = [], []
    for train, _ in splits:
        location = np.full(train.shape[1], np.median(train)) if iso else np.median(train, axis=0)
        spread = np.abs(train - location)
        locations.append(location)
        scales.append(np.full(train.shape[1], spread.mean()) if iso else spread.mean(axis=0))
    distance = np.abs(np.stack([held for _, held in splits]) - np.stack(locations)[:, None])
    scale = np.stack(scales)

    def score(shrinkage: float) -> Floats:
        pulled = scale + shrinkage * (scale.mean(axis=1, keepdims=True) - scale)
        values: Floats = np.log(2 * pulled).sum(axis=1)[:, None] + np.einsum("shp,sp->sh", distance, 1 / pulled)
        return values

    if iso:
        return score(0.0), {}
    from scipy.optimize import minimize_scalar

    shrinkage = float(minimize_scalar(lambda a: score(a).mean(), bounds=(0, 1), method="bounded").x)
    return score(shrinkage), {"shrinkage": shrinkage}


def best_mixture(splits: Splits, components: int, kind: CovarianceKind, *, seed: int) -> Outcome:
    """Choose what EM adds to each variance, as a fraction of their mean, from a grid; all start from one k-means."""
    values = np.empty((len(_REGULARISATIONS), len(splits.order), splits.held_out))
    for split, (train, held) in enumerate(splits):
        labels = cluster(standardise(train, has_bias=False)[0], components, seed=seed + split)
        for row, regularisation in enumerate(_REGULARISATIONS):
            fitted = fit_em(
                train, components, kind, has_bias=False, regularisation=regularisation, seed=seed, labels=labels
            )
            values[row, split] = -MixturePrior(*fitted).log_prob(held)
    best = int(values.mean(axis=(1, 2)).argmin())
    return values[best], {"regularisation": _REGULARISATIONS[best]}
