"""`fit_tasks`: from a prior and many tasks to their weights, by any inference method."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts import Prior
from kshot.errors import UserError
from kshot.inference.posterior import Info, Posterior, as_queries, temperatures
from kshot.inference.tasks import Tasks
from kshot.inference.threads import one_thread

__all__ = ["InferenceMethod", "InferenceSettings", "check_prior", "fit_tasks", "infer", "prepared"]

InferenceMethod = Literal["map", "laplace", "nuts"]

# A method is a module with `infer(prior, tasks, *, temperature, random_state) -> Posterior`, imported when first
# asked for. One with settings also takes `settings=`: an object whose `method` is its name, which a user may give in
# place of the name.
_METHODS = {
    "map": "kshot.inference.maximum",
    "laplace": "kshot.inference.laplace",
    "nuts": "kshot.inference.nuts",
}


class InferenceSettings(Protocol):
    """A method with its settings, to be given in place of its name."""

    method: ClassVar[str]


def fit_tasks(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    inference: InferenceMethod | InferenceSettings = "map",
    mask: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    base_weights: ArrayLike | None = None,
    base_bias: ArrayLike | None = None,
    X_query: ArrayLike | None = None,
    random_state: int = 0,
    *,
    ways: int | None = None,
) -> tuple[NDArray[np.float64], Info]:
    """Learn the weights of many k-shot tasks in one call, Eq. (2).

    Arguments:
        prior: the density of a class's weights: any of the library's priors, or an object with `log_prob`. One that was
            calibrated for normalised features gets them so, and its weights are for them (`CalibratedPrior.prepared`).
        X: support features, (tasks, n, p).
        y: labels in 0..C − 1, (tasks, n); with old classes, −1 marks an example of one of them.
        inference: "map", the most probable weights; "laplace", averages over a Gaussian approximation of the posterior;
            "nuts", averages over draws from it (extra `sample`); or `kshot.inference.LaplaceApproximation(...)` or
            `kshot.inference.NUTS(...)` with settings.
        mask: False for padding, (tasks, n): tasks of unequal size are padded to one length.
        sample_weight: a weight per example, (tasks, n).
        base_weights: the old classes' weights, (B, p), fixed in the same softmax (Section 4.1).
        base_bias: the old classes' biases, (B,).
        X_query: features to predict, (tasks, m, p); the probabilities are `info.proba`.
        random_state: the seed of methods that draw.
        ways: C, when the last classes have no examples; by default the highest label plus one.

    Returns:
        weights: (tasks, C, p), the MAP or the posterior mean.
        info: `Info`, with the convergence of each task.

    Example:
        >>> import kshot
        >>> from kshot.concepts import ScaledIdentity
        >>> prior = kshot.GaussianPrior([0.0, 0.0], ScaledIdentity(1.0, dim=2))
        >>> weights, info = fit_tasks(prior, [[[1.0, 0.0], [0.0, 1.0]]], [[0, 1]], X_query=[[[1.0, 0.0]]])
        >>> weights.round(3), info.proba.round(3)
        (array([[[ 0.337, -0.337],
                [-0.337,  0.337]]]), array([[[0.663, 0.337]]]))
    """
    tasks = Tasks.check(
        X, y, ways=ways, mask=mask, sample_weight=sample_weight, base_weights=base_weights, base_bias=base_bias
    )
    queries = None if X_query is None else prepared(prior, as_queries(X_query, tasks))
    posterior = infer(prior, tasks, inference, random_state=random_state)
    info = posterior.info if queries is None else replace(posterior.info, proba=posterior.predict_proba(queries))
    return posterior.weights, info


def infer(prior: Prior, tasks: Tasks, inference: str | InferenceSettings, *, random_state: int) -> Posterior:
    """Run an inference method on checked tasks, of features as they are; a calibrated prior is taken apart here."""
    name = str(getattr(inference, "method", inference))
    if name not in _METHODS:
        raise UserError(f"inference must be one of {', '.join(_METHODS)}, and it is {inference!r}")
    options = {} if isinstance(inference, str) else {"settings": inference}
    temperature = temperatures(prior, tasks)
    X = prepared(prior, tasks.X)
    if X is not tasks.X and tasks.base_weights is not None and len(tasks.base_weights):
        raise UserError(
            "the prior was calibrated for normalised features, and the old classes' weights are for features as they "
            "are: leave out base_weights, or learn with kshot.photos, which puts one beside the other"
        )
    _check_calibration(prior, name, joint=tasks.base_weights is not None and len(tasks.base_weights) > 0)
    prior = _uncalibrated(prior)
    check_prior(prior, tasks.X.shape[2])
    tasks = replace(tasks, X=X)
    method: Any = importlib.import_module(_METHODS[name])
    with one_thread(tasks.count, tasks.X.shape[1]):
        posterior: Posterior = method.infer(prior, tasks, temperature=temperature, random_state=random_state, **options)
    return posterior


def prepared(prior: object, X: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Give features as the prior was calibrated for, (..., p): normalised, or the array itself."""
    prepare: Any = getattr(prior, "prepared", None)
    if prepare is None:
        return X
    check_prior(_uncalibrated(prior), X.shape[-1])
    return np.asarray(prepare(X))


def _uncalibrated(prior: Any) -> Any:
    """Give the density of a calibrated prior, or the prior itself."""
    return getattr(prior, "prior", prior) if hasattr(prior, "temperature") else prior


def _check_calibration(prior: object, inference: str, *, joint: bool) -> None:
    """Refuse numbers that were fitted for another inference method, or for another setting, than they are used in."""
    calibration: Any = getattr(prior, "calibration", None)
    setting = getattr(calibration, "setting", None)
    if setting == "closed" and joint:
        raise UserError(
            "the prior was calibrated for new classes alone, and base_weights sets old ones beside them: calibrate it "
            'with base_weights too, take Calibration.bundled(..., setting="joint"), or leave out base_weights'
        )
    if setting == "joint" and not joint:
        raise UserError(
            "the prior was calibrated for new classes beside old ones, and there are no base_weights: give them, or "
            'calibrate it without, or take Calibration.bundled(..., setting="closed")'
        )
    method = getattr(calibration, "inference", inference)
    if method != inference:
        raise UserError(
            f'the prior was calibrated for inference="{method}", and inference is "{inference}": the numbers belong to '
            f'their method, so use that one, or calibrate with inference="{inference}"'
        )


def check_prior(prior: object, width: int) -> None:
    """Refuse what is no prior, and a prior of another dimension than the features."""
    if not isinstance(prior, Prior) or isinstance(prior, type):
        raise UserError(
            "prior must have a method log_prob(weights), as kshot.GaussianPrior.fit(base_weights) has, "
            f"and it is {prior!r}"
        )
    dim = getattr(prior, "dim", None)
    bias = bool(getattr(prior, "has_bias", False))
    if dim is not None and dim != width + bias:
        extra = ", one of them the bias" if bias else ""
        raise UserError(
            f"the prior has {dim} dimensions{extra}, and the features have {width}: use the features it was fitted for"
        )
