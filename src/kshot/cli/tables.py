"""The table of an evaluation as a terminal shows it: a line per method, a column per figure and number of shots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

__all__ = ["results_table"]


def results_table(results: pd.DataFrame, *, digits: int = 2) -> Table:
    """Lay out accuracy, log-likelihood and ECE at each number of shots; a figure that does not exist is a dash."""
    from rich.table import Table

    shots = list(results["shots"].unique())
    grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    grid.add_column("method\n", no_wrap=True)
    for figure in ("accuracy %", "log-lik.", "ECE"):
        for k in shots:
            # The figure's name stands over its middle column.
            grid.add_column(f"{figure if k == shots[len(shots) // 2] else ''}\n{k}-shot", justify="right", no_wrap=True)
    for method, rows in results.groupby("method", sort=False):
        figures = rows[["accuracy", "accuracy_ci95", "log_likelihood", "ece"]].to_numpy(float)
        accuracy = [f"{100 * mean:.1f} ±{100 * half:.1f}" if mean == mean else "–" for mean, half, _, _ in figures]
        others = [[_shown(row[column], digits) for row in figures] for column in (2, 3)]
        grid.add_row(str(method), *accuracy, *others[0], *others[1])
    return grid


def _shown(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value == value else "–"
