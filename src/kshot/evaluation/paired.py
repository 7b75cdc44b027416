"""Differences between methods on the same tasks, with the intervals that this allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.evaluation import metrics
from kshot.evaluation.outcome import Outcome

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPLICATES", "ROUNDING", "differences"]

Floats = NDArray[np.float64]

REPLICATES = 2000
"""Of the bootstrap behind an interval of a difference in ECE."""

ROUNDING = 1e-12
"""Two ways to the same optimum differ by less: such a difference is none."""


def differences(outcomes: Iterable[Outcome], *, reference: str = "gauss-iso", seed: int = 0) -> pd.DataFrame:
    """Compare every method with the reference at each number of shots, on the tasks that they share.

    Most of what makes accuracy vary is the tasks themselves, which are the same for all methods: the mean difference
    has a far shorter interval than either mean. For accuracy, log_likelihood and brier it is `metrics.interval95` of
    the differences per task. ECE is one number of all tasks together; its interval comes from the standard deviation of
    the difference over bootstrap samples of the tasks (of the splits, where tasks share their classes), the same
    samples for both methods.

    Args:
        outcomes: of any methods and shots, the reference's among them.
        reference: the method that is subtracted.
        seed: of the bootstrap.

    Returns a table: method, shots, metric (accuracy, log_likelihood, brier, ece), difference (method − reference), ci95
    (half-width), significant (whether the interval leaves out 0, with no allowance for the number of comparisons). A
    metric that either of the two does not give is left out.

    """
    import pandas as pd

    given = list(outcomes)
    own = {outcome.shots: outcome for outcome in given if outcome.method == reference}
    if not own:
        raise UserError(f"there are no outcomes of {reference!r} to compare with: run it too, or set reference")
    rows: list[dict[str, Any]] = []
    for outcome in given:
        if outcome.method != reference and outcome.shots in own:
            for metric, difference, ci95 in _compare(outcome, own[outcome.shots], seed):
                rows.append(
                    {
                        "method": outcome.method,
                        "shots": outcome.shots,
                        "metric": metric,
                        "difference": difference,
                        "ci95": ci95,
                        "significant": abs(difference) > ci95 + ROUNDING,
                    }
                )
    return pd.DataFrame(rows, columns=["method", "shots", "metric", "difference", "ci95", "significant"])


def _compare(outcome: Outcome, reference: Outcome, seed: int) -> Iterator[tuple[str, float, float]]:
    tasks = outcome.tasks
    if not _same(tasks, reference.tasks):
        raise UserError(
            f"{outcome.method} and {reference.method} were not run on the same tasks at {outcome.shots} shots: "
            "run both with the same numbers, seed and protocol"
        )
    theirs = reference.scores()
    for metric, values in outcome.scores().items():
        gap = values - theirs[metric]
        if not np.isnan(gap).any():
            yield metric, float(gap.mean()), metrics.interval95(gap, tasks.split)
    if outcome.has_proba and reference.has_proba:
        sums = [_bins(each) for each in (outcome, reference)]
        difference = _ece(sums[0].sum(axis=0)) - _ece(sums[1].sum(axis=0))
        yield "ece", float(difference), _bootstrapped(sums[0], sums[1], seed)


def _same(one: Tasks, other: Tasks) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("classes", "support", "query"))


def _bins(outcome: Outcome, bins: int = 15) -> Floats:
    """Give Σ (right − confidence) and the number of answers in each bin of each unit, (units, 2, bins)."""
    confidence = outcome.proba.max(axis=2)
    gap = (outcome.answers == outcome.tasks.query_labels) - confidence
    tasks = len(gap)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1) + bins * np.arange(tasks)[:, None]
    counts = [np.bincount(place.ravel(), weight, minlength=tasks * bins) for weight in (gap.ravel(), None)]
    return metrics.unit_means(np.stack([each.reshape(tasks, bins) for each in counts], axis=1), outcome.tasks.split)


def _ece(sums: Floats) -> Floats:
    """Give Σ_b |Σ (right − confidence)| / n from the sums of the bins, (..., 2, bins) -> (...)."""
    error: Floats = np.abs(sums[..., 0, :]).sum(axis=-1) / sums[..., 1, :].sum(axis=-1)
    return error


def _bootstrapped(one: Floats, other: Floats, seed: int) -> float:
    """Give the half-width by the standard deviation of the difference in ECE over samples of the units."""
    units = len(one)
    if units < 2:
        return float("nan")
    times = _resampled(units, seed)
    errors = [_ece((times @ sums.reshape(units, -1)).reshape(-1, 2, sums.shape[2])) for sums in (one, other)]
    from scipy.special import stdtrit

    # Student's t and the factor make up for few units, as in the intervals of means.
    wide = stdtrit(units - 1, 0.975) * np.sqrt(units / (units - 1))
    return float(wide * (errors[0] - errors[1]).std(ddof=1))


@lru_cache(maxsize=4)
def _resampled(units: int, seed: int) -> Floats:
    """Give how often each unit is in each sample, (replicates, units)."""
    return np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), REPLICATES).astype(np.float64)
