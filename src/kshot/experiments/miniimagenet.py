"""The plan of `kshot reproduce miniimagenet`: Section 4.1 and Appendices E.1 to E.3, for any networks' features."""

from __future__ import annotations

from collections.abc import Mapping

from kshot.experiments.claims import closed, headline, named, networks, online, ours, regularisation
from kshot.experiments.claims.verdict import Claim
from kshot.experiments.figure2 import figure2
from kshot.experiments.figure3 import figure3
from kshot.experiments.figure4 import figure4
from kshot.experiments.figure5 import figure5
from kshot.experiments.figure7 import figure7
from kshot.experiments.figure8 import figure8
from kshot.experiments.figure9 import figure9
from kshot.experiments.networks import NAMES, Networks, missing_base_images, missing_features
from kshot.experiments.plan import Part, Plan
from kshot.experiments.table1 import table1

__all__ = ["CLAIMS", "PARTS", "miniimagenet"]

CLAIMS: tuple[Claim, ...] = (
    *headline.CLAIMS,
    *closed.CLAIMS,
    # Beside Table 1 stands one claim on the calibrated prior's accuracy and ECE, with this data set's own bar.
    *(claim for claim in ours.CLAIMS if claim.name not in ("calibrated-ece", "calibrated-accuracy")),
    *networks.CLAIMS,
    *regularisation.CLAIMS,
    *online.CLAIMS,
    *named.CLAIMS,
)

PARTS = ("table1", "figure2", "figure3", "figure4", "figure5", "figure7", "figure8", "figure9")
"""All parts, in their order on the page."""


def miniimagenet(given: Networks) -> Plan:
    """Give the plan for these networks; what cannot be run with them is among its `absent`, with the reason."""
    main = given.by_label[given.main]
    parts: dict[str, Part] = {
        "table1": lambda features, options, before: table1(features, options, network=given.name(given.main)),
        "figure2": lambda features, options, before: figure2(features, options),
        "figure3": lambda features, options, before: figure3(given, options),
        "figure4": lambda features, options, before: figure4(features, options, where="Fig. 4, Section 4.1"),
        "figure5": lambda features, options, before: figure5(given.by_label[given.kept_aside or ""], options),
        "figure7": lambda features, options, before: figure7(features, options),
        "figure8": lambda features, options, before: figure8(given, options),
        "figure9": lambda features, options, before: figure9(given, options),
    }
    assert tuple(parts) == PARTS and main.base_weights is not None
    absent = _absent(given)
    return Plan(
        name="miniimagenet",
        features=given.main,
        title="Discriminative k-shot learning on miniImageNet, regenerated",
        about=_about(given, old=len(main.base_weights), new=len(main.names)),
        parts={name: part for name, part in parts.items() if name not in absent},
        claims=CLAIMS,
        absent=absent,
    )


def _absent(given: Networks) -> Mapping[str, str]:
    absent: dict[str, str] = {}
    if len(given.by_label) < 2:
        others = [label for label in NAMES if label not in given.by_label and label != "resnet34"]
        for name in ("figure3", "figure8", "figure9"):
            absent[name] = (
                f"it compares networks, and only the features of {given.main} were given; {missing_features(others)}"
            )
    if given.kept_aside is None:
        absent["figure5"] = f"{missing_base_images()}; {missing_features(['resnet34-500'])}"
    return {name: absent[name] for name in PARTS if name in absent}


def _about(given: Networks, *, old: int, new: int) -> tuple[str, ...]:
    return (
        f"A network trained on {old} classes of miniImageNet has one weight vector per class in its last layer. The "
        "paper fits a density to these vectors and uses it as the prior for classes the network has never seen, of "
        f"which there are {new} here, with 1, 5 or 10 examples of each.",
        "This page holds sentences of the paper (Bauer, Rojas-Carulla, Świątkowski, Schölkopf, Turner: Discriminative "
        "k-shot learning using probabilistic models, 2017) against figures computed from features of networks that "
        f"were trained here or that were given. {given.name(given.main)} is the network of Table 1 and Figs. 2, 4 and "
        f"7{_online(given)}.",
        f"The networks. {given.described()}.",
    )


def _online(given: Networks) -> str:
    return "" if given.kept_aside is None else f", {given.name(given.kept_aside)} that of Fig. 5"
