"""Several networks beside each other: accuracy by network, and for each a row of panels (the paper's Figs. 3 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kshot.plots.looks import looks
from kshot.plots.panels import draw_panels
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from kshot.evaluation.metrics import CalibrationCurve

__all__ = ["accuracy_by_network", "panel_rows"]

Name = Callable[[str], str]


def accuracy_by_network(
    table: pd.DataFrame, *, networks: Sequence[str], label: Name, network_name: Name, title: str
) -> Figure:
    """Draw a panel for each number of shots: the networks along the axis, a marker for each method.

    Args:
        table: columns network, method, shots, accuracy, accuracy_ci95.
        networks: in the order of the axis.
        label: a method's name for the reader.
        network_name: a network's.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    methods, shots = list(dict.fromkeys(table["method"])), sorted(table["shots"].unique())
    look = looks(methods)
    with style():
        figure = Figure(figsize=(1.5 + 4.1 * len(shots), 5.4), layout="constrained")
        panels = figure.subplots(1, len(shots), squeeze=False)[0]
        for axes, k in zip(panels, shots, strict=True):
            for number, method in enumerate(methods):
                at = (table["method"] == method) & (table["shots"] == k)
                rows = table[at].set_index("network").reindex(networks)
                place = np.arange(len(networks)) + 0.09 * (number - (len(methods) - 1) / 2)
                bars = 100 * rows["accuracy_ci95"]
                drawn = {"linestyle": "", "capsize": 2, "markersize": 6, "label": method, **look[method]}
                axes.errorbar(place, 100 * rows["accuracy"], yerr=bars, **drawn)
            names = [network_name(network).replace(" (", "\n(") for network in networks]
            axes.set_xticks(range(len(networks)), names, fontsize=8)
            axes.set_xlim(-0.5, len(networks) - 0.5)
            axes.grid(axis="x", visible=False)
            axes.set_title("1 example per class" if k == 1 else f"{k} examples per class")
        panels[0].set_ylabel("accuracy (%), bars: 95 % interval")
        handles, _ = panels[0].get_legend_handles_labels()
        figure.legend(handles, [label(method) for method in methods], loc="outside lower center", ncols=4)
        figure.suptitle(title, fontsize=13)
    return figure


def panel_rows(
    rows: Mapping[str, tuple[pd.DataFrame, Mapping[str, CalibrationCurve]]],
    *,
    methods: Sequence[str],
    shots: int,
    label: Name,
    title: str,
) -> Figure:
    """Draw for each network the four panels of Fig. 2 in a row.

    Args:
        rows: by a network's name: what `kshot.evaluate` gives, and its methods' calibration curves at `shots`.
        methods: in the order of the legend; one that a network lacks is not drawn there.
        shots: the number of examples per class of the last two panels.
        label: a method's name for the reader.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(17, 3.9 * len(rows) + 1.4), layout="constrained")
        grid = figure.subplots(len(rows), 4, sharey="col", squeeze=False)
        for panels, (name, (table, curves)) in zip(grid, rows.items(), strict=True):
            draw_panels(list(panels), table, curves, methods=methods, shots=shots, titles=False)
            panels[0].set_title(name, loc="left", fontweight="bold")
        # The rows share their limits, which each row's own drawing has fixed too early.
        largest = max(table[table["shots"] == shots]["ece"].max() for table, _ in rows.values())
        grid[0, 2].set_ylim(0, 1.08 * largest)
        grid[0, 1].set_title("higher is better")
        grid[0, 2].set_title(f"{shots} examples per class: lower right is best")
        grid[0, 3].set_title(f"{shots} examples per class, dashed: perfect")
        handles, _ = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, [label(method) for method in methods], loc="outside lower center", ncols=4)
        figure.suptitle(title, fontsize=13)
    return figure
