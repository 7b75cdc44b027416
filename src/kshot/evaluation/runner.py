"""`kshot.evaluate`: the same k-shot tasks for every method, and a row of figures for each number of shots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.errors import UserError
from kshot.evaluation import metrics
from kshot.evaluation.methods import resolve
from kshot.features import Features

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outcome", "evaluate", "run", "table"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one method predicted on all tasks at one number of shots.

    Args:
        method: its name.
        shots: examples per class.
        proba: (tasks, queries, ways) probabilities.
        tasks: the tasks themselves.

    """

    method: str
    shots: int
    proba: NDArray[np.float64]
    tasks: Tasks

    def row(self) -> dict[str, Any]:
        """Give the figures of this outcome, fractions and nats."""
        proba, labels = self.proba, self.tasks.query_labels
        per_task = metrics.accuracy(proba, labels)
        return {
            "method": self.method,
            "shots": self.shots,
            "accuracy": float(per_task.mean()),
            "accuracy_ci95": metrics.interval95(per_task),
            "log_likelihood": float(metrics.log_likelihood(proba, labels).mean()),
            "brier": float(metrics.brier(proba, labels).mean()),
            "ece": metrics.ece(proba, labels),
        }

    def curve(self) -> metrics.CalibrationCurve:
        """Give the calibration curve, pooled over all tasks."""
        return metrics.calibration_curve(self.proba, self.tasks.query_labels)


def run(
    features: Features,
    methods: Sequence[Any],
    *,
    ways: int = 5,
    shots: Sequence[int] = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda method, shots: None,
) -> Iterator[Outcome]:
    """Predict with every method at every number of shots, on the same tasks; give the outcomes one by one.

    The arguments are those of `evaluate`; `progress` is told what begins.
    """
    if not methods or not len(shots):
        raise UserError("give at least one method and one number of shots")
    resolved = [resolve(method, seed=seed) for method in methods]
    drawn = {k: draw_tasks(features.y, ways=ways, shots=k, queries=queries, tasks=tasks, seed=seed) for k in shots}
    for name, predict in resolved:
        for k in shots:
            progress(name, k)
            yield Outcome(name, k, predict(features, drawn[k]), drawn[k])


def table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Put the figures of outcomes into a tidy table."""
    import pandas as pd

    return pd.DataFrame([outcome.row() for outcome in outcomes])


def evaluate(
    features: Features,
    methods: Sequence[Any] = ("gauss-iso", "nearest"),
    *,
    ways: int = 5,
    shots: Sequence[int] = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
) -> pd.DataFrame:
    """Judge methods on k-shot tasks drawn from the new classes of `features` (Section 4, testing protocol).

    Args:
        features: features of the new classes, and the base weights where a method needs them.
        methods: names such as "gauss-iso", "gauss-iso:laplace", "nearest"; priors; scikit-learn classifiers.
        ways: classes in a task.
        shots: numbers of examples per class.
        tasks: how many tasks at each number of shots, the same for all methods.
        queries: queries per class.
        seed: decides the tasks, and the draws of methods that sample.

    Returns a table with a row per method and shots: method, shots, accuracy, accuracy_ci95 (half-width over tasks),
    log_likelihood, brier, ece (15 bins, pooled); fractions and nats.

    """
    return table(list(run(features, methods, ways=ways, shots=shots, tasks=tasks, queries=queries, seed=seed)))
