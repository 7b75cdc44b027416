"""The same colour and marker for a method in every figure of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshot.plots.style import COLOURS, MARKERS

__all__ = ["SHOT_LOOKS", "looks"]

SHOT_LOOKS: dict[int, dict[str, Any]] = {
    place: {"color": colour, "marker": marker}
    for place, (colour, marker) in enumerate((("#56B4E9", "o"), ("#0072B2", "s"), ("#000000", "^"), ("#D55E00", "D")))
}
"""Numbers of shots in their order: from light to dark, and another marker each."""


def looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give each method a colour and a marker, by its place: pairs repeat only after 56 methods.

    >>> looks(["gauss-iso", "nearest"])["nearest"]
    {'color': '#D55E00', 'marker': 's'}
    """
    size = len(COLOURS)
    return {
        method: {"color": COLOURS[i % size], "marker": MARKERS[(i + i // size) % len(MARKERS)]}
        for i, method in enumerate(methods)
    }
