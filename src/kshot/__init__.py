"""Learn new image classes from a handful of examples, with probabilities that can be trusted.

The public names are loaded when first used, so that `import kshot` costs little more than `import numpy`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. The imports under TYPE_CHECKING below say the same to editors and type checkers.
_HOME = {
    "Backbone": "kshot.backbones",
    "CalibratedPrior": "kshot.concepts",
    "Features": "kshot.features",
    "GaussianPrior": "kshot.concepts",
    "KShotClassifier": "kshot.classifier",
    "LaplacePrior": "kshot.concepts",
    "MixturePrior": "kshot.concepts",
    "Preprocessing": "kshot.datasets.preprocessing",
    "Prior": "kshot.concepts",
    "StudentTPrior": "kshot.concepts",
    "calibrate": "kshot.evaluation.calibrate",
    "compare_priors": "kshot.concepts",
    "evaluate": "kshot.evaluation.runner",
    "fit_tasks": "kshot.inference",
    "load_prior": "kshot.concepts",
}

# Rooms whose names the documentation writes out, such as kshot.inference.NUTS.
_ROOMS = ("concepts", "evaluation", "inference")

__all__ = [
    "Backbone",
    "CalibratedPrior",
    "Features",
    "GaussianPrior",
    "KShotClassifier",
    "LaplacePrior",
    "MixturePrior",
    "Preprocessing",
    "Prior",
    "StudentTPrior",
    "__version__",
    "calibrate",
    "compare_priors",
    "evaluate",
    "fit_tasks",
    "load_prior",
]

if TYPE_CHECKING:
    from kshot.backbones import Backbone
    from kshot.classifier import KShotClassifier
    from kshot.concepts import (
        CalibratedPrior,
        GaussianPrior,
        LaplacePrior,
        MixturePrior,
        Prior,
        StudentTPrior,
        compare_priors,
        load_prior,
    )
    from kshot.datasets.preprocessing import Preprocessing
    from kshot.evaluation.calibrate import calibrate
    from kshot.evaluation.runner import evaluate
    from kshot.features import Features
    from kshot.inference import fit_tasks


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"kshot.{name}")
    raise AttributeError(f"module 'kshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
