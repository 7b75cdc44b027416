"""Answers for photographs: the backbone's features, the model's probabilities, the threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kshot.datasets.photographs import PhotographError
from kshot.photos.answers import Answer, answers, class_shares, reweighted, threshold_for
from kshot.photos.model import PhotoModel, Probabilities

if TYPE_CHECKING:
    from kshot.backbones import Backbone

__all__ = ["predict", "predict_stream"]

Outcome = Answer | PhotographError


def predict(
    model: PhotoModel,
    photographs: Sequence[str | Path],
    *,
    backbone: Backbone | None = None,
    closed: bool = False,
    threshold: float | None = None,
    max_error: float | None = None,
    class_prior: Mapping[str, float] | None = None,
) -> list[Answer]:
    """Answer for each photograph; the first that cannot be read raises `PhotographError`.

    Arguments:
        model: what `learn` made.
        photographs: files.
        backbone: the model's own, where it is loaded already.
        closed: leave "something else" out.
        threshold: below it the answer is "unsure"; by default the model's.
        max_error: choose the threshold such that this share of the answers is expected to be wrong.
        class_prior: how often classes come in use, where not equally often.
    """
    found = []
    options = {"closed": closed, "threshold": threshold, "max_error": max_error, "class_prior": class_prior}
    for _, outcome in predict_stream(model, photographs, backbone or model.load_backbone(), **options):  # type: ignore[arg-type]
        if isinstance(outcome, PhotographError):
            raise outcome
        found.append(outcome)
    return found


def predict_stream(
    model: PhotoModel,
    photographs: Sequence[str | Path],
    backbone: Backbone,
    *,
    closed: bool = False,
    threshold: float | None = None,
    max_error: float | None = None,
    class_prior: Mapping[str, float] | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Give each photograph's place and its answer, or why it has none, in order and as they come.

    With `max_error` all are read before the first is answered, because the threshold depends on them all.
    """
    shares = None if class_prior is None else class_shares(class_prior, model.classes)
    limit = model.threshold if threshold is None else threshold
    # A threshold of the user's own is all that is asked of an answer.
    doubt = model.doubt if threshold is None and max_error is None else 1.0
    waiting: list[tuple[int, PhotographError | None]] = []
    held: list[Probabilities] = []
    for batch in backbone.stream(photographs, on_error="skip"):
        order: dict[int, PhotographError | None] = dict.fromkeys(batch.rows.tolist())
        order |= dict(batch.skipped)
        finite = np.isfinite(batch.features).all(axis=1)
        for row in batch.rows[~finite].tolist():
            order[row] = PhotographError(
                photographs[row], f"the backbone {backbone.name} gives no finite features for it"
            )
        places = sorted(order.items())
        part = _probabilities(model, backbone, batch.features[finite], closed, shares) if finite.any() else None
        if max_error is None:
            yield from _answered(model, backbone, places, [] if part is None else [part], limit, doubt)
        else:
            waiting += places
            held += [] if part is None else [part]
    if max_error is not None:
        top = [np.maximum(part.classes.max(axis=1), part.other) for part in held]
        limit = threshold_for(np.concatenate(top) if top else np.empty(0), max_error)
        yield from _answered(model, backbone, waiting, held, limit, doubt)


def _probabilities(
    model: PhotoModel, backbone: Backbone, X: np.ndarray, closed: bool, shares: np.ndarray | None
) -> Probabilities:
    found = model.probabilities(X, backbone, closed=closed)
    return found if shares is None else reweighted(found, shares)


def _answered(
    model: PhotoModel,
    backbone: Backbone,
    places: Sequence[tuple[int, PhotographError | None]],
    parts: Sequence[Probabilities],
    threshold: float,
    doubt: float,
) -> Iterator[tuple[int, Outcome]]:
    limits = {"threshold": threshold, "doubt": doubt}
    said = iter(
        [answer for part in parts for answer in answers(part, model.classes, **limits, base_names=backbone.base_names)]
    )
    for place, error in places:
        yield place, next(said) if error is None else error
