"""What can be set about the two methods that average over the posterior, as small frozen objects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from kshot.errors import UserError

__all__ = ["NUTS", "LaplaceApproximation"]


@dataclass(frozen=True, kw_only=True)
class LaplaceApproximation:
    """Settings of inference="laplace": pass this object in place of the name.

    Arguments:
        predictive: "sample" averages the softmax over draws of each query's logits; "probit" is a formula without
            draws, faster and a little off (docs/posterior.md says how much).
        samples: the number of draws per query; they are the same (quasi-random) for all queries.
        centre: "mean" puts the Gaussian where the expected gradient vanishes (see `centre.py`), much nearer to the
            posterior where the prior is broad; "map" is the textbook's approximation about the MAP.

    Example:
        >>> LaplaceApproximation(samples=1024)
        LaplaceApproximation(predictive='sample', samples=1024, centre='mean')
    """

    predictive: Literal["sample", "probit"] = "sample"
    samples: int = 512
    centre: Literal["mean", "map"] = "mean"

    method: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        if self.predictive not in ("sample", "probit"):
            raise UserError(f'predictive must be "sample" or "probit", and it is {self.predictive!r}')
        if self.centre not in ("mean", "map"):
            raise UserError(f'centre must be "mean" or "map", and it is {self.centre!r}')
        _check_counts(self, samples=2)


@dataclass(frozen=True, kw_only=True)
class NUTS:
    """Settings of inference="nuts": pass this object in place of the name.

    Arguments:
        chains: how many independent runs; R-hat compares them.
        warmup: steps of each chain that find the step size and the scales, and are thrown away.
        draws: steps of each chain that are kept.
        target_accept: the acceptance rate that the step size aims at; nearer 1 is shorter steps and fewer divergences.
        max_depth: a trajectory has at most 2^max_depth steps.
        jobs: how many tasks are sampled at the same time; None for one per processor core.
        progress: whether to show progress; None for when it takes more than two seconds and the output is a terminal.

    Example:
        >>> NUTS(draws=1000, chains=4).warmup
        500
    """

    chains: int = 2
    warmup: int = 500
    draws: int = 500
    target_accept: float = 0.8
    max_depth: int = 10
    jobs: int | None = None
    progress: bool | None = None

    method: ClassVar[str] = "nuts"

    def __post_init__(self) -> None:
        _check_counts(self, chains=1, warmup=20, draws=4, max_depth=1)
        if self.jobs is not None:
            _check_counts(self, jobs=1)
        if not 0 < self.target_accept < 1:
            raise UserError(f"target_accept must lie between 0 and 1, and it is {self.target_accept}")


def _check_counts(settings: object, **least: int) -> None:
    for field in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if field.name in least and (not isinstance(value, int) or value < least[field.name]):
            raise UserError(f"{field.name} must be a whole number of at least {least[field.name]}, and it is {value!r}")
