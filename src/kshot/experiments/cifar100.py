"""The plan of `kshot reproduce cifar100`: Section 4.2, Appendix E.4, and Section 4's protocol on CIFAR-100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kshot.experiments.episodic import episodic
from kshot.experiments.figure2 import figure2
from kshot.experiments.figure4 import figure4
from kshot.experiments.figure5 import figure5
from kshot.experiments.figure6 import figure6
from kshot.experiments.figure10 import figure10
from kshot.experiments.networks import missing_base_images
from kshot.experiments.plan import Plan
from kshot.experiments.result import Options, Result
from kshot.experiments.table9 import table9
from kshot.features import Features

__all__ = ["CIFAR100", "cifar100"]


def _figure10(features: Features, options: Options, before: Mapping[str, Result]) -> Result:
    """Take the hyperparameters of Table 9 where it has been made already."""
    held_out = before["table9"].tables["table9"] if "table9" in before else None
    return figure10(features, options, held_out=held_out)


CIFAR100 = Plan(
    name="cifar100",
    features="vgg-cifar100",
    title="Discriminative k-shot learning on CIFAR-100, regenerated",
    about=(
        "A network trained on 80 classes of CIFAR-100 has one weight vector per class in its last layer. The paper "
        "fits a density to these vectors and uses it as the prior for classes the network has never seen, of which "
        "there are 20 here, with 1, 5 or 10 examples of each.",
        "This page holds sentences of the paper (Bauer, Rojas-Carulla, Świątkowski, Schölkopf, Turner: "
        "Discriminative k-shot learning using probabilistic models, 2017) against figures computed from the "
        "features of this project’s own network of the paper’s architecture, bundled as vgg-cifar100. Sections 4 "
        "and 4.1 of the paper are about another data set, miniImageNet, and a deeper network: what is held against "
        "them here is whether the same is true of CIFAR-100.",
    ),
    parts={
        "figure2": lambda features, options, before: figure2(features, options),
        "figure4": lambda features, options, before: figure4(features, options),
        "figure5": lambda features, options, before: figure5(features, options),
        "figure6": lambda features, options, before: figure6(features, options),
        "table9": lambda features, options, before: table9(features, options),
        "figure10": _figure10,
        "episodic": lambda features, options, before: episodic(features, options),
    },
)


def cifar100(features: Features) -> Plan:
    """Give the plan for some features; what cannot be run with them is among its `absent`, with the reason."""
    if features.base_X is not None:
        return CIFAR100
    parts = {name: part for name, part in CIFAR100.parts.items() if name != "figure5"}
    return replace(CIFAR100, parts=parts, absent={"figure5": f"{missing_base_images()}; extract them with these"})
