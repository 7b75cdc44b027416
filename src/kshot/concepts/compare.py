"""Choosing between priors by the probability of held-out base weights: Table 9 and Appendix E.4 of the paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from kshot.concepts import evidence
from kshot.concepts.checks import as_vectors, check_varies
from kshot.concepts.covariance import CovarianceKind
from kshot.concepts.em import few_threads
from kshot.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TABLE_9", "compare_priors"]

# The nine rows of Table 9, in its order, as this library names them.
TABLE_9 = (
    "gauss-iso",
    "gauss-full",
    "student-t",
    "gmm-3-iso",
    "gmm-3-diag",
    "gmm-10-iso",
    "gmm-10-diag",
    "laplace-iso",
    "laplace-diag",
)


def compare_priors(
    base_weights: ArrayLike,
    *,
    splits: int = 50,
    held_out: int = 10,
    seed: int = 0,
    methods: Sequence[str] | None = None,
) -> DataFrame:
    """Compare priors by the mean negative log probability of held-out base weights; lower is better (Table 9).

    In each split `held_out` random vectors are held out and each prior is fitted to the others. As in the paper the
    hyperparameters are those with the best mean over these same splits, so each figure is a little too good, the more
    so the more a family may choose:

    - gauss-*: κ₀, ν₀ and λ₀ (Λ₀ = λ₀ I, μ₀ = 0), iso and diag as normal-inverse-gamma: 3 numbers;
    - student-t: the same three;
    - gmm-*: the `regularisation` of EM, from a grid of eight: 1 number;
    - laplace-diag: the `shrinkage` of its scales: 1 number; laplace-iso: none.

    They are named as the arguments of `fit`, so a row's prior for all base weights is its family's `fit` with them.

    Arguments:
        base_weights: W̃, one row per base class, (C̃, p).
        splits: how many random splits.
        held_out: how many vectors are held out in each.
        seed: for the splits and for k-means; the same splits for every method.
        methods: names as "gauss-iso", "gauss-diag", "gmm-5-full"; by default the nine of Table 9.

    Returns:
        One row per method: `method`, `model` (in words), `neg_log_prob` per held-out vector, `standard_error` (over the
        splits, which share vectors: a little too small), `behind` the best row with its own standard error
        `behind_error` (of the difference in the same splits, so sharper), and the hyperparameters, NaN where a family
        has none.

    Example:
        >>> weights = np.random.default_rng(0).laplace(size=(60, 4))
        >>> table = compare_priors(weights, splits=5, methods=["gauss-iso", "laplace-iso"])
        >>> table[["method", "neg_log_prob", "standard_error"]].round(2)
                method  neg_log_prob  standard_error
        0    gauss-iso          7.30            0.25
        1  laplace-iso          7.08            0.32
    """
    from pandas import DataFrame

    vectors = as_vectors(base_weights)
    check_varies(vectors, has_bias=False)
    names = list(TABLE_9 if methods is None else methods)
    parsed = [_parse(name) for name in names]
    _check_counts(len(vectors), splits, held_out, most=max((components for _, components, _ in parsed), default=1))
    drawn = evidence.Splits.draw(vectors, splits=splits, held_out=held_out, seed=seed)
    with few_threads(vectors.shape[1]):
        outcomes = [_outcome(drawn, *method, seed=seed) for method in parsed]
    # A row of the table is a mean over splits of the mean over the vectors held out.
    means = np.stack([values.mean(axis=1) for values, _ in outcomes])
    best = means[means.mean(axis=1).argmin()]
    rows = [
        {
            "method": name,
            "model": _in_words(*method),
            "neg_log_prob": mean.mean(),
            "standard_error": _error(mean),
            "behind": (mean - best).mean(),
            "behind_error": _error(mean - best),
            **hyperparameters,
        }
        for name, method, mean, (_, hyperparameters) in zip(names, parsed, means, outcomes, strict=True)
    ]
    columns = ["method", "model", "neg_log_prob", "standard_error", "behind", "behind_error"]
    columns += ["mu0", "kappa0", "nu0", "lambda0", "regularisation", "shrinkage"]
    return DataFrame(rows, columns=columns)


def _error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


def _parse(name: str) -> tuple[str, int, CovarianceKind]:
    """Give family, components and covariance of a method's name."""
    found = re.fullmatch(
        r"(gauss)-(iso|diag|full)|(student)-(t)|(laplace)-(iso|diag)|(gmm)-([1-9]\d*)-(iso|diag|full)", name
    )
    if found is None:
        raise UserError(
            f"methods: there is no prior {name!r}; there are gauss-iso, gauss-diag, gauss-full, student-t, "
            "laplace-iso, laplace-diag, and mixtures such as gmm-3-iso (components, covariance)"
        )
    family, *rest = (part for part in found.groups() if part is not None)
    kind = "full" if family == "student" else rest[-1]
    return family, int(rest[0]) if family == "gmm" else 1, cast("CovarianceKind", kind)


def _check_counts(vectors: int, splits: int, held_out: int, *, most: int) -> None:
    if splits < 2:
        raise UserError(f"splits must be at least 2, for a standard error, and it is {splits}")
    if not 1 <= held_out <= vectors - max(2, most):
        raise UserError(
            f"held_out must leave at least {max(2, most)} of the {vectors} vectors in base_weights to fit, and it is "
            f"{held_out}: give between 1 and {vectors - max(2, most)}, or fewer components in methods"
        )


def _outcome(
    splits: evidence.Splits, family: str, components: int, kind: CovarianceKind, *, seed: int
) -> evidence.Outcome:
    if family == "gauss":
        return evidence.best_gaussian(splits, kind)
    if family == "student":
        return evidence.best_student_t(splits)
    if family == "laplace":
        return evidence.best_laplace(splits, iso=kind == "iso")
    return evidence.best_mixture(splits, components, kind, seed=seed)


def _in_words(family: str, components: int, kind: CovarianceKind) -> str:
    """Give Table 9's name of the model, with its misprint corrected: "MAP prior" is the full covariance."""
    if family == "gauss":
        return "Gauss (MAP, full)" if kind == "full" else f"Gauss ({kind})"
    if family == "student":
        return "Student-t (Gauss, integrated)"
    return f"Laplace ({kind})" if family == "laplace" else f"GMM ({components}, {kind})"
