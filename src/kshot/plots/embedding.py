"""Points on a plane with their names, coloured by group (as the paper's Figs. 6 and 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.plots.labels import place_labels
from kshot.plots.style import COLOURS, MARKERS, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["embedding_figure"]


def embedding_figure(
    points: NDArray[np.float64], names: Sequence[str], groups: Sequence[str] | None, *, title: str
) -> Figure:
    """Draw each point with its name; a group has a colour and a marker of its own.

    Args:
        points: (n, 2).
        names: (n,).
        groups: (n,) or None.
        title: over the figure.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = sorted(set(groups)) if groups is not None else []
    # Colours change fastest, so that groups of one colour differ in their marker.
    looks = {kind: (COLOURS[i % 7], MARKERS[(i // 7 + 3 * (i % 7)) % len(MARKERS)]) for i, kind in enumerate(kinds)}
    with style():
        figure = Figure(figsize=(12.5, 9.5))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.015, 0.02, 0.76 if kinds else 0.97, 0.925))
        own = groups if groups is not None else [""] * len(names)
        for kind in kinds or [""]:
            rows = np.flatnonzero([group == kind for group in own])
            colour, marker = looks.get(kind, (COLOURS[0], "o"))
            look: dict[str, Any] = {"c": colour, "marker": marker, "s": 42, "linewidths": 0, "zorder": 3}
            axes.scatter(points[rows, 0], points[rows, 1], label=kind, **look)
        axes.margins(0.07)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        place_labels(axes, points, names)
        axes.set_title(title, loc="left", fontsize=13)
        if kinds:
            figure.legend(loc="center left", bbox_to_anchor=(0.78, 0.5), title="superclass", labelspacing=0.75)
    return figure
