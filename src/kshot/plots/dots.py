"""Many methods at once: a line for each, a column for each figure, a marker for each number of shots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kshot.plots.looks import SHOT_LOOKS
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["dot_figure"]

_SPAN = 1.5
"""Nats below the best log-likelihood that are shown; what lies farther left is written at the edge."""

_COLUMNS = (
    ("accuracy", "Accuracy (%)\nright is better", 100.0),
    ("log_likelihood", "Mean log-likelihood (nats)\nright is better", 1.0),
    ("ece", "Expected calibration error\nleft is better", 1.0),
)


def dot_figure(
    table: pd.DataFrame, *, label: Callable[[str], str], title: str, rules_after: Sequence[str] = ()
) -> Figure:
    """Draw accuracy, log-likelihood and calibration error of every method at every number of shots.

    Args:
        table: what `kshot.evaluate` gives; intervals are drawn where it has them.
        label: a method's name for the reader.
        title: over all columns.
        rules_after: methods below which a line parts one kind of method from the next.

    """
    from matplotlib.figure import Figure

    methods, shots = list(dict.fromkeys(table["method"])), sorted(table["shots"].unique())
    place = np.arange(len(methods))[::-1]
    with style():
        figure = Figure(figsize=(12.5, 0.36 * len(methods) + 1.9), layout="constrained")
        panels = figure.subplots(1, len(_COLUMNS), sharey=True)
        for axes, (column, heading, scale) in zip(panels, _COLUMNS, strict=True):
            for order, k in enumerate(shots):
                rows = table[table["shots"] == k].set_index("method").reindex(methods)
                bars = scale * rows[f"{column}_ci95"] if f"{column}_ci95" in rows else None
                look = {"linestyle": "", "capsize": 2, "markersize": 6, "label": f"{k}", **SHOT_LOOKS[order]}
                axes.errorbar(scale * rows[column], place, xerr=bars, **look)
            if column == "log_likelihood":
                _cut_off(axes, table, methods, place)
            axes.locator_params(axis="x", nbins=6)
            axes.set_title(heading, fontsize=10.5)
            for method in rules_after:
                if method in methods:
                    axes.axhline(place[methods.index(method)] - 0.5, color="0.75", linewidth=0.8)
        panels[0].set_yticks(place, [label(method) for method in methods])
        panels[0].set_ylim(-0.6, len(methods) - 0.4)
        panels[-1].set_xlim(0, None)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(shots), title="examples per class")
        figure.suptitle(title, fontsize=13)
    return figure


def _cut_off(axes: Axes, table: pd.DataFrame, methods: Sequence[str], place: NDArray[np.int64]) -> None:
    """Leave out what is far below the rest, so that the rest can be told apart, and write it at the left edge."""
    values = table["log_likelihood"]
    edge = values.max() - _SPAN
    if values.min() >= edge:
        return
    axes.set_xlim(edge, values.max() + 0.05 * _SPAN)
    for method, at in zip(methods, place, strict=True):
        below = table[(table["method"] == method) & (values < edge)].sort_values("shots")
        if len(below):
            text = "◂ " + ", ".join(f"{value:.1f}" for value in below["log_likelihood"]).replace("-", "−")
            where = f" at {', '.join(str(k) for k in below['shots'])}" if len(below) < table["shots"].nunique() else ""
            axes.annotate(text + where, (edge, at), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
