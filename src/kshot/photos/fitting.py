"""From examples and a backbone to a model: the closed head, the joint head, the twins set aside, the estimate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.photos.examples import Examples
from kshot.photos.left_out import left_out, split
from kshot.photos.model import BackboneRecord, Head, PhotoModel
from kshot.photos.twins import SHARE, find_twins, old_logits

if TYPE_CHECKING:
    from kshot.backbones import Backbone
    from kshot.concepts import CalibratedPrior, Calibration, GaussianPrior, Normalisation

__all__ = ["THRESHOLD", "Calibrations", "backbone_prior", "fit_model"]

THRESHOLD = 0.5
"""Below this probability the answer is "unsure"."""

Phase = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Calibrations:
    """Scale and temperature of the two settings, and where they come from; None for a setting that cannot be had."""

    closed: Calibration | None
    joint: Calibration | None
    source: Literal["bundled", "base images", "leave-one-out"]

    def to_json(self) -> dict[str, Any]:
        """Give what a model's file keeps of them: the numbers, without the report on how they were found."""
        kept: dict[str, Any] = {"source": self.source}
        for setting in ("closed", "joint"):
            calibration = getattr(self, setting)
            values = None if calibration is None else calibration.to_json()
            if values is not None:
                values["report"] = {}
            kept[setting] = values
        # Lists for tuples, as they come back from a file.
        plain: dict[str, Any] = json.loads(json.dumps(kept))
        return plain

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Calibrations:
        """Rebuild them."""
        from kshot.concepts import Calibration

        closed, joint = (
            None if values.get(setting) is None else Calibration.from_json(values[setting])
            for setting in ("closed", "joint")
        )
        return cls(closed, joint, values.get("source", "bundled"))

    @property
    def normalisation(self) -> Normalisation | None:
        """What the features go through first; the same in both settings."""
        given = self.closed or self.joint
        return None if given is None else given.normalisation

    def doubt(self, examples_per_class: float) -> float:
        """Give p(something else) above which no class is answered; 1 where nothing was calibrated for that."""
        background = None if self.joint is None else self.joint.background
        return 1.0 if background is None else background.doubt(examples_per_class)


def backbone_prior(backbone: Backbone, X: NDArray[np.floating[Any]]) -> GaussianPrior:
    """Give the isotropic prior of the backbone's base weights, Section 2.3.

    A backbone without has the prior N(0, I / mean‖x‖²): logits of the size of one before it is scaled.
    """
    from kshot.concepts import GaussianPrior, ScaledIdentity

    if backbone.base_weights is None:
        variance = 1.0 / max(float(np.square(X, dtype=np.float64).sum(axis=1).mean()), 1e-30)
        return GaussianPrior(np.zeros(X.shape[1]), ScaledIdentity(variance, X.shape[1]))
    return GaussianPrior.fit(backbone.base_weights, covariance="iso", bias=backbone.base_bias)


def fit_model(
    examples: Examples,
    backbone: Backbone,
    record: BackboneRecord,
    calibrations: Calibrations,
    *,
    prior: GaussianPrior | None = None,
    phase: Phase = lambda _: None,
) -> PhotoModel:
    """Learn from examples: the same examples give the same model, to the last bit.

    Arguments:
        examples: what to learn from.
        backbone: what made their features.
        record: how the model's file remembers it.
        calibrations: scale and temperature.
        prior: `backbone_prior`, where it is at hand.
        phase: is told what is done next.
    """
    phase("learning")
    prior = backbone_prior(backbone, examples.X) if prior is None else prior
    weights, bias = backbone.base_weights, backbone.base_bias
    closed = joint = None
    twins: dict[int, int] = {}
    if calibrations.closed is not None and len(examples.classes) > 1:
        closed = _head(calibrations.closed.apply(prior), examples)
    if calibrations.joint is not None and weights is not None:
        twins = find_twins(examples.X, examples.labels, weights, bias)
        old = np.delete(weights, list(twins), axis=0)
        old_bias = None if bias is None else np.delete(bias, list(twins))
        if len(old):  # else all of the network's own classes are the user's, and nothing is something else
            learn = _head if calibrations.joint.background is None else _head_beside
            joint = learn(calibrations.joint.apply(prior), examples, old, old_bias)
    if closed is None and joint is None:
        raise UserError(
            f"one class alone ({examples.classes[0]}) cannot be learned with {backbone.name}: there is nothing to tell "
            "it from. Give photographs of a second class"
        )
    phase("judging photographs left out")
    if joint is not None and calibrations.joint is not None:
        judged = left_out(
            calibrations.joint.apply(prior),
            examples,
            base_weights=weights,
            base_bias=bias,
            twin_share=SHARE,
        )
    else:
        assert calibrations.closed is not None
        judged = left_out(calibrations.closed.apply(prior), examples)
    return PhotoModel(
        examples,
        record,
        closed,
        joint,
        tuple((row, examples.classes[label]) for row, label in twins.items()),
        THRESHOLD,
        calibrations.doubt(len(examples) / len(examples.classes)),
        judged.astype(np.float32),
        int(split(examples.labels).max()) + 1,
        calibrations.to_json(),
        calibrations.normalisation,
    )


def _head(
    prior: CalibratedPrior,
    examples: Examples,
    base_weights: NDArray[np.floating[Any]] | None = None,
    base_bias: NDArray[np.floating[Any]] | None = None,
) -> Head:
    from kshot.inference import fit_tasks

    weights, info = fit_tasks(
        prior, examples.X[None], examples.labels[None], base_weights=base_weights, base_bias=base_bias
    )
    temperature = prior.temperature(len(examples) / len(examples.classes)) * prior.ways_factor(len(examples.classes))
    rows, intercept = weights[0].astype(np.float32), info.intercept[0].astype(np.float32)
    return Head(rows, intercept, temperature, prior.scale, old_factor=temperature)


def _head_beside(
    prior: CalibratedPrior,
    examples: Examples,
    base_weights: NDArray[np.floating[Any]],
    base_bias: NDArray[np.floating[Any]] | None = None,
) -> Head:
    """Learn the classes beside old ones that act on the features as they are, flattened and weighed."""
    from kshot.inference.beside import fit_beside
    from kshot.inference.posterior import log_sum

    background = prior.calibration.background
    assert background is not None
    rest = log_sum(background.flatness * old_logits(examples.X, base_weights, base_bias))
    variance = prior.prior.covariance.variance
    (weights,) = fit_beside(variance, prior.prepared(examples.X)[None], examples.labels[None], rest[None])
    each = len(examples) / len(examples.classes)
    zeros = np.zeros(len(weights), np.float32)
    temperature = prior.temperature(each) * prior.ways_factor(len(weights))
    shift = background.shift(each, len(weights))
    return Head(weights.astype(np.float32), zeros, temperature, prior.scale, background.flatness, shift)
