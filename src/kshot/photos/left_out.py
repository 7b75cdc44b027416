"""Judge each photograph by a model that had not seen it: all those models at once, over one kernel.

With example weights s_n of 0 or 1 the MAP of every such model is w_c = μ + ΣXᵀa_c with a_n = 0 where s_n = 0 (Section
2.3). So they share K = XΣXᵀ, and the logits K a hold those of the photographs left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.photos.examples import Examples
from kshot.photos.shared import SharedFactor, SharedKernel
from kshot.photos.twins import old_logits, softmax, twins_of_shares

if TYPE_CHECKING:
    from kshot.concepts import CalibratedPrior

__all__ = ["left_out", "left_out_table", "split"]

Floats = NDArray[np.float64]

ALONE = 60
"""Up to so many photographs each is left out alone; of more, one or several of each class at a time."""
EXAMPLES = 2500
"""Photographs that all models for the estimate together may learn from, beyond that: it must not take long."""
_MOST_STEPS = 40  # Newton's, after which a model is learned again in coordinates that are safer and dearer


def split(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give each example the number of the model that it is left out of, (n,); −1 for one that is not judged.

    Each alone while they are few. Of more, one of each class at a time, so that a class keeps nearly all of its own, or
    several where that would take too many models: at least a fifth. Above 2500 / 5 photographs there are fewer models
    than fifths, and so some photographs are not judged.
    """
    n = len(labels)
    if n <= ALONE:
        return np.arange(n)
    rank = np.empty(n, np.int64)
    for label in np.unique(labels):
        (rows,) = np.nonzero(labels == label)
        rank[rows] = np.arange(len(rows))
    models = max(1, EXAMPLES // n)
    fold = rank % min(int(rank.max()) + 1, max(models, 5))
    fold[fold >= models] = -1
    return fold


def left_out(
    prior: CalibratedPrior,
    examples: Examples,
    *,
    base_weights: NDArray[np.floating[Any]] | None = None,
    base_bias: NDArray[np.floating[Any]] | None = None,
    twin_share: float | None = None,
) -> Floats:
    """Give the probabilities of each example by a model without it, (n, C + 1), the last column something else.

    Arguments: as `left_out_table`.
    """
    table = left_out_table(prior, examples, base_weights=base_weights, base_bias=base_bias, twin_share=twin_share)
    ways = len(examples.classes)
    other = np.where(np.isnan(table[:, -1]), np.nan, table[:, :-ways].sum(axis=1))
    return np.concatenate([table[:, -ways:], other[:, None]], axis=1)


def left_out_table(
    prior: CalibratedPrior,
    examples: Examples,
    *,
    base_weights: NDArray[np.floating[Any]] | None = None,
    base_bias: NDArray[np.floating[Any]] | None = None,
    twin_share: float | None = None,
) -> Floats:
    """Give the probabilities of each example by a model without it, (n, B + C), old classes first.

    The only photograph of a class cannot be judged: NaN. Twins (see `twins`) are sought anew without the example, and
    have probability 0.

    Arguments:
        prior: a Gaussian, calibrated.
        examples: n of C classes.
        base_weights: the old classes, (B, p); None leaves "something else" out.
        base_bias: (B,) or None.
        twin_share: from which share on an old class is a twin; None looks for none.
    """
    labels, ways = examples.labels, len(examples.classes)
    single = np.bincount(labels, minlength=ways)[labels] == 1
    fold_of = split(labels)
    folds = np.unique(fold_of[~single & (fold_of >= 0)])
    seen = fold_of != folds[:, None]
    old = np.empty((len(labels), 0)) if base_weights is None else old_logits(examples.X, base_weights, base_bias)
    kept = np.ones((len(folds), old.shape[1]), np.bool_)
    if twin_share is not None and old.shape[1]:
        shares = softmax(old)
        for fold, some in enumerate(seen):
            kept[fold, list(twins_of_shares(shares[some], labels[some], share=twin_share))] = False
    out = np.full((len(labels), old.shape[1] + ways), np.nan)
    if len(folds):
        background = prior.calibration.background
        loud = old if background is None else background.flatness * old
        logits = _solve(prior, examples, seen, loud, kept)
        for fold, (number, some) in enumerate(zip(folds, seen, strict=True)):
            rows = np.flatnonzero((fold_of == number) & ~single)
            # The mean number of examples of the classes that have some, as in `fit_tasks`.
            each = some.sum() / len(np.unique(labels[some]))
            temperature = prior.temperature(each) * prior.ways_factor(ways)
            beside = temperature * old[rows] if background is None else loud[rows] + background.shift(each, ways)
            both = [np.where(kept[fold], beside, -np.inf), temperature * logits[:, fold, rows].T]
            out[rows] = softmax(np.concatenate(both, axis=1))
    return out


def _solve(
    prior: CalibratedPrior, examples: Examples, seen: NDArray[np.bool_], old: Floats, kept: NDArray[np.bool_]
) -> Floats:
    """Learn one model for each row of `seen`, (folds, n); give its logits of all examples, (C, folds, n)."""
    from kshot.inference.likelihood import Likelihood
    from kshot.inference.newton import TOLERANCE, minimise
    from kshot.inference.tasks import with_constant

    X = prior.prepared(examples.X).astype(np.float64)
    X = with_constant(X) if prior.has_bias else X
    weight = seen.astype(np.float64)
    own = examples.labels == np.arange(len(examples.classes))[:, None]
    mean = X @ prior.mean if old.shape[1] else np.zeros(len(X))
    rest = _rest(old, kept) - mean if old.shape[1] else None
    likelihood = Likelihood(own[:, None, :] * weight, weight, rest)
    white = prior.prior.covariance.factor_matmul(X)
    out = np.empty((len(own), *seen.shape))
    poor = np.arange(len(seen))
    if X.shape[0] <= X.shape[1]:
        kernel = SharedKernel(white @ white.T, len(seen))
        found = minimise(kernel, likelihood, measure=kernel.measure, max_steps=_MOST_STEPS)
        out[:] = kernel.image(found.point)
        poor = np.flatnonzero(~(found.residual <= TOLERANCE))
    if len(poor):  # photographs that depend on each other: K has lost its digits
        factor = SharedFactor.of_rank(white, len(poor))
        found = minimise(factor, likelihood.take(poor), measure=factor.measure, precise=True)
        out[:, poor] = factor.image(found.point)
    return out + mean


def _rest(old: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Give ln Σ exp of the old logits that each fold keeps, (folds, n)."""
    sets, which = np.unique(kept, axis=0, return_inverse=True)
    top = old.max(axis=1)
    grown = np.exp(old - top[:, None])
    # A twin may have all but nothing: then the sum of the others is taken by itself, not from their share of one.
    sums = np.stack([grown[:, some].sum(axis=1) for some in sets])
    out: Floats = (top + np.log(np.maximum(sums, np.finfo(np.float64).tiny)))[which.ravel()]
    return out
