"""Fig. 7: the base weights of miniImageNet on a plane, and whether the classes that the paper names lie together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kshot.experiments.figure6 import figure6
from kshot.experiments.result import Options, Result
from kshot.features import Features

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAMED", "closeness", "figure7"]

NAMED = {
    "animals": ("goose", "house finch", "toucan", "Arctic fox", "green mamba"),
    "birds": ("goose", "house finch", "toucan"),
    "clothes": ("poncho", "miniskirt"),
    "instruments": ("organ", "oboe"),
}
"""The classes that the paper finds together (caption of Fig. 7); the words for the groups are ours."""


def figure7(features: Features, options: Options, *, name: str = "figure7", where: str = "Fig. 7, E.1") -> Result:
    """Embed the base weights by t-SNE with the classes' names, and measure the groups that the paper names."""
    drawn = figure6(features, options, name=name, where=where)
    picture = drawn.pictures[name]
    caption = picture.caption.replace("; colour and marker are its superclass, which the network was never told", "")
    tables = dict(drawn.tables)
    assert features.base_weights is not None and features.base_names is not None
    groups = _groups(features.base_names)
    if groups:
        tables[f"{name}_groups"] = closeness(features.base_weights, groups, seed=options.seed)
    if features.base_groups is None:
        pictures = {name: replace(picture, caption=caption)}
    else:
        pictures = dict(drawn.pictures)
    return replace(drawn, tables=tables, pictures=pictures)


def closeness(
    weights: NDArray[np.float64], groups: dict[str, list[int]], *, seed: int, permutations: int = 10_000
) -> pd.DataFrame:
    """Say how close the weight vectors of groups are, against random classes in their place.

    Distances are between the vectors themselves, not their places in the picture.

    Args:
        weights: (classes, p).
        groups: word -> rows.
        seed: of the permutations.
        permutations: of the classes.

    Returns a table: group, classes, distance (mean over pairs), chance, p_value (the share of permutations that are as
    close). Its last row, "all", is the mean over the groups' pairs together.

    """
    import pandas as pd

    squares = (weights**2).sum(axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] - 2 * weights @ weights.T + squares, 0))
    random = np.random.default_rng(seed)
    shuffled = random.permuted(np.broadcast_to(np.arange(len(weights)), (permutations, len(weights))), axis=1)
    pairs = {word: _pairs(rows) for word, rows in groups.items()}
    # A pair that stands in two groups (birds are animals) counts once.
    pairs["all"] = np.unique(np.concatenate(list(pairs.values())), axis=0)
    lines = []
    for word, each in pairs.items():
        own = float(distance[each[:, 0], each[:, 1]].mean())
        by_chance = distance[shuffled[:, each[:, 0]], shuffled[:, each[:, 1]]].mean(axis=1)
        p_value = (1 + float((by_chance <= own).sum())) / (1 + permutations)
        classes = len(np.unique(each))
        lines.append(
            {"group": word, "classes": classes, "distance": own, "chance": by_chance.mean(), "p_value": p_value}
        )
    return pd.DataFrame(lines)


def _pairs(rows: list[int]) -> NDArray[np.int64]:
    ordered = sorted(rows)
    return np.array([(a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 :]], np.int64)


def _groups(names: tuple[str, ...]) -> dict[str, list[int]]:
    """Find the rows of the groups all of whose classes are there."""
    place = {name: row for row, name in enumerate(names)}
    return {
        word: [place[name] for name in members]
        for word, members in NAMED.items()
        if all(name in place for name in members)
    }
