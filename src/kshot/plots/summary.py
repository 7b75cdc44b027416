"""Accuracy, log-likelihood and calibration of several methods, side by side (as the paper's Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.plots.style import COLOURS, MARKERS, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kshot.evaluation.metrics import CalibrationCurve

__all__ = ["summary_figure"]


def summary_figure(table: pd.DataFrame, curves: Mapping[str, CalibrationCurve], *, shots: int, title: str) -> Figure:
    """Draw three panels: accuracy and log-likelihood against the shots, and calibration curves at one of them.

    Args:
        table: what `kshot.evaluate` gives.
        curves: for each method of the table, its calibration curve at `shots`.
        shots: the number of examples per class of the third panel.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 4.2), layout="constrained")
        accuracy, likelihood, calibration = figure.subplots(1, 3)
        for number, (method, rows) in enumerate(table.groupby("method", sort=False)):
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            look["label"] = str(method)
            position = np.arange(len(rows)) + 0.04 * (number - (table["method"].nunique() - 1) / 2)
            accuracy.errorbar(position, 100 * rows["accuracy"], yerr=100 * rows["accuracy_ci95"], capsize=2, **look)
            likelihood.plot(position, rows["log_likelihood"], **look)
            _calibration_curve(calibration, curves[str(method)], look)
        ticks = [f"{k}" for k in table["shots"].unique()]
        for axes, label in ((accuracy, "accuracy (%), with 95 % interval"), (likelihood, "mean log-likelihood (nats)")):
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set(xlabel="examples per class", ylabel=label)
        accuracy.set_title("How often it is right")
        likelihood.set_title("How well it knows (higher is better)")
        calibration.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, zorder=0)
        calibration.annotate("perfect", (0.06, 0.09), color="0.45", rotation=38, fontsize=8)
        calibration.set(
            xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability of the answer", ylabel="how often it was right"
        )
        calibration.set_title(f"Calibration at {shots} examples per class")
        handles, labels = likelihood.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 8))
        figure.suptitle(title, fontsize=12)
    return figure


def _calibration_curve(axes: Axes, curve: CalibrationCurve, look: dict[str, Any]) -> None:
    """Draw the bins that hold at least one in a thousand of the answers; the rest would be noise."""
    kept = curve.count >= curve.count.sum() / 1000
    axes.plot(curve.confidence[kept], curve.accuracy[kept], markersize=4, linewidth=1.3, **look)
