"""A method's name, a prior, or a scikit-learn classifier -> a function from tasks to probabilities.

The names are those of the paper's Tables 7 and 8: a prior family, then `:laplace` or `:nuts` for inference other than
MAP; and the baselines.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from kshot.concepts import CalibratedPrior
from kshot.datasets.tasks import Tasks
from kshot.errors import UserError
from kshot.evaluation.baselines import BASELINES, SklearnMethod
from kshot.features import Features
from kshot.inference import InferenceMethod

__all__ = ["Method", "check_family", "prior_of", "resolve"]

Method = Callable[[Features, Tasks], NDArray[Any]]
"""From features and tasks to probabilities (tasks, queries, ways), or to labels (tasks, queries) where a method gives
answers only; NaN probabilities where it cannot be applied."""

_FAMILIES = "gauss-iso, gauss-diag, gauss-full, student-t, gmm-3-iso, gmm-superclass, laplace-iso, laplace-diag"
_FAMILY = re.compile(
    r"(gauss-(iso|diag|full)|student-t|gmm-[1-9]\d*-(iso|diag|full)|gmm-superclass|laplace-(iso|diag))(-calibrated)?"
)
_INFERENCE = get_args(InferenceMethod)


def resolve(method: Any, *, seed: int = 0) -> tuple[str, Method]:
    """Give a method's display name and its function, or refuse it: nothing has to run to find a misspelt name.

    Args:
        method: a name; a prior (its `fit` class or an object with `log_prob`), by MAP or, if it is calibrated, by what
            it was calibrated for; a scikit-learn classifier; or a function of (features, tasks) with a `name`.
        seed: for inference that draws.

    """
    if isinstance(method, str):
        if method in BASELINES:
            return method, BASELINES[method]
        from kshot.evaluation.episodic import Episodic, is_episodic

        if is_episodic(method):
            return method, Episodic(method)
        family, inference = _parts(method)
        return method, _by_prior(lambda features: prior_of(family, features, inference=inference), inference, seed)
    if isinstance(method, type) and hasattr(method, "log_prob"):
        _check_fits(method)
        return method.__name__, _by_prior(lambda features: _fitted(method, features), "map", seed)
    if hasattr(method, "log_prob"):
        return type(method).__name__, _by_prior(lambda _: method, _inference_of(method), seed)
    if hasattr(method, "fit") and hasattr(method, "predict"):
        return type(method).__name__, SklearnMethod(method)
    if callable(method) and hasattr(method, "name"):
        return str(method.name), method
    raise UserError(f"{method!r} is no method: give a name, a prior with log_prob, or a scikit-learn classifier")


def check_family(family: str) -> None:
    """Refuse what is no name of a prior, with or without -calibrated at its end."""
    if not _FAMILY.fullmatch(family):
        raise UserError(
            f"there is no method {family!r}: the priors are {_FAMILIES}; the baselines {', '.join(BASELINES)}"
        )


def _parts(method: str) -> tuple[str, str]:
    """Give the prior's family and the inference of a method's name."""
    family, colon, inference = method.partition(":")
    check_family(family)
    if not colon:
        return family, "map"
    if inference not in _INFERENCE:
        raise UserError(
            f"there is no method {method!r}: after the colon, inference must be one of {', '.join(_INFERENCE)}"
        )
    if inference == "laplace" and family.startswith("laplace-"):
        raise UserError(
            f"there is no method {method!r}: the Laplace approximation needs a curvature, and a Laplace prior has none "
            f"at its kinks; use {family} or {family}:nuts"
        )
    return family, inference


def _inference_of(prior: Any) -> str:
    """Give what a calibrated prior's numbers are for; MAP for any other prior."""
    if not isinstance(prior, CalibratedPrior):
        return "map"
    if prior.calibration.setting != "closed":
        raise UserError(
            "this prior was calibrated for new classes beside old ones, and the tasks here have new classes only: give "
            "one that was calibrated without base_weights"
        )
    return prior.calibration.inference


def _check_fits(family: type[Any]) -> None:
    """Refuse a prior's class that is neither fitted to base weights nor made of nothing."""
    if hasattr(family, "fit"):
        return
    try:
        inspect.signature(family).bind()
    except TypeError:
        raise UserError(
            f"{family.__name__} cannot be fitted to base weights: give one that is made, not the class"
        ) from None


def _fitted(family: type[Any], features: Features) -> Any:
    """Fit a prior's class to the base weights, and to their biases where its `fit` takes them."""
    if not hasattr(family, "fit"):
        return family()
    bias = {"bias": features.base_bias} if "bias" in inspect.signature(family.fit).parameters else {}
    return family.fit(_weights(features), **bias)


def prior_of(family: str, features: Features, *, inference: str = "map") -> Any:
    """Fit the prior of a family's name to the base weights; with -calibrated at its end, calibrate it for `inference`.

    >>> prior_of("gauss-iso", Features([[0.0], [1.0]], [0, 1], base_weights=[[1.0], [3.0]])).covariance
    ScaledIdentity(variance=1.0, dim=1)
    """
    from kshot.concepts import GaussianPrior, LaplacePrior, MixturePrior, StudentTPrior

    check_family(family)
    if family.endswith("-calibrated"):
        from kshot.evaluation.calibrated_prior import calibrated_prior

        plain = family.removesuffix("-calibrated")
        return calibrated_prior(plain, prior_of(plain, features), features, inference=inference)
    weights, bias = _weights(features), features.base_bias
    if match := re.fullmatch(r"gauss-(iso|diag|full)", family):
        return GaussianPrior.fit(weights, covariance=match[1], bias=bias)  # type: ignore[arg-type]
    if family == "student-t":
        return StudentTPrior.fit(weights, bias=bias)
    if match := re.fullmatch(r"laplace-(iso|diag)", family):
        return LaplacePrior.fit(weights, scale=match[1], bias=bias)  # type: ignore[arg-type]
    if match := re.fullmatch(r"gmm-(\d+)-(iso|diag|full)", family):
        return MixturePrior.fit(weights, components=int(match[1]), covariance=match[2], bias=bias)  # type: ignore[arg-type]
    return MixturePrior.fit(weights, groups=_merged_groups(features), covariance="iso", bias=bias)


def _by_prior(make: Callable[[Features], Any], inference: Any, seed: int) -> Method:
    def method(features: Features, tasks: Tasks) -> NDArray[np.float64]:
        from kshot.inference import fit_tasks

        prior = make(features)
        support, query = features.X[tasks.support], features.X[tasks.query]
        _, info = fit_tasks(prior, support, tasks.support_labels, inference=inference, X_query=query, random_state=seed)
        return np.asarray(info.proba)

    return method


def _weights(features: Features) -> NDArray[np.float64]:
    if features.base_weights is None:
        raise UserError("a prior is fitted to base weights, and these features have none: set base_weights")
    return features.base_weights


def _merged_groups(features: Features) -> list[str | int]:
    """Merge CIFAR-100's 20 superclasses into the paper's 9 (C.2); other groups stay as they are."""
    from kshot.datasets.cifar100_classes import MERGED_9

    if features.base_groups is None:
        raise UserError("gmm-superclass needs a superclass of every base class: set base_groups")
    return [MERGED_9.get(str(group), group) for group in features.base_groups]
