"""Old and new classes together: accuracy on all, on the old and on the new (the paper's Fig. 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kshot.plots.looks import looks
from kshot.plots.style import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["online_figure"]


def online_figure(table: pd.DataFrame, *, label: Callable[[str], str], title: str) -> Figure:
    """Draw three panels, a group of points for each number of shots.

    Args:
        table: what `kshot.evaluation.online.run_online` gives.
        label: a method's name for the reader.
        title: over all panels.

    """
    from matplotlib.figure import Figure

    methods, shots = list(dict.fromkeys(table["method"])), sorted(table["shots"].unique())
    old, ways, before = (table[name].iloc[0] for name in ("old_classes", "ways", "accuracy_old_before"))
    look = looks(methods)
    with style():
        figure = Figure(figsize=(12, 4.9), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for axes, part, heading in zip(
            panels,
            ("all", "old", "new"),
            (
                f"all {old + ways} classes",
                f"the {old} old classes: is anything forgotten?",
                f"the {ways} new: are they learned?",
            ),
            strict=True,
        ):
            for number, method in enumerate(methods):
                rows = table[table["method"] == method].set_index("shots").reindex(shots)
                place = np.arange(len(shots)) + 0.13 * (number - (len(methods) - 1) / 2)
                bars = 100 * rows[f"accuracy_{part}_ci95"]
                points = 100 * rows[f"accuracy_{part}"]
                axes.errorbar(
                    place, points, yerr=bars, linestyle="", capsize=2, markersize=7, label=method, **look[method]
                )
            axes.set_xticks(range(len(shots)), [str(k) for k in shots])
            axes.set_xlim(-0.5, len(shots) - 0.5)
            axes.set(xlabel="examples per new class", title=heading)
            axes.grid(axis="x", visible=False)
        panels[1].axhline(100 * before, color="0.5", linestyle="--", linewidth=1, zorder=0)
        panels[1].annotate(
            "before anything new was learned", (-0.45, 100 * before), xytext=(0, 9), textcoords="offset points",
            fontsize=8, color="0.35",
        )  # fmt: skip
        panels[0].set_ylabel("accuracy (%), bars: 95 % interval")
        panels[0].set_ylim(-3, 103)
        handles, _ = panels[0].get_legend_handles_labels()
        figure.legend(handles, [label(method) for method in methods], loc="outside lower center", ncols=3)
        figure.suptitle(title, fontsize=13)
    return figure
