"""Table 1: the isotropic Gaussian on the deepest network, beside the paper's row and the rows that it quotes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kshot.evaluation.episodic import Episodic, kept
from kshot.evaluation.outcome import Outcome
from kshot.evaluation.runner import draw
from kshot.experiments.calibrated import OURS, calibration_note, possible
from kshot.experiments.compared import compared, outcome_tables, shown_table
from kshot.experiments.episodic import TRAINED
from kshot.experiments.names import label
from kshot.experiments.result import Options, Picture, Result
from kshot.features import Features
from kshot.plots.dots import dot_figure
from kshot.training.episodic.model_file import bundled

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PAPER", "PUBLISHED", "QUOTED", "budget", "competitors", "published", "table1"]

PAPER = "paper"

# Per cent and the half-width that the paper prints, by shots; where the paper has it from.
PUBLISHED: dict[str, tuple[str, dict[int, tuple[float, float]], str]] = {
    PAPER: (
        "Paper: ResNet-34 + isotropic Gaussian",
        {1: (56.3, 0.4), 5: (73.9, 0.3), 10: (78.5, 0.3)},
        "paper, Table 1",
    ),
    "quoted-matching-1shot": (
        "Matching Networks (reimplemented, 1-shot)",
        {1: (46.8, 0.5)},
        "paper, Table 1: run by its authors",
    ),
    "quoted-matching-5shot": (
        "Matching Networks (reimplemented, 5-shot)",
        {5: (62.7, 0.5)},
        "paper, Table 1: run by its authors",
    ),
    "quoted-meta-lstm": (
        "Meta-Learner LSTM",
        {1: (43.4, 0.8), 5: (60.6, 0.7)},
        "paper, Table 1: quoted from Ravi and Larochelle 2017",
    ),
    "quoted-protonet-1shot": (
        "Prototypical Nets (1-shot)",
        {1: (49.4, 0.8), 5: (65.4, 0.7)},
        "paper, Table 1: quoted from Snell, Swersky and Zemel 2017",
    ),
    "quoted-protonet-5shot": (
        "Prototypical Nets (5-shot)",
        {1: (45.1, 0.8), 5: (68.2, 0.7)},
        "paper, Table 1: quoted from Snell, Swersky and Zemel 2017",
    ),
}
"""The rows of the paper's Table 1: name, figures, source."""

QUOTED = tuple(name for name in PUBLISHED if name != PAPER)
"""Its competitors."""


def table1(
    features: Features,
    options: Options,
    *,
    network: str = "ResNet-34",
    name: str = "table1",
    where: str = "Table 1, Section 4.1",
) -> Result:
    """Run the paper's method on tasks of five new classes, and set its figures beside those that were published.

    Args:
        features: of the network.
        options: see there.
        network: what it is called.
        name: also the stem of the files.
        where: in the paper.

    """
    import pandas as pd

    ours = possible(OURS, features)
    outcomes = compared(features, ours, options, what="Table 1")
    outcomes += competitors(features, options)
    tables = outcome_tables(name, outcomes, references=("gauss-iso",))
    own = tables[name]
    budgets = {method: budget(method, features) for method in own["method"].unique() if method not in OURS}
    trained = {method: f"this run; trained here: {words}" for method, words in budgets.items()}
    own.insert(1, "source", [trained.get(method, "this run") for method in own["method"]])
    table = pd.concat([own, published()], ignore_index=True)
    title = f"Five new classes from a few examples each: {options.tasks} tasks, beside the published figures"
    names = {
        method: f"Here: {network + ', ' if method in OURS else ''}{label(method)}" for method in own["method"].unique()
    }
    names |= {method: row[0] for method, row in PUBLISHED.items()}
    rules = (ours[-1], own["method"].iloc[-1], PAPER)
    return Result(
        name=name,
        title="How accurate is it, and how does it compare with what was published?",
        where=where,
        tables={name: table, f"{name}_differences": tables[f"{name}_differences"]},
        pictures={
            name: Picture(
                dot_figure(table, label=names.__getitem__, title=title, rules_after=rules),
                "Above what was computed here: the paper’s method, then its competitors where they have been trained "
                "on the same classes. Below the paper’s row, and the competitors that it quotes. The paper prints "
                "neither log-likelihood nor calibration error in numbers, and for its competitors nobody did.",
            )
        },
        shown=shown_table(table, [names[method] for method in dict.fromkeys(table["method"])]),
        notes=(
            f"Ours: {options.tasks} tasks at each number of shots, 5 of the {len(features.names)} new classes, "
            f"{options.queries} queries per class, no augmentation. Intervals are 95 % over tasks; ECE has 15 bins, "
            "pooled over all tasks. The prior is N(μ, σ²I) with the mean and variance of the base weights, by MAP: the "
            "paper’s rule, with nothing tuned.",
            "The paper’s figures are constants from its Table 1, copied with their intervals; they are of its own "
            "networks, its own choice of images and its own tasks. “(1-shot)” and “(5-shot)” say how a competitor was "
            "trained.",
            *_budgets_note(budgets),
            calibration_note(features),
        ),
    )


def competitors(features: Features, options: Options) -> list[Outcome]:
    """Give the outcomes of the bundled episodic methods on the same tasks, where their predictions on them are kept."""
    outcomes = []
    for k in options.shots:
        tasks = draw(features, ways=5, shots=k, tasks=options.tasks, queries=options.queries, seed=options.seed)
        methods = [Episodic(name) for name in TRAINED if kept(name, features, tasks)]
        if methods:
            outcomes += compared(features, methods, replace(options, shots=(k,)), what="Table 1")
    return sorted(outcomes, key=lambda outcome: TRAINED.index(outcome.method))


def budget(method: str, features: Features) -> str:
    """Say what a competitor's training took."""
    model = bundled(method, str(features.source["data"]), shots=1)
    return f"{model.recipe['size']} px, {model.provenance['seconds'] / 60:.0f} min of one core"


def _budgets_note(budgets: dict[str, str]) -> list[str]:
    if not budgets:
        return []
    each = (f"{label(method)} {words}" for method, words in budgets.items())
    return [
        "The competitors here have the four convolutions of their papers (64 filters; the Meta-Learner LSTM 32) and "
        "were trained by episodes on the same base classes, on smaller images and for far less time than in their "
        f"papers, so that their own figures below are what they can do: {'; '.join(each)}. The model cards in "
        "docs/models have the commands. The probabilities are as each method defines them."
    ]


def published() -> pd.DataFrame:
    """Give the paper's rows as fractions, in the columns of `kshot.evaluate`."""
    import pandas as pd

    rows = [
        {"method": method, "source": source, "shots": k, "accuracy": mean / 100, "accuracy_ci95": half / 100}
        | dict.fromkeys(("log_likelihood", "brier", "ece", "log_likelihood_ci95"), np.nan)
        for method, (_, figures, source) in PUBLISHED.items()
        for k, (mean, half) in figures.items()
    ]
    return pd.DataFrame(rows)
