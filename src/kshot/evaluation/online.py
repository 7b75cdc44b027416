"""New classes learned beside old ones: accuracy on all, on the old, and on the new (Section 4.1, Fig. 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.tasks import Tasks, draw_tasks
from kshot.errors import UserError
from kshot.evaluation import metrics
from kshot.evaluation.arguments import listed_methods, listed_shots
from kshot.evaluation.online_methods import OnlineMethod, resolve_online
from kshot.features import Features

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FIGURE_5", "OnlineOutcome", "online_outcomes", "online_per_task", "online_table", "run_online"]

Floats = NDArray[np.float64]

FIGURE_5 = ("gauss-iso", "logreg-sigma2", "logreg-mle", "logreg-sigma2-only-new")
"""The methods of Fig. 5."""

_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class OnlineOutcome:
    """How often one method was right in each task, with old and new classes in one softmax.

    Args:
        method: its name.
        shots: examples per new class.
        old: (tasks,) accuracy on the old classes' test images, each class counting the same.
        new: (tasks,) accuracy on the queries of the new classes.
        before: accuracy on the old classes' test images before any class was added.
        old_classes: how many old classes have test images.
        tasks: the tasks themselves.

    """

    method: str
    shots: int
    old: Floats
    new: Floats
    before: float
    old_classes: int
    tasks: Tasks

    @property
    def all(self) -> Floats:
        """(tasks,) accuracy over all classes, each counting the same: (B · old + C · new) / (B + C)."""
        share = self.tasks.ways / (self.old_classes + self.tasks.ways)
        return (1 - share) * self.old + share * self.new

    def row(self) -> dict[str, Any]:
        """Give the means with their 95 % intervals over tasks, as fractions."""
        figures: dict[str, Any] = {"method": self.method, "shots": self.shots}
        for name, values in (("all", self.all), ("old", self.old), ("new", self.new)):
            figures |= {f"accuracy_{name}": float(values.mean()), f"accuracy_{name}_ci95": metrics.interval95(values)}
        queries = self.tasks.query.shape[1] // self.tasks.ways
        return figures | {
            "accuracy_old_before": self.before,
            "ways": self.tasks.ways,
            "old_classes": self.old_classes,
            "tasks": len(self.tasks),
            "queries": queries,
        }


def run_online(
    features: Features,
    methods: Sequence[Any] | Any = FIGURE_5,
    *,
    ways: int = 5,
    shots: Sequence[int] | int = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
) -> pd.DataFrame:
    """Learn new classes beside the old ones and test on both (Fig. 5); a row per method and shots.

    Every task is tested on all of the old classes' test images (`features.base_X`) and on `queries` images of each of
    its new classes. Each class counts the same in accuracy_all and accuracy_old, however many test images it has.
    The intervals are over tasks; the old test images are the same in all of them and taken as given.

    Args:
        features: new classes, base weights, and test images of the base classes.
        methods: "gauss-iso" or any other prior's name, "gauss-iso-calibrated", "logreg-sigma2", "logreg-mle",
            "logreg-sigma2-only-new"; or a prior.
        ways: new classes in a task.
        shots: numbers of examples per new class.
        tasks: how many tasks; for one seed those of `kshot.evaluate`.
        queries: queries per new class.
        seed: decides the tasks.

    Returns method, shots, accuracy_all, accuracy_all_ci95, and the same of old and new; accuracy_old_before, what the
    old classes had before; then the numbers.

    """
    options: dict[str, Any] = {"ways": ways, "shots": shots, "tasks": tasks, "queries": queries, "seed": seed}
    return online_table(online_outcomes(features, methods, **options))


def online_table(outcomes: Iterable[OnlineOutcome]) -> pd.DataFrame:
    """Put the figures of outcomes into a tidy table."""
    import pandas as pd

    return pd.DataFrame([outcome.row() for outcome in outcomes])


def online_per_task(outcomes: Iterable[OnlineOutcome]) -> pd.DataFrame:
    """Give a row per method, shots and task: accuracy_all, accuracy_old, accuracy_new."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "method": each.method,
                "shots": each.shots,
                "task": np.arange(len(each.old)),
                "accuracy_all": each.all,
                "accuracy_old": each.old,
                "accuracy_new": each.new,
            }
        )
        for each in outcomes
    ]
    return pd.concat(frames, ignore_index=True)


