"""`kshot.evaluate`: the same k-shot tasks for every method, and a row of figures for each number of shots."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kshot.datasets.tasks import Tasks, draw_splits, draw_tasks
from kshot.errors import UserError
from kshot.evaluation.arguments import listed_methods, listed_shots
from kshot.evaluation.cache import Cache
from kshot.evaluation.methods import Method, resolve
from kshot.evaluation.outcome import Outcome
from kshot.features import Features

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPETITIONS", "Outcome", "Protocol", "draw", "evaluate", "per_task", "run", "table", "timings"]

Protocol = Literal["tasks", "splits"]

REPETITIONS = 10
"""Tasks of each choice of classes under protocol "splits" (Appendix E.4)."""


def run(
    features: Features,
    methods: Sequence[Any] | Any,
    *,
    ways: int = 5,
    shots: Sequence[int] | int = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda method, shots: None,
    cache: str | Path | None = None,
    protocol: Protocol = "tasks",
) -> Iterator[Outcome]:
    """Predict with every method at every number of shots, on the same tasks; give the outcomes one by one.

    The arguments are those of `evaluate`; `progress` is told what begins.
    """
    shots = listed_shots(shots)
    resolved = _distinct([(method, *resolve(method, seed=seed)) for method in listed_methods(methods)])
    drawn = {
        k: draw(features, ways=ways, shots=k, tasks=tasks, queries=queries, seed=seed, protocol=protocol) for k in shots
    }
    about = {"ways": ways, "tasks": tasks, "queries": queries, "seed": seed, "protocol": protocol} | _source(features)
    store = None if cache is None else Cache(Path(cache), features, seed=seed)
    for method, name, predict in resolved:
        for k in shots:
            progress(name, k)
            found = None if store is None else store.get(method, name, drawn[k])
            if found is None:
                start = time.perf_counter()
                predictions = predict(features, drawn[k])
                found = predictions, time.perf_counter() - start
                if store is not None:
                    store.put(method, name, drawn[k], *found)
            yield Outcome.of(name, k, found[0], drawn[k], about=about, seconds=found[1])


def _distinct(resolved: list[tuple[Any, str, Method]]) -> list[tuple[Any, str, Method]]:
    """Number methods of one name, as two priors of one class are: GaussianPrior, GaussianPrior-2."""
    seen: Counter[str] = Counter()
    named = []
    for method, name, predict in resolved:
        seen[name] += 1
        named.append((method, name if seen[name] == 1 else f"{name}-{seen[name]}", predict))
    return named


def draw(
    features: Features, *, ways: int, shots: int, tasks: int, queries: int, seed: int, protocol: Protocol = "tasks"
) -> Tasks:
    """Draw the tasks of a protocol from the new classes; the arguments are those of `evaluate`."""
    numbers = {"ways": ways, "shots": shots, "queries": queries, "seed": seed}
    if protocol == "tasks":
        return draw_tasks(features.y, tasks=tasks, **numbers)
    if protocol != "splits":
        raise UserError(f"protocol must be tasks or splits, and it is {protocol!r}")
    if tasks % REPETITIONS:
        raise UserError(f"with protocol splits, tasks must be a multiple of {REPETITIONS}, and it is {tasks}")
    return draw_splits(features.y, splits=tasks // REPETITIONS, repetitions=REPETITIONS, **numbers)


def table(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Put the figures of outcomes into a tidy table: a row for each, with what is needed to repeat it."""
    import pandas as pd

    return pd.DataFrame([outcome.row() for outcome in outcomes])


def per_task(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Put the figures of every task of every outcome into a tidy table."""
    import pandas as pd

    return pd.concat([outcome.per_task() for outcome in outcomes], ignore_index=True)


def timings(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Give the seconds that each outcome took when it was computed (not when it came from a cache)."""
    import pandas as pd

    return pd.DataFrame(
        [{"method": each.method, "shots": each.shots, "seconds": each.seconds} for each in outcomes],
    )


def evaluate(
    features: Features,
    methods: Sequence[Any] | Any = ("gauss-iso", "nearest"),
    *,
    ways: int = 5,
    shots: Sequence[int] | int = (1, 5, 10),
    tasks: int = 600,
    queries: int = 15,
    seed: int = 0,
    cache: str | Path | None = None,
    protocol: Protocol = "tasks",
) -> pd.DataFrame:
    """Judge methods on k-shot tasks drawn from the new classes of `features` (Section 4, testing protocol).

    Args:
        features: features of the new classes, and the base weights where a method needs them.
        methods: names such as "gauss-iso", "gauss-iso:laplace", "nearest"; priors; scikit-learn classifiers; functions
            of (features, tasks) with a `name`. Several of one name are numbered; one alone needs no list. A calibrated
            prior is run by the method that it was calibrated for, other priors by MAP.
        ways: classes in a task.
        shots: numbers of examples per class, or one number.
        tasks: how many tasks at each number of shots, the same for all methods.
        queries: queries per class.
        seed: decides the tasks, and the draws of methods that sample.
        cache: a folder in which each finished method is kept, so that a run that was stopped goes on from there.
        protocol: "tasks" draws the classes of each task anew (Section 4); "splits" gives every choice of classes to ten
            tasks (Appendix E.4, where tasks=200), and intervals then count choices of classes and not tasks.

    Returns a table with a row per method and shots: method, shots, accuracy, accuracy_ci95 (half-width over tasks),
    log_likelihood, brier, ece (15 bins, pooled), fractions and nats; then log_likelihood_ci95 and what is needed to
    repeat it. A figure that a method does not give is NaN.

    """
    options: dict[str, Any] = {"ways": ways, "shots": shots, "tasks": tasks, "queries": queries, "seed": seed}
    return table(run(features, methods, **options, cache=cache, protocol=protocol))


def _source(features: Features) -> dict[str, str]:
    """Say which features, by which backbone, and which kshot."""
    from kshot import __version__

    return {
        "features": str(features.source.get("data", "")),
        "backbone": features.backbone,
        "kshot": __version__,
    }
