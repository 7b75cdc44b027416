"""`kshot info`: what is in a model, and how good it will be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kshot.photos.estimate import Estimate
    from kshot.photos.model import PhotoModel

__all__ = ["info"]


def info(
    model: Annotated[str, typer.Argument(help="The model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Print the classes of a model, its backbone, and what to expect of it."""
    from kshot import files
    from kshot.cli.models import calibration_lines, estimate_lines, open_model, twin_lines
    from kshot.cli.printing import columns, per_cent, say, visible
    from kshot.photos.estimate import Estimate
    from kshot.photos.model_file import KIND, VERSION

    path, found = open_model(model)
    _, header = files.read(path, kind=KIND, version=VERSION)
    estimate = Estimate.of(found.left_out, found.examples.labels, threshold=found.threshold, doubt=found.doubt)
    if as_json:
        say(json.dumps(_as_json(path, found, header, estimate)))
        return
    count = "1 class" if len(found.classes) == 1 else f"{len(found.classes)} classes"
    say(f"{visible(str(path))}   {count}, {len(found.examples)} photographs")
    for line in columns(found.examples.counts, most=1000):
        say(line)
    size = path.stat().st_size / 1e6
    say(visible(f"written by kshot {header['kshot']} (format {header['format']}), {size:.1f} MB"))
    network = found.backbone
    say(visible(f"backbone: {network.name} ({found.examples.X.shape[1]} features, {network.hash[:12]})"))
    doubt = f", or where something else is above {100 * found.doubt:.1f} %" if found.doubt < 1 else ""
    say(f"unsure below {per_cent(found.threshold)}{doubt}")
    for line in (*calibration_lines(found), *twin_lines(found)):
        say(line)
    say("\nWhat to expect, each photograph judged by a model that had not seen it:")
    for line in (*estimate_lines(found), *_confusions(found, estimate)):
        say(line)


def _confusions(model: PhotoModel, estimate: Estimate) -> Iterator[str]:
    """Name what each class was taken for, most often first."""
    from kshot.cli.printing import pad, visible, width

    answers = [*model.classes, "something else"]
    wrong = estimate.confusion.copy()
    for label in range(len(model.classes)):
        wrong[label, label] = 0
    labels = [label for label in range(len(model.classes)) if wrong[label].any()]
    if not labels:
        return
    yield "  taken for another:"
    cells = max(width(visible(model.classes[label])) for label in labels)
    for label in labels:
        parts = [
            f"{visible(answers[other])} {wrong[label, other]}"
            for other in (-wrong[label]).argsort(kind="stable")
            if wrong[label, other]
        ]
        judged = int(estimate.confusion[label].sum())
        yield f"    {pad(visible(model.classes[label]), cells)}   {', '.join(parts)}   of {judged}"


def _as_json(path: Path, model: PhotoModel, header: dict[str, Any], estimate: Estimate) -> dict[str, Any]:
    judged = {
        "judged": estimate.judged,
        "right": estimate.right,
        "low": estimate.low,
        "high": estimate.high,
        "log_likelihood": estimate.log_likelihood,
        "unsure": estimate.unsure,
        "confusion": estimate.confusion.tolist(),
    }
    return {
        "model": str(path),
        "kshot": header["kshot"],
        "format": header["format"],
        "classes": model.examples.counts,
        "backbone": {"name": model.backbone.name, "hash": model.backbone.hash, "source": model.backbone.source},
        "something_else": model.joint is not None,
        "threshold": model.threshold,
        "doubt": model.doubt,
        "calibration": model.calibration,
        "set_aside": [{"row": row, "class": name} for row, name in model.set_aside],
        "estimate": judged if estimate.judged else None,
    }
