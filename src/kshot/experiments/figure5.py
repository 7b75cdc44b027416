"""Fig. 5: five new classes learned beside all the old ones, tested on both (Section 4.1, online)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshot.concepts.calibrated import Calibration
from kshot.evaluation.calibrated_prior import backbone_name
from kshot.evaluation.online import online_outcomes, online_per_task, online_table
from kshot.experiments.calibrated import CALIBRATED
from kshot.experiments.compared import percent
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.online import online_figure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METHODS", "figure5"]

METHODS = ("gauss-iso", CALIBRATED, "logreg-sigma2", "logreg-mle", "logreg-sigma2-only-new")


def figure5(
    features: Features, options: Options, *, name: str = "figure5", where: str = "Fig. 5, Section 4.1"
) -> Result:
    """Test old and new classes in one softmax."""
    methods = _methods(features)
    outcomes = list(
        online_outcomes(
            features,
            methods,
            shots=options.shots,
            tasks=options.tasks,
            queries=options.queries,
            seed=options.seed,
            progress=lambda method, shots: options.progress(f"Fig. 5: {method}, {shots} examples per class"),
        )
    )
    table = online_table(outcomes)
    old, images = int(table["old_classes"][0]), 0 if features.base_X is None else len(features.base_X)
    title = f"Learning 5 new classes beside {old} old ones ({options.tasks} tasks)"
    return Result(
        name=name,
        title="Can new classes be learned without forgetting the old?",
        where=where,
        tables={name: table, f"{name}_per_task": online_per_task(outcomes)},
        pictures={
            name: Picture(
                online_figure(table, label=label, title=title),
                "Accuracy when old and new classes compete in one softmax. A method should stay near the dashed "
                "line in the middle panel and be high in the right one.",
            )
        },
        shown=_shown(table),
        notes=(
            f"Each task adds 5 new classes to the {old} old ones and is tested on all {images} kept-aside test "
            f"images of the old classes and on {options.queries} queries of each new class. Each class counts the "
            "same in “all” and “old”. Old weights stay as they are; only the new ones are learned.",
            "Log Reg is the prior N(0, σ²I) beside the old weights (the paper’s 2σ²); “only new” learns without the "
            "old weights and is put beside them afterwards. Maximum likelihood has no finite optimum here: it is "
            f"fitted with the stopping rule of `logreg-mle`. {_calibrated(methods)}",
        ),
    )


def _methods(features: Features) -> list[str]:
    """Leave the calibrated prior out where its numbers for old and new classes together are not known."""
    known = Calibration.is_bundled(backbone_name(features) or "", setting="joint")
    return [method for method in METHODS if known or method != CALIBRATED]


def _calibrated(methods: Sequence[str]) -> str:
    if CALIBRATED in methods:
        return "The calibrated prior has the scale fitted for old and new classes together."
    return (
        "The calibrated prior was not run: its numbers for old and new classes together are not bundled for this "
        "network, and to fit them on the images that it is tested on would not be fair."
    )


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    lines = []
    for method, rows in table.groupby("method", sort=False):
        own = rows.set_index("shots")
        line = {"method": label(str(method))}
        for part in ("all", "old", "new"):
            columns = own[[f"accuracy_{part}", f"accuracy_{part}_ci95"]]
            line |= {f"{part} %, {k}-shot": percent(*columns.loc[k]) for k in own.index}
        lines.append(line)
    return pd.DataFrame(lines)
