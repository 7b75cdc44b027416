"""Methods on the same tasks, with all the tables that an experiment keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.evaluation.outcome import Outcome
from kshot.evaluation.paired import differences
from kshot.evaluation.runner import Protocol, per_task, run, table, timings
from kshot.experiments.result import Options
from kshot.features import Features

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["calibration_table", "compared", "outcome_tables", "percent", "shown_table"]


def compared(
    features: Features, methods: Sequence[Any], options: Options, *, what: str, protocol: Protocol = "tasks"
) -> list[Outcome]:
    """Run methods on the tasks of a protocol; `what` names the experiment to the one who watches."""
    return list(
        run(
            features,
            methods,
            shots=options.shots,
            tasks=options.tasks if protocol == "tasks" else options.repeated,
            queries=options.queries,
            seed=options.seed,
            cache=options.cache,
            protocol=protocol,
            progress=lambda method, shots: options.progress(f"{what}: {method}, {shots} examples per class"),
        )
    )


def outcome_tables(name: str, outcomes: Sequence[Outcome], *, references: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Give the tables that are kept of outcomes, by file stem.

    `name` itself holds the figures; `_differences` the paired differences to each reference that was run;
    `_calibration` the calibration curves; `_per_task` every task; `_timings` the seconds.
    """
    import pandas as pd

    run_too = {outcome.method for outcome in outcomes}
    frames = []
    for reference in references:
        if reference in run_too:
            frames.append(differences(outcomes, reference=reference).assign(reference=reference))
    figures = table(outcomes)
    return {
        name: figures,
        f"{name}_differences": pd.concat(frames, ignore_index=True),
        f"{name}_calibration": calibration_table(outcomes),
        f"{name}_per_task": per_task(outcomes),
        f"{name}_timings": timings(outcomes),
    }


def calibration_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Give the calibration curves, a row per method, shots and bin that holds answers."""
    import pandas as pd

    frames = []
    for outcome in outcomes:
        if outcome.has_proba:
            curve = outcome.curve()
            columns = {"method": outcome.method, "shots": outcome.shots, "bin": np.arange(len(curve.count))}
            columns |= {"confidence": curve.confidence, "accuracy": curve.accuracy, "count": curve.count}
            frames.append(pd.DataFrame(columns).loc[curve.count > 0])
    return pd.concat(frames, ignore_index=True)


def percent(mean: float, half: float) -> str:
    """Write a fraction with its interval in per cent.

    >>> percent(0.7391, 0.004), percent(float("nan"), float("nan"))
    ('73.9 ± 0.4', '–')
    """
    return "–" if np.isnan(mean) else f"{100 * mean:.1f} ± {100 * half:.1f}"


def shown_table(figures: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Lay out accuracy, log-likelihood and ECE at each number of shots, a line per method, for the page."""
    import pandas as pd

    shots = sorted(figures["shots"].unique())
    methods = list(dict.fromkeys(figures["method"]))
    lines = []
    for method, name in zip(methods, names, strict=True):
        rows = figures[figures["method"] == method].set_index("shots").reindex(shots)
        line = {"method": name}
        line |= {f"accuracy %, {k}-shot": percent(rows["accuracy"][k], rows["accuracy_ci95"][k]) for k in shots}
        for column, heading, digits in (("log_likelihood", "log-lik.", 3), ("ece", "ECE", 3)):
            values = {k: rows[column][k] for k in shots}
            line |= {
                f"{heading}, {k}-shot": "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")
                for k, value in values.items()
            }
        lines.append(line)
    return pd.DataFrame(lines)
