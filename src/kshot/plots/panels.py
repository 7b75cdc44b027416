"""Accuracy, log-likelihood, calibration error against accuracy, and calibration curves: the four panels of Fig. 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kshot.plots.calibration import draw_curve, frame
from kshot.plots.looks import looks
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kshot.evaluation.metrics import CalibrationCurve

__all__ = ["draw_panels", "four_panels"]


def four_panels(
    table: pd.DataFrame,
    curves: Mapping[str, CalibrationCurve],
    *,
    shots: int,
    label: Callable[[str], str],
    title: str,
) -> Figure:
    """Draw two panels over the numbers of shots and two at one of them.

    Args:
        table: what `kshot.evaluate` gives.
        curves: for each method, its calibration curve at `shots`; methods without one are left out of that panel.
        shots: the number of examples per class of the last two panels.
        label: a method's name for the reader.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(table["method"]))
    with style():
        figure = Figure(figsize=(11, 9.4), layout="constrained")
        panels = list(figure.subplots(2, 2).flat)
        draw_panels(panels, table, curves, methods=methods, shots=shots)
        handles, _ = panels[0].get_legend_handles_labels()
        figure.legend(handles, [label(method) for method in methods], loc="outside lower center", ncols=3)
        figure.suptitle(title, fontsize=13)
    return figure


def draw_panels(
    panels: Sequence[Axes],
    table: pd.DataFrame,
    curves: Mapping[str, CalibrationCurve],
    *,
    methods: Sequence[str],
    shots: int,
    titles: bool = True,
) -> None:
    """Draw the four panels on axes that are there; `methods` decide the looks, which rows of panels can share."""
    accuracy, likelihood, error, calibration = panels
    look = looks(methods)
    _over_shots(accuracy, table, "accuracy", methods, scale=100)
    _over_shots(likelihood, table, "log_likelihood", methods, scale=1)
    accuracy.set(ylabel="accuracy (%), bars: 95 % interval")
    likelihood.set(ylabel="mean log-likelihood (nats)")
    at = table[(table["shots"] == shots) & table["ece"].notna()].set_index("method")
    for method in at.index:
        row = at.loc[method]
        error.errorbar(100 * row["accuracy"], row["ece"], xerr=100 * row["accuracy_ci95"], **look[method], capsize=2)
    error.set(xlabel="accuracy (%)", ylabel="expected calibration error (ECE)", ylim=(0, None))
    frame(calibration)
    for method, curve in curves.items():
        draw_curve(calibration, curve, **look[method])
    calibration.set(xlabel="predicted probability of the answer", ylabel="how often it was right")
    if titles:
        accuracy.set_title("How often it is right")
        likelihood.set_title("How well it knows (higher is better)")
        error.set_title(f"Calibration error against accuracy, {shots} examples per class (lower right is best)")
        calibration.set_title(f"Calibration, {shots} examples per class (dashed: perfect)")


def _over_shots(axes: Axes, table: pd.DataFrame, column: str, methods: Sequence[str], *, scale: float) -> None:
    shots = sorted(table["shots"].unique())
    look = looks(methods)
    for number, method in enumerate(methods):
        rows = table[table["method"] == method].set_index("shots").reindex(shots)
        # Side by side, so that methods that agree are both seen.
        place = np.arange(len(shots)) + 0.05 * (number - (len(methods) - 1) / 2)
        bars = scale * rows[f"{column}_ci95"]
        axes.errorbar(place, scale * rows[column], yerr=bars, capsize=2, label=method, linewidth=1.2, **look[method])
    axes.set_xticks(range(len(shots)), [str(k) for k in shots])
    axes.set_xlabel("examples per class")
