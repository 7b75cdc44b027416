"""What every experiment takes and gives: options in, a small frozen result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kshot.inference.settings import NUTS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Options", "Picture", "Result"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What all experiments of one run share; the defaults are the paper's numbers.

    Args:
        shots: examples per class, k.
        tasks: tasks at each number of shots, Section 4's protocol.
        repeated: tasks under the protocol of E.4, ten for each choice of classes.
        queries: queries per class of a task.
        seed: decides tasks, splits, draws and the t-SNE.
        splits: random splits of the base weights behind Table 9.
        nuts: whether the rows that sample are run; `sampler` says how.
        cache: folder of finished predictions; None keeps none.
        progress: is told in words what begins.

    """

    shots: tuple[int, ...] = (1, 5, 10)
    tasks: int = 600
    repeated: int = 200
    queries: int = 15
    seed: int = 0
    splits: int = 50
    nuts: bool = True
    sampler: NUTS = field(default_factory=lambda: NUTS(chains=2, warmup=300, draws=300, progress=False))
    cache: Path | None = None
    progress: Callable[[str], None] = lambda step: None


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the sentence that says what to see on it."""

    figure: Figure
    caption: str


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of one experiment.

    Args:
        name: "figure2"; also the stem of its files.
        title: what it is about, for someone who has not read the paper.
        where: which part of the paper it stands for.
        tables: file stem -> the numbers; the first, named as the experiment, is the one behind its figure.
        pictures: file stem -> figure with caption.
        shown: the short table for the page, its cells ready to read; None for none.
        notes: how it was done, a sentence each.

    """

    name: str
    title: str
    where: str
    tables: Mapping[str, pd.DataFrame]
    pictures: Mapping[str, Picture]
    shown: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
