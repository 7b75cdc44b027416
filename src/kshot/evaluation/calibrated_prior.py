"""A family's prior for some features, with bundled numbers where the backbone has them, else fitted on the spot."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kshot.concepts import CalibratedPrior, Calibration
from kshot.errors import UserError
from kshot.features import Features

__all__ = ["backbone_name", "calibrated_prior"]

_SHOTS = (1, 5, 10)
_WAYS = 5

# What was fitted on the spot, as long as the features live: a method is asked once for each number of shots.
_FITTED: WeakKeyDictionary[Features, dict[tuple[str, str], CalibratedPrior]] = WeakKeyDictionary()


def calibrated_prior(family: str, prior: Any, features: Features, *, inference: str = "map") -> CalibratedPrior:
    """Calibrate a prior for the closed setting.

    Arguments:
        family: the method's name, such as "gauss-iso".
        prior: of that family, fitted to the base weights of `features`.
        features: whose backbone may have bundled numbers; else its `base_X` and `base_y` are used.
        inference: the method that the numbers are for.
    """
    name = backbone_name(features)
    if name is not None and Calibration.is_bundled(name, inference=inference, family=family):
        return Calibration.bundled(name, inference=inference, family=family).apply(prior)
    if features.base_X is None or features.base_y is None:
        raise UserError(
            f"{family}-calibrated takes two numbers from images of base classes, and these features have none: set "
            "base_X and base_y, or use a bundled backbone that brings its numbers"
        )
    fitted = _FITTED.setdefault(features, {})
    if (family, inference) not in fitted:
        from kshot.evaluation.calibrate import calibrate

        labels, counts = np.unique(features.base_y, return_counts=True)
        shots = [k for k in _SHOTS if k < counts.min()] or [1]
        ways = min(_WAYS, len(labels))
        method: Any = inference
        fitted[family, inference] = calibrate(prior, features.base_X, features.base_y, ways, shots, method)
    return fitted[family, inference]


def backbone_name(features: Features) -> str | None:
    """Give the name of the network that the features come from, or None.

    A network of the same name that is not the bundled one (trained by oneself, say) has other numbers: None too.
    """
    bundled = Calibration.bundled_file(features.backbone).get("hash")
    record = features.source.get("backbone")
    known = record.get("hash", bundled) if isinstance(record, dict) else bundled
    return features.backbone if features.backbone and known == bundled else None
