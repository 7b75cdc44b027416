"""How much better than the isotropic Gaussian each prior explains held-out base weights (as the paper's Table 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kshot.plots.style import COLOURS, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["held_out_figure"]


def held_out_figure(table: pd.DataFrame, *, reference: str = "gauss-iso") -> Figure:
    """Draw a line per prior: its gain in nats over the reference, here and (where it is known) in the paper.

    Args:
        table: columns method, label, neg_log_prob, standard_error, paper, paper_error; a row is the reference.
        reference: the method at zero.

    """
    from matplotlib.figure import Figure

    base = table.set_index("method").loc[reference]
    place = np.arange(len(table))[::-1]
    known = bool(table["paper"].notna().any())
    with style():
        figure = Figure(figsize=(8, 0.42 * len(table) + 1.7), layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color="0.6", linewidth=1)
        for column, error, colour, marker, name, shift in (
            ("neg_log_prob", "standard_error", COLOURS[0], "o", "this network", 0.13 * known),
            ("paper", "paper_error", COLOURS[1], "D", "the paper's network", -0.13),
        ):
            if not table[column].notna().any():
                continue
            look: dict[str, Any] = {"color": colour, "marker": marker, "label": name}
            axes.errorbar(
                base[column] - table[column], place + shift, xerr=table[error], linestyle="", capsize=2, **look
            )
        axes.set_yticks(place, table["label"])
        axes.set_ylim(-0.6, len(table) - 0.4)
        axes.set_xlabel("nats per held-out weight vector above the isotropic Gaussian (bars: standard errors)")
        axes.set_title("How well each prior explains weights of classes it has not seen (right is better)", loc="left")
        axes.grid(axis="y", visible=False)
        if known:
            axes.legend(loc="lower right")
    return figure
