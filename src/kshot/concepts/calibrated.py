"""A prior with two numbers added: the scale of its density and the temperature of its predictions (`kshot.calibrate`).

The paper's prior is as broad as the last layer's weight decay left the base weights: classes come out right, and their
probabilities far too unsure. The scale stretches the prior, w → μ + √s (w − μ), before the weights are learned; the
temperature sharpens the predictions, which are proportional to p^T: softmax(T × logits) for MAP. Both are this
project's own addition to the paper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from kshot.concepts.background import Background
from kshot.concepts.base import ConceptPrior, family_of
from kshot.concepts.covariance import Array, Floats, ScaledIdentity
from kshot.concepts.gaussian import GaussianPrior
from kshot.concepts.normalisation import Normalisation
from kshot.concepts.temperature import FITTED_WAYS, Temperature
from kshot.errors import FileFormatError, UserError

__all__ = ["CalibratedPrior", "Calibration", "Temperature"]

_BUNDLED = Path(__file__).parent.parent / "assets" / "calibrations"


@dataclass(frozen=True, eq=False)
class Calibration:
    """The two numbers by themselves, for one inference method and one setting.

    Arguments:
        scale: s, by which the prior's covariance is multiplied.
        temperature: by which logits are multiplied, as a function of the examples per class.
        inference: the method for which they were fitted.
        setting: "closed", new classes only; "joint", new classes in one softmax with the old ones.
        report: where they come from, JSON values.
        normalisation: what the features go through first (`CalibratedPrior.prepared`); None for features as they are.
        background: how the old classes stand beside the new ones in the joint setting; None is the paper's online
            softmax, with the temperature on all logits.
        exponent: of the number of classes: with C of them the temperature is (C / 5)^−exponent times that of five,
            with which it was fitted.
    """

    scale: float
    temperature: Temperature
    inference: str = "map"
    setting: Literal["closed", "joint"] = "closed"
    report: dict[str, Any] = field(default_factory=dict)
    normalisation: Normalisation | None = None
    background: Background | None = None
    exponent: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise UserError(f"scale must be a positive number, and it is {self.scale}")

    def apply(self, prior: Any) -> CalibratedPrior:
        """Give `prior` stretched by the scale, with the temperature.

        A prior of base weights belongs to features as they are. For normalised ones only its variance means something:
        the prior is then N(0, s σ² I) without a bias.
        """
        if isinstance(prior, CalibratedPrior):
            raise UserError("this prior is calibrated already: give the one that it was made of")
        if not hasattr(prior, "scaled"):
            raise UserError(
                f"{type(prior).__name__} must have a method scaled(s), which gives it stretched about its mean, "
                "w → mean + √s (w − mean)"
            )
        if self.normalisation is not None:
            prior = _isotropic(prior)
        return CalibratedPrior(prior.scaled(self.scale), self)

    def to_json(self) -> dict[str, Any]:
        """Give it as a dictionary of JSON values."""
        values: dict[str, Any] = {
            "scale": self.scale,
            "temperature": asdict(self.temperature),
            "inference": self.inference,
            "setting": self.setting,
            "report": self.report,
            "exponent": self.exponent,
        }
        for name in ("normalisation", "background"):
            part = getattr(self, name)
            if part is not None:
                values[name] = part.to_json()
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        """Rebuild it from what `to_json` gave."""
        try:
            curve = Temperature(tuple(values["temperature"]["shots"]), tuple(values["temperature"]["values"]))
            return cls(
                float(values["scale"]),
                curve,
                values["inference"],
                values["setting"],
                dict(values.get("report", {})),
                Normalisation.from_json(values["normalisation"]) if "normalisation" in values else None,
                Background.from_json(values["background"]) if "background" in values else None,
                float(values.get("exponent", 0.0)),
            )
        except (KeyError, TypeError) as error:
            raise FileFormatError(f"this is no calibration: it lacks or misspells {error}") from None

    @classmethod
    def bundled(
        cls,
        backbone: str,
        *,
        inference: str = "map",
        setting: Literal["closed", "joint"] = "closed",
        family: str = "gauss-iso",
    ) -> Calibration:
        """Give the numbers that come with a bundled backbone, for a family's prior as `fit` gives it by default."""
        entries = cls.bundled_file(backbone).get("calibrations", {})
        found = entries.get(f"{family}:{setting}:{inference}")
        if found is None:
            known = f" (there are {', '.join(entries)})" if entries else ""
            raise UserError(
                f"no {setting} calibration of {family} by {inference} comes with the backbone {backbone!r}{known}: "
                "fit one with kshot.calibrate(prior, X_base, y_base) on images of base classes"
            )
        return cls.from_json(found)

    @classmethod
    def is_bundled(
        cls,
        backbone: str,
        *,
        inference: str = "map",
        setting: Literal["closed", "joint"] = "closed",
        family: str = "gauss-iso",
    ) -> bool:
        """Say whether `bundled` has an answer."""
        return f"{family}:{setting}:{inference}" in cls.bundled_file(backbone).get("calibrations", {})

    @staticmethod
    def bundled_file(backbone: str) -> dict[str, Any]:
        """Give all that is bundled about a backbone's calibration, as JSON values; empty if there is nothing."""
        path = _BUNDLED / f"{backbone}.json"
        if Path(backbone).name != backbone or not path.is_file():
            return {}
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return content

    def __repr__(self) -> str:
        return f"Calibration(scale={self.scale:.3g}, {self.temperature!r}, {self.inference}, {self.setting})"


