"""Names beside the points of a scatter plot, placed so that they cover neither each other nor the points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["place_labels"]

Floats = NDArray[np.float64]

# Where a name may stand: directions, nearest and most usual first, then the same farther out.
_ANGLES = np.radians([0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202, 68, 112, 248, 292])
_DISTANCES = (1.0, 1.8, 2.8, 4.0, 5.5)


def place_labels(axes: Axes, points: Floats, names: Sequence[str], *, size: float = 8) -> int:
    """Write each name near its point: the nearest free place, with a thin line to the point where that is far.

    The limits of the axes and the size of the figure must be final. Crowded points come first.

    Args:
        axes: on a figure with a canvas that can draw.
        points: (n, 2) in data coordinates.
        names: (n,) what to write.
        size: of the font.

    Returns how many names still cover something.

    """
    figure = axes.figure
    axes.get_xlim(), axes.get_ylim()  # limits are computed when they are asked for
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    at = axes.transData.transform(points)
    frame = axes.get_window_extent(renderer).padded(-2)
    unit = size * figure.dpi / 72
    dots = np.concatenate([at - 0.45 * unit, at + 0.45 * unit], axis=1)
    crowding = np.sort(np.linalg.norm(at[:, None] - at[None], axis=2), axis=1)[:, 1:6].mean(axis=1)
    taken: list[Floats] = []
    covered = 0
    for index in np.argsort(crowding):
        text = axes.text(0, 0, names[index], fontsize=size, color="0.2", ha="center", va="center", zorder=4)
        box = text.get_window_extent(renderer)
        half = np.array([box.width, box.height]) / 2 + 1
        centre, distance, cost = _best_place(at[index], half, unit, np.array([*dots, *taken]), np.array(frame.extents))
        covered += cost > 0
        taken.append(np.concatenate([centre - half, centre + half]))
        text.set_position(tuple(axes.transData.inverted().transform(centre)))
        if distance > 1.5:
            ends = axes.transData.inverted().transform(np.stack([at[index], centre]))
            axes.plot(ends[:, 0], ends[:, 1], color="0.6", linewidth=0.6, zorder=1)
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85})
    return covered


def _best_place(point: Floats, half: Floats, unit: float, boxes: Floats, frame: Floats) -> tuple[Floats, float, float]:
    """Try the places in their order; give the first that covers nothing, or else the one that covers least."""
    best: tuple[Floats, float, float] | None = None
    for distance in _DISTANCES:
        for angle in _ANGLES:
            way = np.array([np.cos(angle), np.sin(angle)])
            centre = point + way * (half + 0.6 * unit * distance)
            corners = np.concatenate([centre - half, centre + half])
            width = np.minimum(corners[2], boxes[:, 2]) - np.maximum(corners[0], boxes[:, 0])
            height = np.minimum(corners[3], boxes[:, 3]) - np.maximum(corners[1], boxes[:, 1])
            cost = float((np.maximum(width, 0) * np.maximum(height, 0)).sum())
            outside = (corners[:2] < frame[:2]).any() or (corners[2:] > frame[2:]).any()
            cost += 1e6 * outside
            if cost == 0:
                return centre, distance, 0.0
            if best is None or cost < best[2]:
                best = centre, distance, cost
    assert best is not None
    return best
