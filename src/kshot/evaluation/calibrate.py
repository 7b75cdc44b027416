"""`kshot.calibrate`: the scale of a prior and the temperature of its predictions, fitted on simulated tasks.

This is the project's own addition to the paper, whose prior is as broad as weight decay happened to leave the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.concepts import CalibratedPrior, Calibration, Prior, Temperature
from kshot.concepts.checks import check_choice
from kshot.errors import UserError
from kshot.evaluation.arguments import listed_shots
from kshot.evaluation.profile import Predictions, predict
from kshot.evaluation.simulation import Round, simulate
from kshot.evaluation.valley import search
from kshot.inference import InferenceMethod, InferenceSettings
from kshot.inference.dispatch import check_prior
from kshot.inference.tasks import as_features, check_base, check_finite

__all__ = ["Best", "Fit", "calibrate"]

Floats = NDArray[np.float64]

_TASKS = {"map": 400, "laplace": 200, "nuts": 40}
_QUERIES = 15


def calibrate(  # noqa: D417  (X_base and y_base are explained in one line)
    prior: Prior,
    X_base: ArrayLike,
    y_base: ArrayLike,
    ways: int = 5,
    shots: Sequence[int] = (1, 5, 10),
    inference: InferenceMethod | InferenceSettings = "map",
    base_weights: ArrayLike | None = None,
    base_bias: ArrayLike | None = None,
    seed: int = 0,
    *,
    tasks: int | None = None,
    old_answer: Literal["each", "together"] = "each",
) -> CalibratedPrior:
    """Fit the scale of a prior, w → μ + √s (w − μ), and the temperature T(k) of its predictions, softmax(T × logits).

    Both maximise the mean predictive log-likelihood of simulated k-shot tasks of base classes, for one inference
    method, all shots counting equally. Many scales, each with its own temperature, predict about equally well: the
    middle of those within a standard error of the best is taken (`valley.py`).

    With `base_weights` the answers are over old and new classes together (Section 4.1): a few classes at a time are
    taken out of the base weights and learned as new, and half of the queries are of old classes that stay.

    Arguments:
        prior: any prior that can be scaled; it stays as it is.
        X_base, y_base: features (n, p) and classes (n,) of images of base classes, best of images that the network was
            not trained on, or of classes that a network trained alike has not seen: those it knows look easier than new
            ones. With `base_weights`, labels are its rows; labels below 0 are classes that have no row: then these are
            learned as new and all rows stay.
        ways: classes in a task, at least 2; with `base_weights` 1 is enough.
        shots: numbers of examples per class; the temperature is a smooth curve through these.
        inference: the method that the numbers are for.
        base_weights, base_bias: the old classes, (B, p) and (B,), for the joint setting.
        seed: decides the tasks.
        tasks: how many; by default 400 for "map", 200 for "laplace", 40 for "nuts".
        old_answer: what is right for an old class's query: its own class ("each"), or that it is of any old class
            ("together"), where these stand for "something else".

    Example:
        >>> import kshot
        >>> f = kshot.Features.load("vgg-cifar100")
        >>> prior = kshot.GaussianPrior.fit(f.base_weights)
        >>> calibrated = calibrate(prior, f.base_X, f.base_y, shots=(1, 5), tasks=20)
        >>> calibrated.temperature(1) > calibrated.temperature(5) > 1
        True
    """
    X, y, base = _checked(prior, X_base, y_base, base_weights, base_bias)
    shots = tuple(sorted(set(listed_shots(shots))))
    check_choice(old_answer, "old_answer", ("each", "together"))
    _check_ways(ways, joint=base is not None)
    method = str(getattr(inference, "method", inference))
    if method not in _TASKS:
        raise UserError(f"inference must be one of {', '.join(_TASKS)}, and it is {inference!r}")
    count = _TASKS[method] if tasks is None else tasks
    queries = _queries(y, shots, joint=base is not None)
    rounds = simulate(
        X, y, ways=ways, shots=shots, queries=queries, tasks=count, seed=seed, base=base, old_answer=old_answer
    )
    fit = Fit(prior, X, rounds, shots, inference, seed)
    valley = search(fit, classes := np.concatenate([each.classes for each in rounds]))
    found = fit.at(valley.middle)
    report = {
        "ways": ways,
        "tasks": count,
        "queries": queries,
        "classes": len(np.unique(classes)),
        "images": len(y),
        "seed": seed,
        "prior": repr(prior),
        "log_likelihood_before": fit.untouched().tolist(),
        "log_likelihood_after": found.log_likelihood.mean(axis=1).tolist(),
        "best_scale": math.exp(valley.best),
        "valley": [math.exp(valley.low), math.exp(valley.high)],
        "tried": [[math.exp(log_scale), mean] for log_scale, mean in valley.tried.items()],
    }
    if base is not None:
        report |= {"old_classes": len(base[0]), "old_answer": old_answer, "weight_of_old_queries": 0.5}
    curve = Temperature(shots, tuple(math.exp(t) for t in found.log_temperature))
    return Calibration(math.exp(valley.middle), curve, method, "joint" if base else "closed", report).apply(prior)


@dataclass(frozen=True, eq=False)
class Best:
    """At one scale: the best ln T for each number of shots, and each task's log-likelihood there, (shots, tasks)."""

    log_temperature: list[float]
    log_likelihood: Floats


