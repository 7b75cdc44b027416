"""How the methods of Fig. 5 find the weights of new classes that will stand beside old ones (Section 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import CalibratedPrior
from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.evaluation.calibrated_prior import backbone_name
from kshot.evaluation.logistic import variance_of, zero_mean
from kshot.evaluation.maximum_likelihood import maximum_likelihood
from kshot.evaluation.methods import check_family, prior_of
from kshot.features import Features

__all__ = ["ONLINE", "OnlineMethod", "resolve_online"]

Floats = NDArray[np.float64]

OnlineMethod = Callable[[Features, Tasks], tuple[Floats, Floats]]
"""From features and tasks to the new classes' weights (tasks, ways, p) and intercepts (tasks, ways)."""


def resolve_online(method: Any) -> tuple[str, OnlineMethod]:
    """Give a method's name and its function; a prior, or the name of one, is learned by MAP beside the old weights."""
    if isinstance(method, str):
        if method in ONLINE:
            return method, ONLINE[method]
        if ":" in method:
            raise UserError(
                f"online, methods are compared by their MAP: {method.partition(':')[0]} in place of {method}"
            )
        check_family(method)
        if method.endswith("-calibrated"):
            raise UserError(
                f"{method} has numbers for new classes alone, and online they stand beside old ones: give "
                "gauss-iso-calibrated, or a prior of kshot.calibrate(..., base_weights=...)"
            )
        return method, lambda features, tasks: _map(prior_of(method, features), features, tasks)
    if hasattr(method, "log_prob") and not isinstance(method, type):
        if isinstance(method, CalibratedPrior) and (
            method.calibration.setting != "joint" or method.calibration.inference != "map"
        ):
            raise UserError(
                "online, methods are compared by their MAP beside old classes, and this prior was calibrated for "
                f"{method.calibration.inference} in the {method.calibration.setting} setting: give one of "
                "kshot.calibrate(..., base_weights=...)"
            )
        return type(method).__name__, lambda features, tasks: _map(method, features, tasks)
    raise UserError(f"{method!r} is no online method: give {', '.join(ONLINE)}, a prior's name, or a prior")


def _map(prior: Any, features: Features, tasks: Tasks, *, beside: bool = True) -> tuple[Floats, Floats]:
    """Find the MAP of the new weights, beside the old ones in one softmax or as if there were none."""
    from kshot.inference import fit_tasks

    old: dict[str, Any] = {"base_weights": features.base_weights, "base_bias": features.base_bias} if beside else {}
    weights, info = fit_tasks(prior, features.X[tasks.support], tasks.support_labels, **old)
    return weights, info.intercept


def _sigma2(features: Features, tasks: Tasks) -> tuple[Floats, Floats]:
    """Fit logistic regression, that is the prior N(0, σ²I), beside the old weights."""
    return _map(zero_mean(features, variance_of(features)), features, tasks)


def _sigma2_only_new(features: Features, tasks: Tasks) -> tuple[Floats, Floats]:
    """Fit logistic regression to the new classes alone; its weights are put beside the old ones afterwards."""
    return _map(zero_mean(features, variance_of(features)), features, tasks, beside=False)


def _mle(features: Features, tasks: Tasks) -> tuple[Floats, Floats]:
    """Fit by maximum likelihood beside the old weights, with the stopping rule of `maximum_likelihood`."""
    X = features.X[tasks.support]
    weights = maximum_likelihood(
        X, tasks.support_labels, base_weights=features.base_weights, base_bias=features.base_bias
    )
    return weights, np.zeros(weights.shape[:2])


def _calibrated(features: Features, tasks: Tasks) -> tuple[Floats, Floats]:
    """Fit gauss-iso with the scale that was calibrated for old and new classes in one softmax, setting "joint"."""
    from kshot.concepts.calibrated import Calibration

    name = backbone_name(features) or "of one's own"
    prior = Calibration.bundled(name, inference="map", setting="joint").apply(prior_of("gauss-iso", features))
    return _map(prior, features, tasks)


ONLINE: dict[str, OnlineMethod] = {
    "logreg-sigma2": _sigma2,
    "logreg-mle": _mle,
    "logreg-sigma2-only-new": _sigma2_only_new,
    "gauss-iso-calibrated": _calibrated,
}
