"""Figs. 6 and 7: the base weights on a plane by t-SNE, where alike classes lie together (Appendix E.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.embedding import embedding_figure

__all__ = ["figure6", "neighbour_agreement"]

PERPLEXITY = 8.0


def figure6(features: Features, options: Options, *, name: str = "figure6", where: str = "Fig. 6, E.1") -> Result:
    """Embed the base weights by t-SNE, coloured by superclass where there is one."""
    import pandas as pd

    options.progress("Fig. 6: t-SNE of the base weights")
    weights = features.base_weights
    if weights is None or features.base_names is None:
        raise UserError("the t-SNE is of base weights, and these features have none: set base_weights")
    points = _embed(weights, options.seed)
    names = [each.replace("_", " ") for each in features.base_names]
    groups = None if features.base_groups is None else [str(group).replace("_", " ") for group in features.base_groups]
    table = pd.DataFrame({"class": names, "superclass": groups, "x": points[:, 0], "y": points[:, 1]})
    tables = {name: table}
    if groups is not None:
        tables[f"{name}_neighbours"] = pd.DataFrame([neighbour_agreement(weights, groups, seed=options.seed)])
    title = "The weight vectors of the base classes, each a point: near ones have alike weights (t-SNE)"
    return Result(
        name=name,
        title="Do the weights of the base classes have structure?",
        where=where,
        tables=tables,
        pictures={
            name: Picture(
                embedding_figure(points, names, groups, title=title),
                f"Each point is one of the {len(names)} base classes, placed by its {weights.shape[1]} weights in "
                "the last layer alone; colour and marker are its superclass, which the network was never told. Only "
                "nearness means something: a t-SNE has no axes.",
            )
        },
        notes=(
            f"scikit-learn's t-SNE (exact, perplexity {PERPLEXITY:.0f}, started from the principal components, seed "
            f"{options.seed}) of the weights with their mean removed.",
        ),
    )


def neighbour_agreement(
    weights: NDArray[np.float64], groups: list[str], *, seed: int, permutations: int = 10_000
) -> dict[str, float]:
    """Say how often a class's nearest neighbour among the weight vectors is of its own superclass, and by chance.

    Distances are between the vectors themselves, not their places in the picture. Chance is by permuting the
    superclasses; `p_value` is the share of permutations that do as well.
    """
    _, labels = np.unique(groups, return_inverse=True)
    squares = (weights**2).sum(axis=1)
    distance = squares[:, None] - 2 * weights @ weights.T + squares
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(axis=1)
    agreement = float((labels == labels[nearest]).mean())
    random = np.random.default_rng(seed)
    shuffled = random.permuted(np.broadcast_to(labels, (permutations, len(labels))), axis=1)
    by_chance = (shuffled == shuffled[:, nearest]).mean(axis=1)
    p_value = (1 + float((by_chance >= agreement).sum())) / (1 + permutations)
    return {"agreement": agreement, "chance": float(by_chance.mean()), "p_value": p_value, "classes": len(labels)}


def _embed(weights: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(weights) - 1) / 3)
    # The exact method: for so few points it is quick, and its sums do not depend on the number of threads.
    model = TSNE(perplexity=perplexity, init="pca", method="exact", random_state=seed, learning_rate="auto")
    return np.asarray(model.fit_transform(weights - weights.mean(axis=0)), np.float64)
