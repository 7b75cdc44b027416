"""What one method predicted on all tasks at one number of shots, and the figures that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.evaluation import metrics

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NO_ANSWER", "Outcome", "unanswered"]

Floats = NDArray[np.float64]

NO_ANSWER = -1
"""In place of a label where a method cannot be applied, such as cross-validation with one example per class."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one method predicted on all tasks at one number of shots.

    A method that gives probabilities answers with the most probable class. One that gives answers only (an SVM) has
    NaN for probabilities and for every figure but accuracy; one that cannot be applied has NaN for accuracy too.

    Args:
        method: its name.
        shots: examples per class.
        proba: (tasks, queries, ways) probabilities; all NaN where the method gives none.
        tasks: the tasks themselves.
        labels: (tasks, queries) the answers 0..ways-1 of a method that gives nothing else; None with probabilities.
        about: what is needed to repeat it: ways, tasks, queries, seed, protocol, features, backbone, kshot.
        seconds: how long the prediction took when it was computed; no column of the table, which repeats exactly.

    """

    method: str
    shots: int
    proba: Floats
    tasks: Tasks
    labels: NDArray[np.int64] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = float("nan")

    @classmethod
    def of(cls, method: str, shots: int, predictions: NDArray[Any], tasks: Tasks, **others: Any) -> Outcome:
        """Make one of what a method returned: probabilities (tasks, queries, ways), or labels (tasks, queries)."""
        labels = tasks.query_labels
        if predictions.shape == (*labels.shape, tasks.ways):
            return cls(method, shots, np.asarray(predictions, np.float64), tasks, **others)
        if predictions.shape == labels.shape and predictions.dtype.kind in "iu":
            nothing = unanswered(tasks)
            return cls(method, shots, nothing, tasks, labels=predictions.astype(np.int64), **others)
        raise UserError(
            f"{method} must give probabilities {(*labels.shape, tasks.ways)} or whole-numbered labels {labels.shape}, "
            f"and it gave {predictions.dtype} {predictions.shape}"
        )

    @property
    def answers(self) -> NDArray[np.int64]:
        """What the method answered, (tasks, queries): the most probable class, or `NO_ANSWER` where there is none."""
        if self.labels is not None:
            return self.labels
        return np.where(np.isnan(self.proba).any(axis=2), NO_ANSWER, self.proba.argmax(axis=2))

    @property
    def has_proba(self) -> bool:
        """Whether the method gave probabilities."""
        return not np.isnan(self.proba).all()

    def scores(self) -> dict[str, Floats]:
        """Give accuracy, log_likelihood and brier of each task, (tasks,) each; NaN where there is none."""
        labels = self.tasks.query_labels
        right = np.where(self.answers == NO_ANSWER, np.nan, self.answers == labels)
        none = np.full(len(labels), np.nan)
        return {
            "accuracy": right.mean(axis=1),
            "log_likelihood": metrics.log_likelihood(self.proba, labels) if self.has_proba else none,
            "brier": metrics.brier(self.proba, labels) if self.has_proba else none,
        }

    def row(self) -> dict[str, Any]:
        """Give the figures of this outcome, fractions and nats, then what is needed to repeat it."""
        scores, split = self.scores(), self.tasks.split
        return {
            "method": self.method,
            "shots": self.shots,
            "accuracy": float(scores["accuracy"].mean()),
            "accuracy_ci95": metrics.interval95(scores["accuracy"], split),
            "log_likelihood": float(scores["log_likelihood"].mean()),
            "brier": float(scores["brier"].mean()),
            "ece": metrics.ece(self.proba, self.tasks.query_labels) if self.has_proba else float("nan"),
            "log_likelihood_ci95": metrics.interval95(scores["log_likelihood"], split),
            **self.about,
        }

    def per_task(self) -> pd.DataFrame:
        """Give a row per task: method, shots, task, accuracy, log_likelihood, brier, and its split if it has one."""
        import pandas as pd

        columns: dict[str, Any] = {"method": self.method, "shots": self.shots, "task": np.arange(len(self.tasks))}
        columns |= self.scores()
        if self.tasks.split is not None:
            columns["split"] = self.tasks.split
        return pd.DataFrame(columns)

    def curve(self) -> metrics.CalibrationCurve:
        """Give the calibration curve, pooled over all tasks; a method without probabilities has none."""
        if not self.has_proba:
            raise UserError(f"{self.method} gives no probabilities at {self.shots} shots, and so no calibration curve")
        return metrics.calibration_curve(self.proba, self.tasks.query_labels)


def unanswered(tasks: Tasks) -> Floats:
    """Give what a method returns that cannot be applied to these tasks: NaN probabilities."""
    return np.full((*tasks.query_labels.shape, tasks.ways), np.nan)
