"""The old classes as the answer "something else": how loudly they speak beside new classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from kshot.concepts.temperature import FITTED_WAYS, Temperature
from kshot.errors import FileFormatError, UserError

__all__ = ["Background"]


@dataclass(frozen=True, eq=False)
class Background:
    """p(something else | x) ∝ weight(k) Σ_old exp(flatness · f_old(x)), beside exp(T(k) w_c·z) for each new class c.

    The paper's online softmax (Section 4.1) has flatness and weight 1. Its old logits f_old differ from image to image
    far more by how sharp an image is than by whether it is of a new class, and at 1 example per class the new classes
    never win. Flattened and weighed, the old classes tell how much evidence a new class needs before it is believed.

    Arguments:
        flatness: by which the old logits are multiplied, 0 to 1.
        weight: of their sum in predictions, as a function of the examples per class; 1 while learning.
        doubt: p(something else) above which no class is answered, as a function of the examples per class.
        exponent: of the number of classes: with C of them the weight is (C / 5)^exponent times that of five.
    """

    flatness: float
    weight: Temperature
    doubt: Temperature
    exponent: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.flatness) and 0 <= self.flatness <= 1):
            raise UserError(f"flatness must be a number from 0 to 1, and it is {self.flatness}")

    def shift(self, examples_per_class: float, ways: int) -> float:
        """Give ln weight for so many examples per class and classes: what the flattened old logits are raised by."""
        return float(np.log(self.weight(examples_per_class)) + self.exponent * np.log(ways / FITTED_WAYS))

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON values."""
        return {
            "flatness": self.flatness,
            "weight": asdict(self.weight),
            "doubt": asdict(self.doubt),
            "exponent": self.exponent,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild it from what `to_json` gave."""
        try:
            weight, doubt = (
                Temperature(tuple(values[name]["shots"]), tuple(values[name]["values"])) for name in ("weight", "doubt")
            )
            return cls(float(values["flatness"]), weight, doubt, float(values.get("exponent", 0.0)))
        except (KeyError, TypeError):
            raise FileFormatError("this is no background: flatness, weight or doubt is missing") from None
