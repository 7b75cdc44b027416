"""How good predictions are: accuracy with its interval over tasks, log-likelihood, Brier score, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError

__all__ = [
    "CalibrationCurve",
    "accuracy",
    "brier",
    "calibration_curve",
    "ece",
    "interval95",
    "log_likelihood",
    "unit_means",
]

Floats = NDArray[np.float64]

_ROUNDING = 1e-6  # of probabilities, as float32 leaves it


def accuracy(proba: ArrayLike, labels: ArrayLike) -> Floats:
    """Give the fraction of right answers of each task, (tasks, m, C) and (tasks, m) -> (tasks,).

    >>> accuracy([[[0.9, 0.1], [0.4, 0.6]]], [[0, 0]])
    array([0.5])
    """
    p, y = _checked(proba, labels)
    right: Floats = (p.argmax(axis=-1) == y).mean(axis=-1)
    return right


def log_likelihood(proba: ArrayLike, labels: ArrayLike) -> Floats:
    """Give the mean ln p(y* | x*) of each task, (tasks, m, C) and (tasks, m) -> (tasks,).

    Probabilities below the machine epsilon count as that, as in scikit-learn's `log_loss`: one certain mistake costs 36
    nats and not everything.
    """
    p, y = _checked(proba, labels)
    own = np.take_along_axis(p, y[..., None], axis=-1)[..., 0]
    logs: Floats = np.log(np.maximum(own, np.finfo(np.float64).eps)).mean(axis=-1)
    return logs


def brier(proba: ArrayLike, labels: ArrayLike) -> Floats:
    """Give the mean Σ_c (p_c − [c = y*])² of each task, in 0..2, (tasks, m, C) and (tasks, m) -> (tasks,)."""
    p, y = _checked(proba, labels)
    own = np.take_along_axis(p, y[..., None], axis=-1)[..., 0]
    scores: Floats = ((p**2).sum(axis=-1) - 2 * own + 1).mean(axis=-1)
    return scores


def interval95(per_task: ArrayLike, split: ArrayLike | None = None) -> float:
    """Give the half-width of the 95 % interval of the mean over tasks, by Student's t; NaN for a single unit.

    The unit is what was drawn independently. A task's own queries are not (they share its support), so it is the task;
    and where tasks share their choice of classes (`draw_splits`), it is the split: 20 splits × 10 repetitions are 20
    independent means, and counting 200 would make the interval too narrow. The classes and images that tasks are drawn
    from are taken as given.

    Args:
        per_task: (tasks,) a figure of each task.
        split: (tasks,) which split a task belongs to; all splits must have equally many.

    >>> round(interval95([0.5, 0.7, 0.6, 0.6]), 3), round(interval95([0.5, 0.7, 0.6, 0.6], split=[0, 0, 1, 1]), 3)
    (0.13, 0.0)
    """
    values = unit_means(np.asarray(per_task, np.float64), split)
    if len(values) < 2:
        return float("nan")
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))


def unit_means(per_task: Floats, split: ArrayLike | None = None) -> Floats:
    """Average what belongs to one unit of an interval: (tasks, ...) -> (splits, ...), or as it is without splits."""
    if split is None:
        return per_task
    _, unit, count = np.unique(np.asarray(split), return_inverse=True, return_counts=True)
    if len(unit) != len(per_task) or (count != count[0]).any():
        raise UserError("split must name a split for every task, and each split must have equally many tasks")
    order = np.argsort(unit, kind="stable")
    means: Floats = per_task[order].reshape(len(count), count[0], *per_task.shape[1:]).mean(axis=1)
    return means


@dataclass(frozen=True, eq=False)
class CalibrationCurve:
    """For each bin of confidence: the mean confidence, how often it was right, and how many answers it holds.

    Empty bins have count 0 and NaN in the other two.
    """

    confidence: Floats
    accuracy: Floats
    count: NDArray[np.int64]

    @property
    def ece(self) -> float:
        """Expected calibration error: Σ_b (n_b / n) |accuracy_b − confidence_b|."""
        full = self.count > 0
        gaps = np.abs(self.accuracy[full] - self.confidence[full])
        return float((self.count[full] * gaps).sum() / self.count.sum())


def calibration_curve(proba: ArrayLike, labels: ArrayLike, *, bins: int = 15) -> CalibrationCurve:
    """Compare confidence, the largest probability, with accuracy in `bins` equal bins, pooled over all tasks.

    Bins are closed below and open above, but for the last: a confidence of 1 belongs to it.
    """
    p, y = _checked(proba, labels)
    if bins < 1:
        raise UserError(f"bins must be at least 1, and it is {bins}")
    confidence = p.max(axis=-1).ravel()
    right = (p.argmax(axis=-1) == y).ravel()
    bin_of = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(bin_of, confidence, minlength=bins) / count
        hits = np.bincount(bin_of, right, minlength=bins) / count
    return CalibrationCurve(mean, hits, count)


def ece(proba: ArrayLike, labels: ArrayLike, *, bins: int = 15, pooling: Literal["all", "task"] = "all") -> float:
    """Give the expected calibration error of the answers' confidence (Guo et al. 2017), in `bins` equal bins.

    Args:
        proba: (tasks, m, C) probabilities.
        labels: (tasks, m) what was right.
        bins: number of bins over 0..1.
        pooling: "all" pools the answers of all tasks; "task" averages each task's own error, which shows about 0.13
            for a *perfect* classifier at 75 queries a task, because its bins hold five answers each.

    """
    p, y = _checked(proba, labels)
    if pooling == "all":
        return calibration_curve(p, y, bins=bins).ece
    if pooling != "task":
        raise UserError(f"pooling must be all or task, and it is {pooling!r}")
    return float(
        np.mean([calibration_curve(own[None], right[None], bins=bins).ece for own, right in zip(p, y, strict=True)])
    )


def _checked(proba: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    """Give (tasks, m, C) and (tasks, m); a single task may come without its first axis."""
    p, y = np.asarray(proba, np.float64), np.asarray(labels)
    if p.ndim == 2:
        p, y = p[None], y[None]
    if p.ndim != 3 or y.shape != p.shape[:2] or not p.size:
        raise UserError(f"probabilities (tasks, m, C) and labels (tasks, m) do not fit: {p.shape} and {y.shape}")
    if y.min() < 0 or y.max() >= p.shape[2]:
        raise UserError(f"labels must lie in 0..{p.shape[2] - 1}, and they go from {y.min()} to {y.max()}")
    # The same rounding is allowed below 0 as about 1; above 1 is then out of reach.
    if not np.isfinite(p).all() or p.min() < -_ROUNDING or np.abs(p.sum(axis=2) - 1).max() > _ROUNDING:
        raise UserError("probabilities must be finite, not below 0, and sum to 1 for every query")
    return p, y.astype(np.int64)
