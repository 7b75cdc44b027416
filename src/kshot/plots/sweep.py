"""What the regularisation constant of logistic regression does to accuracy and calibration (the paper's Figs. 4, 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sweep_figure", "tradeoff_figure"]

_COLUMNS = (
    ("accuracy", "accuracy (%)", 100.0),
    ("log_likelihood", "mean log-likelihood (nats)", 1.0),
    ("ece", "expected calibration error", 1.0),
)
_STAR: dict[str, Any] = {
    "marker": "*",
    "color": "#D55E00",
    "markersize": 15,
    "markeredgecolor": "white",
    "linestyle": "",
    "zorder": 5,
}
_TRIANGLE: dict[str, Any] = {"marker": "^", "color": "black", "markersize": 9, "linestyle": "", "zorder": 4}
_DASHES: dict[str, Any] = {"color": "#009E73", "linestyle": "--", "linewidth": 1.4, "zorder": 1}


def sweep_figure(sweep: pd.DataFrame, marks: pd.DataFrame, *, title: str) -> Figure:
    """Draw accuracy, log-likelihood and calibration error against C, a row of panels for each number of shots.

    Args:
        sweep: columns C (scikit-learn's), shots, accuracy, log_likelihood, ece.
        marks: the same columns and `mark`: "chosen" (with its C), "cross-validated", "calibrated".
        title: over all panels.

    """
    from matplotlib.figure import Figure

    shots = sorted(sweep["shots"].unique())
    with style():
        figure = Figure(figsize=(12, 2.9 * len(shots) + 1.2), layout="constrained")
        panels = figure.subplots(len(shots), 3, sharex=True, squeeze=False)
        for row, k in zip(panels, shots, strict=True):
            for axes, (column, name, scale) in zip(row, _COLUMNS, strict=True):
                own = sweep[sweep["shots"] == k].sort_values("C")
                axes.plot(own["C"], scale * own[column], color="0.75", linewidth=1, zorder=1)
                axes.scatter(own["C"], scale * own[column], **_brightness(own["C"]), s=34, zorder=3)
                _marks_over_c(axes, marks[marks["shots"] == k].set_index("mark"), column, scale)
                axes.set_xscale("log")
                axes.set_ylabel(name)
                if column == "ece":
                    axes.set_ylim(0, None)
            row[0].set_title(_examples(k), loc="left", fontweight="bold")
        for axes in panels[-1]:
            axes.set_xlabel("C as in scikit-learn: the prior's variance")
        for axes in panels[0]:
            above = axes.secondary_xaxis("top", functions=(lambda C: 2 * C, lambda C: C / 2))
            above.set_xlabel("C as in the paper, N(0, ½C): twice as much", fontsize=8, color="0.35")
            above.tick_params(labelsize=8, colors="0.35")
            above.spines["top"].set_visible(False)
        _legend(figure, marks)
        figure.suptitle(title, fontsize=13)
    return figure


def tradeoff_figure(sweep: pd.DataFrame, marks: pd.DataFrame, *, title: str) -> Figure:
    """Draw log-likelihood and calibration error against accuracy, each point a C, from dark (small) to bright."""
    from matplotlib.figure import Figure

    shots = sorted(sweep["shots"].unique())
    with style():
        figure = Figure(figsize=(12, 7.6), layout="constrained")
        panels = figure.subplots(2, len(shots), squeeze=False)
        for column, k in enumerate(shots):
            own, marked = sweep[sweep["shots"] == k].sort_values("C"), marks[marks["shots"] == k].set_index("mark")
            for axes, (metric, name, scale) in zip(panels[:, column], _COLUMNS[1:], strict=True):
                axes.plot(100 * own["accuracy"], scale * own[metric], color="0.8", linewidth=1, zorder=1)
                axes.scatter(100 * own["accuracy"], scale * own[metric], **_brightness(own["C"]), s=40, zorder=3)
                for mark, look in (("chosen", _TRIANGLE), ("calibrated", _STAR)):
                    if mark in marked.index:
                        axes.plot(100 * marked["accuracy"][mark], scale * marked[metric][mark], **look)
                if "cross-validated" in marked.index and np.isfinite(marked[metric]["cross-validated"]):
                    axes.axvline(100 * marked["accuracy"]["cross-validated"], **_DASHES)
                    axes.axhline(scale * marked[metric]["cross-validated"], **_DASHES)
                axes.set(xlabel="accuracy (%)", ylabel=name)
                if metric == "ece":
                    axes.set_ylim(0, None)
            panels[0, column].set_title(_examples(k), loc="left", fontweight="bold")
        _legend(figure, marks)
        figure.suptitle(title, fontsize=13)
    return figure


def _examples(shots: int) -> str:
    return "1 example per class" if shots == 1 else f"{shots} examples per class"


def _brightness(constants: Any) -> dict[str, Any]:
    """Colour the points from dark (the smallest C) to bright (the largest), as the paper does."""
    from matplotlib import colormaps

    logs = np.log10(np.asarray(constants, float))
    return {"c": colormaps["inferno"](0.05 + 0.8 * (logs - logs.min()) / np.ptp(logs)), "linewidths": 0}


def _marks_over_c(axes: Axes, marked: pd.DataFrame, column: str, scale: float) -> None:
    if "chosen" in marked.index:
        axes.plot(marked["C"]["chosen"], scale * marked[column]["chosen"], **_TRIANGLE)
    if "cross-validated" in marked.index and np.isfinite(marked[column]["cross-validated"]):
        axes.axhline(scale * marked[column]["cross-validated"], **_DASHES)
    if "calibrated" in marked.index:
        axes.plot(marked["C"]["calibrated"], scale * marked[column]["calibrated"], **_STAR)


def _legend(figure: Figure, marks: pd.DataFrame) -> None:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 6}
    handles = [
        Line2D([], [], color=colormaps["inferno"](0.05), label="C = 10⁻⁵ (dark)", **dot),
        Line2D([], [], color=colormaps["inferno"](0.85), label="C = 10 (bright)", **dot),
        Line2D([], [], label="C from the base weights (the paper's 2σ²)", **_TRIANGLE),
        Line2D([], [], label="cross-validated C", **_DASHES),
    ]
    if (marks["mark"] == "calibrated").any():
        handles.append(Line2D([], [], label="Gauss (iso), calibrated: scale and temperature", **_STAR))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
