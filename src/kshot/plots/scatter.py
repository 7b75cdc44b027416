"""Calibration error against accuracy, each method a point with its name (as the third panel of the paper's Fig. 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kshot.plots.labels import place_labels
from kshot.plots.looks import looks
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["error_against_accuracy"]


def error_against_accuracy(table: pd.DataFrame, *, label: Callable[[str], str], title: str) -> Figure:
    """Draw each method's calibration error against its accuracy, at one number of shots.

    Args:
        table: rows of `kshot.evaluate` at one number of shots.
        label: a method's name for the reader.
        title: over the figure.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = table[table["ece"].notna()]
    look = looks(list(rows["method"]))
    points = np.stack([100 * rows["accuracy"], rows["ece"]], axis=1)
    with style():
        figure = Figure(figsize=(9.5, 6.2))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.085, 0.1, 0.89, 0.81))
        for method, (accuracy, error) in zip(rows["method"], points, strict=True):
            axes.plot(accuracy, error, markersize=8, linestyle="", zorder=3, **look[method])
        axes.margins(x=0.25, y=0.12)
        axes.set_ylim(0, None)
        axes.set(xlabel="accuracy (%)", ylabel="expected calibration error (ECE); lower right is best")
        place_labels(axes, points, [label(method) for method in rows["method"]], size=9)
        axes.set_title(title, loc="left")
    return figure
