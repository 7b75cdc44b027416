"""The temperature of predictions as a smooth function of the examples per class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kshot.concepts.covariance import Floats
from kshot.errors import UserError

__all__ = ["FITTED_WAYS", "Temperature"]

FITTED_WAYS = 5
"""The number of classes in the tasks that calibrations are fitted to."""

_REACH = math.log(10.0)  # beyond the knots the slope decays over a factor of ten in examples


@dataclass(frozen=True, eq=False)
class Temperature:
    """T(k): predictions are proportional to p^T, softmax(T × logits), so above 1 it sharpens.

    (An inverse temperature: Guo et al., 2017, divide by theirs.)

    ln T is a monotone cubic in ln k between the knots (Fritsch & Butland, 1984); beyond them it goes on with the slope
    it had, which decays over a factor of ten in k: any positive number of examples has a sane temperature.

    Arguments:
        shots: the knots, examples per class, increasing.
        values: the temperature at each.

    Example:
        >>> temperature = Temperature((1, 5, 10), (5.5, 3.7, 3.0))
        >>> [round(temperature(k), 2) for k in (0.5, 1, 2.5, 10, 1000)]
        [6.37, 5.5, 4.42, 3.0, 1.64]
    """

    shots: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        k, t = np.asarray(self.shots, dtype=np.float64), np.asarray(self.values, dtype=np.float64)
        if k.ndim != 1 or k.shape != t.shape or not k.size:
            raise UserError("a temperature needs as many values as shots, and at least one")
        if not (np.isfinite([k, t]).all() and (k > 0).all() and (t > 0).all() and (np.diff(k) > 0).all()):
            raise UserError(f"shots must be positive and increasing and values positive: {self.shots}, {self.values}")
        object.__setattr__(self, "shots", tuple(k.tolist()))
        object.__setattr__(self, "values", tuple(t.tolist()))

    def __call__(self, examples_per_class: float) -> float:
        """Give the temperature for a number of examples per class, which need not be whole."""
        if not (math.isfinite(examples_per_class) and examples_per_class > 0):
            raise UserError(f"examples_per_class must be a positive number, and it is {examples_per_class}")
        x, knots, heights = math.log(examples_per_class), np.log(self.shots), np.log(self.values)
        slopes = _slopes(knots, heights)
        for end, outside in ((0, x < knots[0]), (-1, x > knots[-1])):
            if outside:
                away = x - float(knots[end])
                bent = math.copysign(_REACH * -math.expm1(-abs(away) / _REACH), away)
                return math.exp(float(heights[end]) + float(slopes[end]) * bent)
        if knots.size == 1:
            return self.values[0]
        i = min(int(np.searchsorted(knots, x, side="right")) - 1, knots.size - 2)
        width = float(knots[i + 1] - knots[i])
        t = (x - float(knots[i])) / width
        # Hermite's cubic of the two heights and slopes.
        low, high = (1 + 2 * t) * (1 - t) ** 2 * heights[i], t * t * (3 - 2 * t) * heights[i + 1]
        bend = width * (t * (1 - t) ** 2 * slopes[i] - t * t * (1 - t) * slopes[i + 1])
        return math.exp(float(low + high + bend))

    def __repr__(self) -> str:
        pairs = ", ".join(f"{k:g}: {t:.3g}" for k, t in zip(self.shots, self.values, strict=True))
        return f"Temperature({pairs})"


def _slopes(x: Floats, y: Floats) -> Floats:
    """Give the slope at each knot such that the cubics between them do not overshoot."""
    if x.size == 1:
        return np.zeros(1)
    width, secant = np.diff(x), np.diff(y) / np.diff(x)
    slopes = np.empty_like(x)
    slopes[0], slopes[-1] = secant[0], secant[-1]
    before, after = secant[:-1], secant[1:]
    # The weighted harmonic mean of the two secants, and 0 at a turning point.
    first, second = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    same = before * after > 0
    mean = np.divide(first, before, out=np.ones_like(before), where=same)
    mean += np.divide(second, after, out=np.zeros_like(after), where=same)
    slopes[1:-1] = np.where(same, (first + second) / mean, 0.0)
    return slopes
