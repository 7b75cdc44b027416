"""Whether the calibrated prior can be had for some features, and where its two numbers come from."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.concepts.calibrated import Calibration
from kshot.evaluation.calibrated_prior import backbone_name
from kshot.features import Features

__all__ = ["CALIBRATED", "OURS", "calibration_note", "can_calibrate", "possible"]

CALIBRATED = "gauss-iso-calibrated"
OURS = ("gauss-iso", CALIBRATED)
"""What is compared with baselines and with other models: the paper's prior, and the same calibrated."""


def can_calibrate(features: Features) -> bool:
    """Say whether the numbers of the calibrated prior are bundled or can be fitted on images of base classes."""
    return features.base_X is not None or Calibration.is_bundled(backbone_name(features) or "")


def possible(methods: Sequence[str], features: Features) -> list[str]:
    """Leave out the methods that need images of base classes, or bundled numbers, where there are neither."""
    name = backbone_name(features) or ""
    known = {
        CALIBRATED: can_calibrate(features),
        "temperature": features.base_X is not None or "class_mean_temperature" in Calibration.bundled_file(name),
    }
    return [method for method in methods if known.get(method, True)]


def calibration_note(features: Features) -> str:
    """Say in a sentence where the calibrated prior's numbers come from, or why it was not run."""
    name = backbone_name(features) or ""
    if Calibration.is_bundled(name):
        return f"The calibrated prior has the numbers that are bundled with the backbone {name}."
    if features.base_X is not None:
        return (
            "The calibrated prior’s two numbers were fitted here, on simulated tasks of the base classes’ images in "
            "the features file. If the network learned from these very images, its temperatures come out too high."
        )
    return (
        "The calibrated prior was not run: its two numbers are neither bundled for this backbone nor can they be "
        "fitted, because the features have no images of base classes (base_X)."
    )