def online_outcomes(
    features: Features,
    methods: Sequence[Any] | Any = FIGURE_5,
    *,
    ways: int = 5,
    shots: Sequence[int] | int = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda method, shots: None,
) -> Iterator[OnlineOutcome]:
    """Give the outcomes of `run_online` one by one; `progress` is told what begins."""
    shots = listed_shots(shots)
    resolved = [resolve_online(method) for method in listed_methods(methods)]
    old = _OldImages.of(features)
    drawn = {k: draw_tasks(features.y, ways=ways, shots=k, queries=queries, tasks=tasks, seed=seed) for k in shots}
    for name, method in resolved:
        for k in shots:
            progress(name, k)
            yield _outcome(name, method, features, drawn[k], old)


def _outcome(name: str, method: OnlineMethod, features: Features, tasks: Tasks, old: _OldImages) -> OnlineOutcome:
    weights, intercept = method(features, tasks)
    # An old class answers where its logit is at least that of every new class.
    logits = features.X[tasks.query].astype(np.float64) @ weights.transpose(0, 2, 1) + intercept[:, None, :]
    wins = logits.max(axis=2) > old.best_of_new[tasks.query]
    new = (wins & (logits.argmax(axis=2) == tasks.query_labels)).mean(axis=1)
    kept = old.accuracy(weights, intercept)
    return OnlineOutcome(name, tasks.shots, kept, new, float(old.share.sum()), old.classes, tasks)


@dataclass(frozen=True, eq=False)
class _OldImages:
    """What the old classes say to every image, computed once: only the new classes' logits differ between tasks.

    Args:
        X: (m, p) the old classes' test images that they themselves get right; the others stay wrong.
        best: (m,) the largest old logit of each.
        share: (m,) what each adds to an accuracy in which every class counts the same.
        best_of_new: (n,) the largest old logit of each image of `features.X`.
        classes: how many old classes have test images.

    """

    X: Floats
    best: Floats
    share: Floats
    best_of_new: Floats
    classes: int

    @classmethod
    def of(cls, features: Features) -> _OldImages:
        if features.base_weights is None or features.base_X is None or features.base_y is None:
            raise UserError(
                "online evaluation needs base_weights and test images of the base classes: set base_X and base_y"
            )
        bias = 0.0 if features.base_bias is None else features.base_bias
        X = features.base_X.astype(np.float64)
        logits = X @ features.base_weights.T + bias
        right = logits.argmax(axis=1) == features.base_y
        counts = np.bincount(features.base_y)
        classes = int((counts > 0).sum())
        share = 1 / (counts[features.base_y] * classes)
        of_new = (features.X.astype(np.float64) @ features.base_weights.T + bias).max(axis=1)
        return cls(X[right], logits.max(axis=1)[right], share[right], of_new, classes)

    def accuracy(self, weights: Floats, intercept: Floats) -> Floats:
        """Give the accuracy on the old classes beside the new classes of each task, (tasks,)."""
        tasks, ways, _ = weights.shape
        out = np.empty(tasks)
        step = max(1, _CHUNK_BYTES // (8 * ways * len(self.X)))
        for start in range(0, tasks, step):
            part = slice(start, start + step)
            rows = weights[part].reshape(-1, weights.shape[2])
            logits = rows @ self.X.T + intercept[part].reshape(-1, 1)
            kept = logits.reshape(-1, ways, len(self.X)).max(axis=1) <= self.best
            out[part] = kept @ self.share
        return out
