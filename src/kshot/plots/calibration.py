"""Calibration: how often an answer is right against the probability it was given with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kshot.plots.looks import SHOT_LOOKS
from kshot.plots.style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kshot.evaluation.metrics import CalibrationCurve

__all__ = ["calibration_grid", "draw_curve", "frame"]

_LEAST = 1 / 1000


def frame(axes: Axes) -> None:
    """Prepare axes for calibration curves: 0 to 1 both ways, and the diagonal of a perfect method."""
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, zorder=0)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def draw_curve(axes: Axes, curve: CalibrationCurve, **look: Any) -> None:
    """Draw the bins that hold at least one in a thousand of the answers; the rest would be noise."""
    kept = curve.count >= max(1, _LEAST * curve.count.sum())
    axes.plot(curve.confidence[kept], curve.accuracy[kept], markersize=3.5, linewidth=1.3, **look)


def calibration_grid(
    curves: Mapping[tuple[str, int], CalibrationCurve],
    *,
    methods: Sequence[str],
    shots: Sequence[int],
    label: Callable[[str], str],
    title: str,
) -> Figure:
    """Draw small panels, one per method, with a curve for each number of shots.

    Args:
        curves: by method and shots; what is missing is not drawn.
        methods: in the order of the panels.
        shots: numbers of examples per class.
        label: a method's name for the reader.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    columns = 5
    rows = -(-len(methods) // columns)
    with style():
        figure = Figure(figsize=(12.5, 2.65 * rows + 0.9), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, method in zip(panels.flat, methods, strict=False):
            frame(axes)
            for place, k in enumerate(shots):
                if (method, k) in curves:
                    errors = f"{k}-shot: ECE {curves[method, k].ece:.3f}"
                    draw_curve(axes, curves[method, k], label=errors, **SHOT_LOOKS[place])
            axes.set_title(label(method), fontsize=9.5)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(loc="lower right", fontsize=7.5, handlelength=1.2, borderaxespad=0.3)
        panels[0, 0].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])  # shared by all panels
        panels[0, 0].set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        for axes in panels.flat[len(methods) :]:
            axes.set_visible(False)
        figure.supxlabel("predicted probability of the answer", fontsize=10)
        figure.supylabel("how often it was right", fontsize=10)
        figure.suptitle(title, fontsize=12)
    return figure
