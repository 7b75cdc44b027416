"""The networks of one report, by label: the paper's, as they are bundled, or anybody's features of the same images."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kshot.errors import UserError
from kshot.evaluation.logistic import variance_of
from kshot.experiments.calibrated import calibration_note
from kshot.features import Features

__all__ = [
    "BUNDLED",
    "NAMES",
    "Networks",
    "calibration_notes",
    "load_networks",
    "missing_base_images",
    "missing_features",
]

NAMES = {
    "resnet34": "ResNet-34",
    "resnet34-600": "ResNet-34 (600 images)",
    "resnet34-500": "ResNet-34 (500 images)",
    "vgg-500": "VGG (500 images)",
}
"""The labels that the paper's experiments ask for. All but the first were trained with one budget, to be compared."""

BUNDLED = {
    "resnet34": "resnet34-miniimagenet",
    "resnet34-600": "resnet34-miniimagenet-short",
    "resnet34-500": "resnet34-miniimagenet-500",
    "vgg-500": "vgg-miniimagenet-500",
}
"""Under which name each is bundled."""

KEPT_ASIDE = "-500"
"""A label that ends so says that the network did not see all images of its base classes: the rest can test it."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class Networks:
    """Features of the same images by several networks.

    Args:
        by_label: label -> features, with base weights; at least one.

    """

    by_label: Mapping[str, Features]

    def __post_init__(self) -> None:
        if not self.by_label:
            raise UserError("give the features of at least one network")
        first, reference = self.main, self.by_label[self.main]
        for label, features in self.by_label.items():
            if features.base_weights is None:
                raise UserError(
                    f"the features of {label} have no base weights, and the prior is fitted to these: extract them "
                    "with a backbone that has its last layer"
                )
            ids, known = features.source.get("images"), reference.source.get("images")
            if not np.array_equal(features.y, reference.y) or (ids and known and ids != known):
                raise UserError(
                    f"the features of {label} and of {first} are not of the same images in the same order: extract "
                    "both from one folder"
                )

    @property
    def main(self) -> str:
        """The label of the network that Table 1 and Fig. 2 are about: resnet34 if it is there, else the first."""
        return "resnet34" if "resnet34" in self.by_label else next(iter(self.by_label))

    @property
    def kept_aside(self) -> str | None:
        """The label of a network with test images of its base classes, which it has not learned from; or None."""
        for label in ("resnet34-500", *self.by_label):
            if label.endswith(KEPT_ASIDE) and label in self.by_label and self.by_label[label].base_X is not None:
                return label
        return None

    @property
    def absent(self) -> list[str]:
        """Labels of the paper's networks that are not here."""
        return [label for label in NAMES if label not in self.by_label]

    def name(self, label: str) -> str:
        """Give what figures call a network.

        >>> Networks({"mine": Features([[0.0], [1.0]], [0, 1], base_weights=[[1.0], [3.0]])}).name("vgg-500")
        'VGG (500 images)'
        """
        return NAMES.get(label, label)

    def described(self) -> str:
        """Give a sentence on what each network is, as far as its features say."""
        return "; ".join(f"{label}: {_described(features)}" for label, features in self.by_label.items())


def _described(features: Features) -> str:
    assert features.base_weights is not None
    size = f"{features.X.shape[1]} features, {len(features.base_weights)} base classes"
    return f"{f'backbone {features.backbone}, ' if features.backbone else ''}{size}, σ² = {variance_of(features):.5f}"


def load_networks(given: Sequence[str]) -> Networks:
    """Read the networks that were asked for, each as NAME_OR_FILE or LABEL=NAME_OR_FILE; without any, the bundled ones.

    Args:
        given: a bundled name or a features file, with its label. Without a label a bundled name of the paper's networks
            has its own, and a file its name without the suffix.

    """
    if not given:
        return Networks(_bundled())
    networks: dict[str, Features] = {}
    for text in given:
        label, name = _split(text)
        if label in networks:
            raise UserError(f"--features: {label} is given twice: give each network a label of its own, LABEL=FILE")
        try:
            networks[label] = Features.load(name)
        except FileNotFoundError as error:
            raise UserError(f"--features: {error}") from None
    return Networks(networks)


def _bundled() -> dict[str, Features]:
    found = {}
    for label, name in BUNDLED.items():
        try:
            found[label] = Features.load(name)
        except FileNotFoundError:
            continue
    if not found:
        raise UserError(
            "no features of miniImageNet are bundled: train a network (kshot train --data miniimagenet --out RUN), "
            "extract its features (kshot extract miniimagenet --backbone RUN/backbone.safetensors -o FILE) and give "
            "them, --features resnet34=FILE"
        )
    return found


def _split(text: str) -> tuple[str, str]:
    """Part a label from a name or file; a file may have = in its own name."""
    label, equals, name = text.partition("=")
    if not equals or Path(text).is_file():
        name = text
        label = {bundled: known for known, bundled in BUNDLED.items()}.get(text, Path(text).stem)
    if not _LABEL.fullmatch(label) or not name:
        raise UserError(
            f"--features {text}: give it as LABEL=FILE, the label a word of letters, digits, dots and dashes"
        )
    return label, name


def calibration_notes(networks: Networks) -> list[str]:
    """Say of each network where the calibrated prior's numbers come from, or why it was not run."""
    return [f"{networks.name(label)}: {calibration_note(features)}" for label, features in networks.by_label.items()]


def missing_base_images() -> str:
    """Say why new classes beside old ones cannot be tested."""
    return (
        "it tests old and new classes together, and so needs a network that has not learned from all images of its "
        "base classes, with features of the images that were kept aside (base_X)"
    )


def missing_features(labels: Sequence[str]) -> str:
    """Say how to bring the features of networks that are not here.

    >>> missing_features(["vgg-500"])
    'give them: --features vgg-500=FILE'
    """
    return "give them: " + " ".join(f"--features {label}=FILE" for label in labels)
