"""Fig. 3: the same methods on features of networks that differ in depth and in their number of training images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kshot.evaluation.outcome import Outcome
from kshot.evaluation.paired import differences
from kshot.evaluation.runner import table
from kshot.experiments.compared import compared, percent
from kshot.experiments.names import label
from kshot.experiments.networks import Networks, missing_features
from kshot.experiments.result import Options, Picture, Result
from kshot.experiments.stacked import stacked
from kshot.plots.networks import accuracy_by_network

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METHODS", "figure3"]

METHODS = (
    "gauss-iso",
    "logreg-sigma2",
    "logreg-2sigma2",
    "logreg-ovr",
    "logreg-ovr-free-intercept",
    "logreg-cv",
    "nearest",
)
"""Fig. 3's, with every reading of its Log Reg (2σ²)."""


def figure3(
    networks: Networks, options: Options, *, name: str = "figure3", where: str = "Fig. 3, Section 4.1"
) -> Result:
    """Compare networks by the accuracy that the methods reach on their features, on the same tasks."""
    order = by_depth(networks)
    outcomes = {
        each: compared(networks.by_label[each], METHODS, options, what=f"Fig. 3, {networks.name(each)}")
        for each in order
    }
    figures = stacked({each: table(own) for each, own in outcomes.items()})
    title = f"What a better network gives: {options.tasks} tasks of five new classes"
    return Result(
        name=name,
        title="Do deeper networks and more training images help with new classes?",
        where=where,
        tables={name: figures, f"{name}_differences": between_networks(outcomes)},
        pictures={
            name: Picture(
                accuracy_by_network(figures, networks=order, label=label, network_name=networks.name, title=title),
                "Accuracy on the new classes by network, from shallow to deep and from fewer to more training images; "
                "bars are 95 % intervals over tasks, which are the same for all networks and methods.",
            )
        },
        shown=_shown(figures, networks),
        notes=_notes(networks),
    )


def by_depth(networks: Networks) -> list[str]:
    """Give the labels as on the figure's axis: the paper's networks from shallow to deep, then all others."""
    known = [each for each in ("vgg-500", "resnet34-500", "resnet34-600", "resnet34") if each in networks.by_label]
    return known + [each for each in networks.by_label if each not in known]


def between_networks(outcomes: dict[str, list[Outcome]], *, method: str = "gauss-iso") -> pd.DataFrame:
    """Compare a method between networks, on tasks of the same images: each network with each that comes before it.

    Returns a table: network, reference, shots, metric, difference, ci95, significant.
    """
    import pandas as pd

    as_methods = {
        network: [replace(each, method=network) for each in own if each.method == method]
        for network, own in outcomes.items()
    }
    frames, labels = [], list(outcomes)
    for place, reference in enumerate(labels[:-1]):
        others = [each for network in labels[place:] for each in as_methods[network]]
        frames.append(differences(others, reference=reference).assign(reference=reference))
    if not frames:
        columns = ["network", "shots", "metric", "difference", "ci95", "significant", "reference"]
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True).rename(columns={"method": "network"})


def _shown(figures: pd.DataFrame, networks: Networks) -> pd.DataFrame:
    import pandas as pd

    lines = []
    for (network, method), rows in figures.groupby(["network", "method"], sort=False):
        line = {"network": networks.name(str(network)), "method": label(str(method))}
        own = rows.set_index("shots")
        line |= {f"accuracy %, {k}-shot": percent(*own.loc[k, ["accuracy", "accuracy_ci95"]]) for k in own.index}
        lines.append(line)
    return pd.DataFrame(lines)


def _notes(networks: Networks) -> tuple[str, ...]:
    notes = [
        "Only networks that were trained with one budget tell what depth and images do: VGG (500 images), ResNet-34 "
        "(500 images) and ResNet-34 (600 images). “ResNet-34” by itself is the one that was trained longest. "
        "Differences between networks are paired: the tasks and the images are the same.",
    ]
    if networks.absent:
        named = ", ".join(networks.name(each) for each in networks.absent)
        notes.append(f"Not run, because their features were not given: {named}; {missing_features(networks.absent)}")
    return tuple(notes)
