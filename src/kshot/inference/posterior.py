"""The law of inference methods: each gives a posterior that predicts, with weights and diagnostics per task.

A calibrated prior brings a temperature T for its predictions, which are proportional to p^T: softmax(T × logits) for
MAP, and where a method averages over the posterior, p is the average. Above 1 it sharpens (Guo et al., 2017, divide by
theirs). T inside the average would make a vote of each draw, and the votes of a broad posterior stay divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kshot.errors import UserError
from kshot.inference.tasks import Tasks, as_features, check_finite

__all__ = ["Info", "PointPosterior", "Posterior", "log_sum", "sharpened", "softmax", "temperatures"]

Floats = NDArray[np.float64]

_CHUNK_BYTES = (
    32 * 2**20
)  # queries are predicted in pieces of about this size, so that a million of them need little memory


@dataclass(frozen=True, eq=False)
class Info:
    """What a method says about its fit, one entry per task; a task that did not converge raises nothing.

    Arguments:
        converged: whether `gradient_norm` met the method's tolerance, (tasks,).
        iterations: (tasks,).
        gradient_norm: max_c |∂/∂w_c (−ln posterior)|, Euclidean, at the returned weights; no entry of the gradient is
            larger. For a Laplace prior the shortest subgradient's, (tasks,).
        objective: −ln p(W) − Σ_n s_n ln p(y_n | x_n, W), (tasks,).
        intercept: the new classes' biases, (tasks, C); zero for a prior without a bias.
        proba: the class probabilities of X_query, (tasks, m, B + C), old classes first; None without X_query.
        start: the start that won where there are several (mixtures: the component of each class), (tasks, C); else
            None.
        diagnostics: whatever else a method has to say.
    """

    converged: NDArray[np.bool_]
    iterations: NDArray[np.int64]
    gradient_norm: Floats
    objective: Floats
    intercept: Floats
    proba: Floats | None = None
    start: NDArray[np.int64] | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagnostics", dict(self.diagnostics))  # a read-only view could not be pickled

    def __repr__(self) -> str:
        done, count = int(self.converged.sum()), self.converged.size
        return f"Info({done} of {count} tasks converged, largest gradient {self.gradient_norm.max():.1e})"


class Posterior(Protocol):
    """What every inference method returns: `infer(prior, tasks, temperature=..., random_state=...) -> Posterior`.

    `weights` is the MAP or the posterior mean, (tasks, C, p).
    """

    @property
    def weights(self) -> Floats:
        """The new classes' weights, (tasks, C, p)."""

    @property
    def info(self) -> Info:
        """How the fit went."""

    def predict_proba(self, X_query: NDArray[np.floating[Any]]) -> Floats:
        """Give the class probabilities, (tasks, m, p) -> (tasks, m, B + C), old classes first."""


@dataclass(frozen=True, eq=False)
class PointPosterior:
    """All mass on one set of weights (the MAP): predictions are its softmax, Eq. (3), at a temperature.

    Arguments:
        weights: (tasks, C, p).
        info: how the fit went.
        temperature: by which the logits are multiplied, (tasks,): above 1 it sharpens.
        base_weights, base_bias: the old classes, (B, p) and (B,), or None.
    """

    weights: Floats
    info: Info
    temperature: Floats
    base_weights: Floats | None = None
    base_bias: Floats | None = None

    def predict_proba(self, X_query: NDArray[np.floating[Any]]) -> Floats:
        """Give softmax(temperature × logits), (tasks, m, p) -> (tasks, m, B + C)."""
        tasks, m, p = X_query.shape
        old = 0 if self.base_weights is None else len(self.base_weights)
        out = np.empty((tasks, m, old + self.weights.shape[1]))
        rows = max(1, _CHUNK_BYTES // (8 * (p + out.shape[2])))
        for task in range(tasks):
            for start in range(0, m, rows):
                part = out[task, start : start + rows]
                X = X_query[task, start : start + rows].astype(np.float64, copy=False)
                np.matmul(X, self.weights[task].T, out=part[:, old:])
                part[:, old:] += self.info.intercept[task]
                if self.base_weights is not None:
                    np.matmul(X, self.base_weights.T, out=part[:, :old])
                    if self.base_bias is not None:
                        part[:, :old] += self.base_bias
                part *= self.temperature[task]
                softmax(part)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give all that defines it but the old classes, for a file."""
        info = self.info
        return {
            "weights": self.weights,
            "intercept": info.intercept,
            "temperature": self.temperature,
            "converged": info.converged,
            "iterations": info.iterations,
            "gradient_norm": info.gradient_norm,
            "objective": info.objective,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], base_weights: Floats | None, base_bias: Floats | None
    ) -> PointPosterior:
        """Rebuild it from what `arrays` gave."""
        info = Info(
            arrays["converged"],
            arrays["iterations"],
            arrays["gradient_norm"],
            arrays["objective"],
            arrays["intercept"],
        )
        return cls(arrays["weights"], info, arrays["temperature"], base_weights, base_bias)


def softmax(logits: Floats) -> Floats:
    """Turn logits into probabilities along the last axis, in place."""
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return logits


def log_sum(logits: Floats) -> Floats:
    """Give ln Σ exp along the last axis."""
    top = logits.max(axis=-1)
    out: Floats = top + np.log(np.exp(logits - top[..., None]).sum(axis=-1))
    return out


def sharpened(proba: Floats, temperature: float) -> Floats:
    """Give p^T / Σ p^T along the last axis: softmax(T × ln p)."""
    if temperature == 1:
        return proba
    powers: Floats = (proba / proba.max(axis=-1, keepdims=True)) ** temperature
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def temperatures(prior: object, tasks: Tasks) -> Floats:
    """Give each task's temperature, (tasks,): what `prior.temperature(examples_per_class)` says, or 1 without it.

    A prior with `ways_factor(ways)` has another one for other numbers of classes.
    """
    temperature = getattr(prior, "temperature", None)
    if temperature is None:
        return np.ones(tasks.count)
    if not callable(temperature):
        raise UserError(
            "the prior's `temperature` must be a method temperature(examples_per_class), by which its predictions are "
            f"sharpened, and it is {temperature!r}: give an attribute that means something else another name"
        )
    examples, which = np.unique(tasks.examples_per_class(), return_inverse=True)
    values = np.array([float(temperature(float(e))) if e > 0 else 1.0 for e in examples])
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise UserError(
            f"the prior's temperature must be a positive number, and for {examples} examples it is {values}"
        )
    if hasattr(prior, "ways_factor"):
        values *= prior.ways_factor(tasks.ways)
    return np.asarray(values[which])


def as_queries(X_query: ArrayLike, tasks: Tasks) -> NDArray[np.floating[Any]]:
    """Check query features, (tasks, m, p)."""
    X = as_features(X_query, "X_query", ndim=3)
    expected = (tasks.count, tasks.X.shape[2])
    if (X.shape[0], X.shape[2]) != expected:
        raise UserError(f"X_query must have shape ({expected[0]}, m, {expected[1]}) as X has, and it has {X.shape}")
    check_finite(X, "X_query")
    return X
