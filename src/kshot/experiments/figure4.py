"""Figs. 4 and 9: logistic regression with every regularisation constant, and what each way of choosing it gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kshot.evaluation.logistic import CS, Multinomial, variance_of
from kshot.evaluation.runner import per_task, table
from kshot.experiments.calibrated import CALIBRATED, possible
from kshot.experiments.compared import compared
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.sweep import sweep_figure, tradeoff_figure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MARKS", "figure4", "swept_tables"]

MARKS = {"chosen": "logreg-sigma2", "cross-validated": "logreg-cv", "calibrated": CALIBRATED}
"""The points that are not one C of the sweep, and the methods behind them."""


def figure4(
    features: Features, options: Options, *, name: str = "figure4", where: str = "Figs. 4 and 9, E.3"
) -> Result:
    """Sweep C over six decades, on the same tasks as Fig. 2."""
    sweep, marks, per_task_table = swept_tables(features, options, what="Fig. 4")
    title = f"The regularisation of logistic regression ({options.tasks} tasks of five new classes)"
    return Result(
        name=name,
        title="Does the regularisation constant matter, and can it be known beforehand?",
        where=where,
        tables={name: sweep, f"{name}_marks": marks, f"{name}_per_task": per_task_table},
        pictures={
            name: Picture(
                sweep_figure(sweep, marks, title=title),
                "Each dot is logistic regression with one C, from strong regularisation (dark) to none to speak of "
                "(bright). The triangle is the C that the base weights give, the dashed line what cross-validation "
                "reaches, the star this project’s calibrated prior, at the variance of its prior.",
            ),
            f"{name}_tradeoff": Picture(
                tradeoff_figure(sweep, marks, title=title),
                "The same points, calibration against accuracy: above, up and right is best; below, down and right. "
                "The dashed lines cross where cross-validation is.",
            ),
        },
        notes=(
            "The lower axes have scikit-learn’s C, which is the variance of the prior; the paper’s C is twice that, "
            f"and is on the upper axes. σ² = {variance_of(features):.5f} is the variance of the base weights around "
            "their mean. The sweep and the tasks are the same for every point; solved by this library’s Newton "
            "method, whose optimum is scikit-learn’s.",
        ),
    )


def swept_tables(features: Features, options: Options, *, what: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Run the sweep and the marked methods; give the tables of both, and of every task."""
    # The sweep takes seconds and its predictions are large: they are not kept.
    swept = compared(features, [Multinomial(C) for C in CS], replace(options, cache=None), what=what)
    marked = compared(features, possible(list(MARKS.values()), features), options, what=what)
    sweep, marks = table(swept), table(marked)
    sweep.insert(2, "C", [CS[i // len(options.shots)] for i in range(len(sweep))])
    marks.insert(2, "C", _constants(features, marks))
    mark_of = {method: mark for mark, method in MARKS.items()}
    marks.insert(3, "mark", [mark_of[method] for method in marks["method"]])
    return sweep, marks, per_task([*swept, *marked])


def _constants(features: Features, marks: pd.DataFrame) -> list[float]:
    """Give the place of each mark on the axis of C: the variance of its prior; NaN where it changes with the task."""
    from kshot.evaluation.methods import prior_of

    place = {"logreg-sigma2": variance_of(features)}
    if CALIBRATED in set(marks["method"]):
        place[CALIBRATED] = float(prior_of(CALIBRATED, features).prior.covariance.diagonal()[0])
    return [place.get(method, float("nan")) for method in marks["method"]]
