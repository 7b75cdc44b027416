"""One style for every figure: colours that the colour-blind can tell apart, markers besides, quiet axes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "MARKERS", "save", "style"]

# Okabe and Ito's palette without its yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the project's style inside this block, and leave matplotlib's settings alone outside it."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "axes.titlesize": 11,
        "axes.labelsize": 10,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "kshot",  # the same figure gives the same file
        "figure.dpi": 120,
    }
    with mpl.rc_context(settings):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix, atomically and without a date in it."""
    kind = path.suffix.removeprefix(".")
    metadata = {"svg": {"Date": None}, "png": {"Software": None}}.get(kind)
    # Inside the style again: what makes two SVG files alike is read when they are written.
    with atomic_path(path) as temporary, style():
        figure.savefig(temporary, format=kind, metadata=metadata)
