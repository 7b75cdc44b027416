"""Calibration curves: how often an answer was right against the probability it was given (as the paper's Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.plots.style import COLOURS, MARKERS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kshot.evaluation.metrics import CalibrationCurve

__all__ = ["reliability_figure"]


def reliability_figure(curves: Mapping[int, Mapping[str, CalibrationCurve]], *, title: str) -> Figure:
    """Draw a panel for each number of shots: every method's curve, and below it how its answers spread.

    Args:
        curves: for each number of shots, for each method, its calibration curve.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(1.2 + 3.9 * len(curves), 5.4), layout="constrained")
        grid = figure.subplots(2, len(curves), squeeze=False, sharex=True, height_ratios=(3, 1))
        for (above, below), (shots, methods) in zip(grid.T, curves.items(), strict=True):
            for number, (method, curve) in enumerate(methods.items()):
                colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
                # Bins with fewer than one in a thousand of the answers would be noise.
                kept = curve.count >= curve.count.sum() / 1000
                look: dict[str, Any] = {"color": colour, "linewidth": 1.3}
                label = f"{method} (error {curve.ece:.3f})"
                points = curve.confidence[kept], curve.accuracy[kept]
                above.plot(*points, marker=marker, markersize=4, label=label, **look)
                edges = np.linspace(0, 1, len(curve.count) + 1)
                below.stairs(curve.count / curve.count.sum(), edges, **look)
            above.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, zorder=0)
            above.set(xlim=(0, 1), ylim=(0, 1))
            above.set_title(f"{shots} example{'s' if shots > 1 else ''} per class")
            above.legend(loc="lower right", fontsize=7, frameon=True, framealpha=0.8, edgecolor="none")
            below.set(xlabel="predicted probability of the answer")
        grid[0, 0].set_ylabel("how often it was right")
        grid[1, 0].set_ylabel("share of answers")
        figure.suptitle(title, fontsize=12)
    return figure
