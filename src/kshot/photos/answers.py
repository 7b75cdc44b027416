"""From probabilities to answers: a class, "something else", or "unsure"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.photos.model import Probabilities

__all__ = ["Answer", "answers", "class_shares", "reweighted", "threshold_for"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """What is said of one photograph.

    Arguments:
        kind: what sort of answer it is.
        probability: of what is most probable, said or not.
        ranking: classes and their probabilities, most probable first; something else stands among them as None.
        other: p(something else), 0 where that was left out.
        most_like: the backbone's class that has most of it, where it has names; else None.
    """

    kind: Literal["class", "something else", "unsure"]
    probability: float
    ranking: tuple[tuple[str | None, float], ...]
    other: float
    most_like: str | None

    @property
    def name(self) -> str:
        """The answer in words."""
        best = self.ranking[0][0]
        return best if self.kind == "class" and best is not None else self.kind

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON values."""
        values: dict[str, Any] = {"answer": self.name, "probability": round(self.probability, 6)}
        values["probabilities"] = {name: round(p, 6) for name, p in self.ranking if name is not None}
        if self.most_like is not None or self.other:
            values |= {"something_else": round(self.other, 6), "most_like": self.most_like}
        return values


def answers(
    found: Probabilities,
    classes: Sequence[str],
    *,
    threshold: float,
    doubt: float = 1.0,
    base_names: Sequence[str] | None = None,
) -> list[Answer]:
    """Answer with what is most probable; "unsure" where that is below the threshold, or a class with too much doubt.

    Arguments:
        found: the probabilities.
        classes: the names of the C classes.
        threshold: the least probability of an answer.
        doubt: the highest p(something else) beside which a class is answered.
        base_names: names of the backbone's classes, where it has some.
    """
    out = []
    for row, (own, other) in enumerate(zip(found.classes, found.other.tolist(), strict=True)):
        ranking: list[tuple[str | None, float]] = [
            (classes[label], float(own[label])) for label in np.argsort(-own, kind="stable")
        ]
        if found.most_like is not None:
            place = next((i for i, (_, p) in enumerate(ranking) if p < other), len(ranking))
            ranking.insert(place, (None, other))
        best, probability = ranking[0]
        kind: Literal["class", "something else", "unsure"] = "something else" if best is None else "class"
        if probability < threshold or (best is not None and other > doubt):
            kind = "unsure"
        like = None if found.most_like is None or base_names is None else base_names[int(found.most_like[row])]
        out.append(Answer(kind, probability, tuple(ranking), other, like))
    return out


def threshold_for(top: Floats, max_error: float) -> float:
    """Give the lowest threshold at which at most `max_error` of the answers are expected to be wrong.

    With probabilities that hold, an answer of probability p is wrong with probability 1 − p: of those answered the mean
    of 1 − p is the expected share of wrong ones. It grows as the threshold falls.

    Arguments:
        top: the probability of the most probable answer for each photograph, (m,).
        max_error: in 0..1.

    Example:
        >>> float(threshold_for(np.array([0.99, 0.98, 0.5, 0.95]), 0.05))
        0.95
    """
    ordered = np.sort(top)[::-1]
    expected = np.cumsum(1.0 - ordered) / np.arange(1, len(ordered) + 1)
    last_of_equals = np.append(ordered[:-1] != ordered[1:], True)[: len(ordered)]
    (enough,) = np.nonzero(last_of_equals & (expected <= max_error + 1e-12))
    return float(ordered[enough[-1]]) if len(enough) else math.inf


def reweighted(found: Probabilities, shares: Floats) -> Probabilities:
    """Take into account how often each class comes, (C,), where it is not equally often: p_c becomes ∝ p_c C share_c.

    Something else is as frequent beside the classes together as it was.
    """
    classes = found.classes * shares * len(shares)
    total = classes.sum(axis=1) + found.other
    total = np.where(total > 0, total, 1.0)
    return Probabilities(classes / total[:, None], found.other / total, found.most_like)


def class_shares(given: Mapping[str, float], classes: Sequence[str]) -> Floats:
    """Give each class its share, (C,); classes that are not named share what is left equally.

    >>> class_shares({"robin": 0.5}, ["dunnock", "robin", "sparrow"])
    array([0.25, 0.5 , 0.25])
    """
    bad = {name: share for name, share in given.items() if not (math.isfinite(share) and share >= 0)}
    if bad:
        raise UserError(
            f"the share of {next(iter(bad))} must be a number from 0 to 1, and not {next(iter(bad.values()))}"
        )
    total, rest = sum(given.values()), [name for name in classes if name not in given]
    if rest and total > 1 + 1e-9:
        raise UserError(
            f"the shares of {', '.join(given)} add up to {total:g}, more than 1, and leave none for {rest[0]}"
        )
    if not rest and total <= 0:
        raise UserError("the shares of the classes are all zero: one at least must not be")
    left = max(0.0, 1.0 - total) / max(len(rest), 1)
    shares = np.array([given.get(name, left) for name in classes])
    return np.asarray(shares / shares.sum())