def _isotropic(prior: Any) -> GaussianPrior:
    """Give N(0, σ² I) with the mean variance of a Gaussian prior's weights, its bias left out."""
    if not isinstance(prior, GaussianPrior):
        raise UserError("a calibration for normalised features is one of a Gaussian prior: give a GaussianPrior")
    dim = prior.dim - prior.has_bias
    return GaussianPrior(np.zeros(dim), ScaledIdentity(float(prior.covariance.diagonal()[:dim].mean()), dim=dim))


class CalibratedPrior(ConceptPrior):
    """A prior whose scale is fitted, with the temperature of its predictions; taken wherever a prior is.

    Arguments:
        prior: the prior, already scaled.
        calibration: the two numbers.

    Example:
        >>> import kshot
        >>> prior = kshot.GaussianPrior.fit([[0.0, 1.0], [2.0, 1.5], [1.0, 5.0]])
        >>> calibrated = Calibration(2.0, Temperature((1, 10), (4.0, 2.0))).apply(prior)
        >>> calibrated.prior.covariance.variance / prior.covariance.variance, round(calibrated.temperature(10), 3)
        (2.0, 2.0)
    """

    family: ClassVar[str] = "calibrated"

    def __init__(self, prior: Any, calibration: Calibration) -> None:
        self.prior = prior
        self.calibration = calibration
        self.has_bias = bool(getattr(prior, "has_bias", False))

    @property
    def scale(self) -> float:
        """s, by which the covariance of the prior was multiplied."""
        return self.calibration.scale

    def temperature(self, examples_per_class: float) -> float:
        """Give the number by which logits are multiplied, for so many examples per class."""
        return self.calibration.temperature(examples_per_class)

    def ways_factor(self, ways: int) -> float:
        """Give what the temperature is multiplied by for so many classes; 1 for the five that it was fitted with."""
        return float((ways / FITTED_WAYS) ** -self.calibration.exponent)

    def prepared(self, X: NDArray[Any]) -> NDArray[Any]:
        """Give features as this prior was calibrated for, (..., p): normalised, or as they are."""
        return X if self.calibration.normalisation is None else self.calibration.normalisation(X)

    @property
    def mean(self) -> Floats:
        """The centre of the density, (dim,)."""
        return np.asarray(self.prior.mean)

    def log_prob(self, weights: Array) -> Array:
        """Give the scaled prior's log density of each row, (..., dim) -> (...)."""
        return self.prior.log_prob(weights)

    def grad_log_prob(self, weights: Array) -> Array:
        """Give its gradient, (..., dim) -> (..., dim)."""
        return self.prior.grad_log_prob(weights)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> Floats:
        """Draw `n` weight vectors of the scaled prior, (n, dim)."""
        return np.asarray(self.prior.sample(n, seed=seed))

    def _scaled(self, s: float) -> Self:
        return type(self)(self.prior.scaled(s), replace(self.calibration, scale=self.scale * s))

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Give the scaled prior's parameters, and `calibration`: the two numbers and its family, as JSON in bytes."""
        if not isinstance(self.prior, ConceptPrior):
            raise UserError(
                f"the prior, a {type(self.prior).__name__}, cannot be written to a file: only the library's own can"
            )
        header = {"family": self.prior.family, **self.calibration.to_json()}
        content = np.frombuffer(json.dumps(header, ensure_ascii=False).encode(), dtype=np.uint8)
        return {**self.prior.parameters(), "calibration": content}

    @classmethod
    def _from_parameters(cls, parameters: Mapping[str, NDArray[Any]], *, has_bias: bool) -> Self:
        own = dict(parameters)
        try:
            header = json.loads(own.pop("calibration").tobytes())
        except ValueError:
            raise FileFormatError("the calibration of this prior is damaged") from None
        family = family_of(str(header.get("family")))
        return cls(family._from_parameters(own, has_bias=has_bias), Calibration.from_json(header))

    def __repr__(self) -> str:
        return f"CalibratedPrior({self.prior!r}, scale={self.scale:.3g}, {self.calibration.temperature!r})"
