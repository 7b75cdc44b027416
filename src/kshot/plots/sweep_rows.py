"""The regularisation of logistic regression for several networks at once (the top of the paper's Fig. 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.plots.looks import SHOT_LOOKS
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sweep_rows"]

_COLUMNS = (
    ("accuracy", "accuracy (%)", 100.0),
    ("log_likelihood", "mean log-likelihood (nats)", 1.0),
    ("ece", "expected calibration error", 1.0),
)


def sweep_rows(sweep: pd.DataFrame, marks: pd.DataFrame, *, networks: Mapping[str, str], title: str) -> Figure:
    """Draw a row of panels for each network: three figures against C, a line for each number of shots.

    Args:
        sweep: columns network, C (scikit-learn's), shots, accuracy, log_likelihood, ece.
        marks: the same columns and `mark`: "chosen" (with its C), "cross-validated", "calibrated".
        networks: label -> name, in the order of the rows.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    shots = sorted(sweep["shots"].unique())
    with style():
        figure = Figure(figsize=(12.5, 3.1 * len(networks) + 1.3), layout="constrained")
        grid = figure.subplots(len(networks), 3, sharex=True, sharey="col", squeeze=False)
        for panels, (network, name) in zip(grid, networks.items(), strict=True):
            for axes, (column, heading, scale) in zip(panels, _COLUMNS, strict=True):
                for place, k in enumerate(shots):
                    own = sweep[(sweep["network"] == network) & (sweep["shots"] == k)].sort_values("C")
                    marked = marks[(marks["network"] == network) & (marks["shots"] == k)].set_index("mark")
                    colour = SHOT_LOOKS[place]["color"]
                    axes.plot(own["C"], scale * own[column], color=colour, marker=".", linewidth=1)
                    _draw_marks(axes, marked, column, scale, colour)
                axes.set_xscale("log")
                axes.set_ylabel(heading)
            panels[0].set_title(name, loc="left", fontweight="bold")
        for axes in grid[-1]:
            axes.set_xlabel("C as in scikit-learn: the prior's variance")
        grid[0, 2].set_ylim(0, None)
        figure.legend(handles=_handles(shots, marks), loc="outside lower center", ncols=3)
        figure.suptitle(title, fontsize=13)
    return figure


def _draw_marks(axes: Axes, marked: pd.DataFrame, column: str, scale: float, colour: str) -> None:
    for mark, shape, size in (("chosen", "^", 9), ("calibrated", "*", 13)):
        if mark in marked.index:
            look: dict[str, Any] = {"marker": shape, "markersize": size, "markeredgecolor": "white", "zorder": 4}
            axes.plot(marked["C"][mark], scale * marked[column][mark], color=colour, **look)
    if "cross-validated" in marked.index and np.isfinite(marked[column]["cross-validated"]):
        axes.axhline(scale * marked[column]["cross-validated"], color=colour, linestyle="--", linewidth=1, zorder=1)


def _handles(shots: list[int], marks: pd.DataFrame) -> list[Any]:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=SHOT_LOOKS[place]["color"], marker=".", label=f"{k}-shot") for place, k in enumerate(shots)
    ]
    quiet: dict[str, Any] = {"color": "0.35"}
    lines.append(Line2D([], [], marker="^", linestyle="", label="C from the base weights (the paper's 2σ²)", **quiet))
    lines.append(Line2D([], [], linestyle="--", label="cross-validated C", **quiet))
    if (marks["mark"] == "calibrated").any():
        lines.append(Line2D([], [], marker="*", linestyle="", label="Gauss (iso), calibrated", **quiet))
    return lines