@dataclass(frozen=True, eq=False)
class Fit:
    """The best temperatures as a function of the scale, for one prior and one set of simulated tasks."""

    prior: Any
    X: NDArray[np.floating[Any]]
    rounds: Sequence[Round]
    shots: Sequence[int]
    inference: InferenceMethod | InferenceSettings
    seed: int
    _found: dict[float, Best] = field(default_factory=dict)

    def __call__(self, log_scale: float) -> Floats:
        """Give each task's log-likelihood at a scale with its best temperatures, mean over shots, (tasks,)."""
        return np.asarray(self.at(log_scale).log_likelihood.mean(axis=0))

    def at(self, log_scale: float) -> Best:
        """Find the best temperatures at a scale, starting from those of the nearest scale that was tried."""
        if log_scale not in self._found:
            nearest = min(self._found, key=lambda each: abs(each - log_scale), default=None)
            if nearest is None:
                starts = [0.0] * len(self.shots)
            else:  # along the valley T falls as about the root of the scale grows
                starts = [t - 0.4 * (log_scale - nearest) for t in self._found[nearest].log_temperature]
            best = [
                self._predict(log_scale, k).best_temperature(start) for k, start in zip(self.shots, starts, strict=True)
            ]
            self._found[log_scale] = Best([t for t, _ in best], np.stack([values for _, values in best]))
        return self._found[log_scale]

    def untouched(self) -> Floats:
        """Give the mean log-likelihood of the prior as it is, for each number of shots, (shots,)."""
        return np.array([self._predict(0.0, k).log_likelihood(0.0).mean() for k in self.shots])

    def _predict(self, log_scale: float, shots: int) -> Predictions:
        scaled = self.prior.scaled(math.exp(log_scale))
        return predict(scaled, self.X, self.rounds, shots, self.inference, seed=self.seed)


def _checked(
    prior: Prior, X_base: ArrayLike, y_base: ArrayLike, base_weights: ArrayLike | None, base_bias: ArrayLike | None
) -> tuple[NDArray[np.floating[Any]], NDArray[Any], tuple[Floats, Floats | None] | None]:
    X, y = as_features(X_base, "X_base", ndim=2), np.asarray(y_base)
    check_finite(X, "X_base")
    check_prior(prior, X.shape[1])
    if isinstance(prior, CalibratedPrior):
        raise UserError("this prior is calibrated already: give the one that it was made of")
    if not hasattr(prior, "scaled"):
        raise UserError(
            f"{type(prior).__name__} must have a method scaled(s), which gives it stretched about its mean, "
            "w → mean + √s (w − mean)"
        )
    if y.shape != (len(X),):
        raise UserError(f"y_base must have one label per row of X_base, {len(X)} of them, and its shape is {y.shape}")
    weights, bias = check_base(base_weights, base_bias, width=X.shape[1])
    if weights is None:
        return X, y, None
    if y.dtype.kind not in "iu" or y.max() >= len(weights):
        raise UserError(
            f"y_base must say which row of base_weights each image's class is, a whole number up to {len(weights) - 1} "
            "(below 0 for classes that have no row)"
        )
    return X, y, (weights, bias)


def _check_ways(ways: int, *, joint: bool) -> None:
    least = 1 if joint else 2
    if not isinstance(ways, int | np.integer) or ways < least:
        why = "" if joint else ", as one class alone has nothing to be told from without base_weights"
        raise UserError(f"ways must be a whole number of at least {least}{why}, and it is {ways!r}")


def _queries(y: NDArray[Any], shots: Sequence[int], *, joint: bool) -> int:
    """Give the queries per class: as many as the smallest class has beside its support, and at most 15."""
    labels, counts = np.unique(y, return_counts=True)
    if joint and (labels < 0).any():
        labels, counts = labels[labels < 0], counts[labels < 0]
    smallest = int(counts.argmin())
    if counts[smallest] <= max(shots):
        raise UserError(
            f"class {labels[smallest]} has {counts[smallest]} images, too few for {max(shots)} shots and a query: "
            "leave it out, or ask for fewer shots"
        )
    return int(min(_QUERIES, counts[smallest] - max(shots)))
