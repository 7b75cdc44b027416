"""Phase 3, k-shot learning: a prior and a few examples give a posterior over the weights of new classes, Eq. (2).

One file per method; each is a module with `infer(prior, tasks, ...) -> Posterior` (see `posterior.py`).
"""

from __future__ import annotations

from kshot.inference.diagnostics import SamplingWarning
from kshot.inference.dispatch import InferenceMethod, InferenceSettings, fit_tasks, infer, prepared
from kshot.inference.posterior import Info, Posterior
from kshot.inference.settings import NUTS, LaplaceApproximation
from kshot.inference.tasks import Tasks

__all__ = [
    "NUTS",
    "InferenceMethod",
    "InferenceSettings",
    "Info",
    "LaplaceApproximation",
    "Posterior",
    "SamplingWarning",
    "Tasks",
    "fit_tasks",
    "infer",
    "prepared",
]
