"""Table 1's question asked again: do methods that train by episodes beat batch training with a Gaussian prior?

The competitors were trained here, on CIFAR-100, and the same network once more by batches, on about as many images as
Prototypical Networks saw. What is read are the bundled predictions and features: neither torch nor images.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kshot.evaluation.episodic import Episodic
from kshot.evaluation.outcome import Outcome
from kshot.evaluation.runner import run
from kshot.experiments.compared import outcome_tables, shown_table
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.dots import dot_figure
from kshot.training.episodic import METHODS, UNTRAINED
from kshot.training.episodic.model_file import bundled

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BATCH", "DEEPER", "SHOTS", "TRAINED", "episodic"]

NETWORK = "conv4-cifar100"
BATCH, DEEPER = "gauss-iso-conv4", "gauss-iso-vgg"
"""Gauss (iso) on the competitors' network trained by batches, and on the paper's deeper one."""

SHOTS = (1, 5)
"""Each method was trained at these, and is tested at these."""

TRAINED = tuple(f"{method}-{shots}shot" for method in METHODS for shots in SHOTS)


def episodic(features: Features, options: Options, *, name: str = "episodic") -> Result:
    """Set the bundled episodic methods beside Gauss (iso) on their own network, trained by batches.

    Args:
        features: of the deeper network, whose row is left out where they are not of the same images.
        options: only its `progress` is used. The tasks are always those of the bundled predictions, the default ones of
            `kshot.evaluate`.
        name: also the stem of the files.

    """
    options.progress("Methods that train by episodes: reading their predictions")
    conv4 = Features.load(NETWORK)
    outcomes = list(run(conv4, [Episodic(each) for each in (*TRAINED, *UNTRAINED)], shots=SHOTS))
    outcomes += _gaussian(conv4, BATCH)
    if features.source.get("images") == conv4.source["images"]:
        outcomes += _gaussian(features, DEEPER)
    tables = outcome_tables(name, outcomes, references=(BATCH, *TRAINED[::2]))
    table = tables[name]
    table["backbone"] = [_network(method, features) for method in table["method"]]
    costs = {method: _cost(method, conv4) for method in table["method"].unique()}
    for column in ("training_minutes", "training_images"):
        table[column] = [costs[method].get(column, float("nan")) for method in table["method"]]
    title = "Training by episodes and by batches: 5 new classes of CIFAR-100, 600 tasks"
    return Result(
        name=name,
        title="Does training by episodes pay?",
        where="Table 1, Sections 3 and 4.1, on CIFAR-100",
        tables={stem: tables[stem] for stem in (name, f"{name}_differences", f"{name}_calibration")},
        pictures={
            name: Picture(
                dot_figure(table, label=label, title=title, rules_after=(TRAINED[-1], UNTRAINED[-1])),
                "Above the methods that train by episodes, each trained at 1 and at 5 shots and tested at both; then "
                "nearest neighbour on their networks before any training; below Gauss (iso) on the same network "
                "trained by batches, and on the paper’s deeper one.",
            )
        },
        shown=_shown(table),
        notes=(
            "The competitors’ network has four convolutions of 64 filters (the Meta-Learner LSTM’s 32, as its authors "
            "have it). Minutes are of one CPU core, images counted as often as they were seen; the model cards in "
            "docs/models have the commands.",
            "All figures are of the same 600 tasks with 15 queries per class, whatever --tasks and --seed say: the "
            "predictions are bundled with the methods, and a test computes some of them again from the images.",
            "The probabilities are as each method defines them; docs/episodic.md says what was chosen where the "
            "papers leave it open.",
        ),
    )


def _gaussian(features: Features, name: str) -> list[Outcome]:
    return [replace(outcome, method=name) for outcome in run(features, ["gauss-iso"], shots=SHOTS)]


def _network(method: str, features: Features) -> str:
    """Say which network a row is of."""
    if method == DEEPER:
        return str(features.backbone)
    return f"conv4-32-{NETWORK.partition('-')[2]}" if method.startswith("meta-lstm") or "-32" in method else NETWORK


def _cost(method: str, conv4: Features) -> dict[str, float]:
    """Give minutes of training and images seen, each as often as it was; nothing for what is not compared by cost."""
    if method == BATCH:
        made = conv4.source["training"]
        return {"training_minutes": made["seconds"] / 60, "training_images": made["images_seen"]}
    if method in TRAINED:
        model = bundled(method, conv4.source["data"], shots=1)
        return {"training_minutes": model.provenance["seconds"] / 60, "training_images": model.images_seen}
    return {}


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    shown = shown_table(table, [label(method) for method in dict.fromkeys(table["method"])])
    first = table.drop_duplicates("method")
    shown.insert(1, "network", first["backbone"].to_numpy())
    minutes = [f"{value:.0f}" if value == value else "–" for value in first["training_minutes"]]
    shown.insert(2, "training, min", minutes)
    return shown
