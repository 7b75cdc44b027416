"""Which scale and temperature a model is learned with: bundled ones, fitted on base images, or by leaving out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.photos.examples import Examples
from kshot.photos.fitting import Calibrations
from kshot.photos.left_out import left_out_table
from kshot.photos.twins import SHARE, find_twins

if TYPE_CHECKING:
    from kshot.backbones import Backbone
    from kshot.concepts import Calibration, GaussianPrior

__all__ = ["bundled_calibrations", "choose_calibrations", "fit_on_base_images"]

Floats = NDArray[np.float64]
Setting = Literal["closed", "joint"]

_SCALES = 8.0 ** np.arange(7)  # 1 to a quarter of a million
_MOST_CLASSES, _MOST_OF_CLASS = 10, 6  # that are chosen by: two numbers need no more, and it must not take long
_TEMPERATURES = np.exp(np.linspace(np.log(0.05), np.log(20.0), 61))
_ENOUGH = 0.01  # nats per photograph: scales this close to the best count as good, and the middle one is taken


def bundled_calibrations(backbone: Backbone, source: str | Path) -> Calibrations | None:
    """Give the numbers that come with a backbone known by name; None where there are none."""
    from kshot.backbones import names
    from kshot.concepts import Calibration

    if names.bundled().get(backbone.name) != names.find(source):
        return None
    found: dict[str, Calibration] = {}
    settings: tuple[Setting, ...] = ("closed", "joint")
    for setting in settings:
        try:
            found[setting] = Calibration.bundled(backbone.name, setting=setting)
        except UserError:
            if setting == "closed":
                return None
    return Calibrations(found.get("closed"), found.get("joint"), "bundled")


def fit_on_base_images(backbone: Backbone, folder: str | Path, *, tasks: int | None = None) -> Calibrations:
    """Fit the numbers on photographs of base classes, in folders named as the backbone names them (`calibrate`).

    Arguments:
        backbone: with base weights.
        folder: 10 photographs of each class at least, better 20; 5 classes at least, better 50. With fewer than 20
            "something else" is no answer: there are too few to play unrelated ones.
        tasks: see `kshot.calibrate`.
    """
    from kshot.evaluation.pretrained import calibrate_pretrained
    from kshot.photos.gathering import gather

    if backbone.base_weights is None:
        raise UserError(f"--base-images is of no use with {backbone.name}: it has no base classes of its own")
    rows = backbone.class_rows
    examples = gather(folder, backbone).examples
    known = [name for name in examples.classes if name in rows]
    if len(known) < 5:
        example = backbone.class_names[0]
        raise UserError(
            f"--base-images {folder} has {len(known)} subfolders named as base classes of {backbone.name} (such as "
            f"{example!r}), and at least 5 are needed"
        )
    keep = np.array([name in rows for name in examples.names])
    y = np.array([rows[name] for name in np.array(examples.names)[keep]], np.int64)
    # Half of a class's photographs at most are examples: the others must be left to judge by.
    fewest = int(np.unique(y, return_counts=True)[1].min())
    options: dict[str, Any] = {"shots": [k for k in (1, 5, 10) if 2 * k <= fewest], "tasks": tasks}
    if not options["shots"]:
        raise UserError(f"--base-images {folder}: one of its classes has one photograph only, and 10 are needed")
    base: dict[str, Any] = {"base_weights": backbone.base_weights, "base_bias": backbone.base_bias}
    found = calibrate_pretrained(examples.X[keep], y, **base, **options)
    return Calibrations(found["closed:map"], found.get("joint:map"), "base images")


def choose_calibrations(examples: Examples, backbone: Backbone, prior: GaussianPrior) -> Calibrations:
    """Choose by leaving photographs out: those numbers under which the ones left out are most probable.

    For the joint setting classes are left out as well: their photographs must then be something else.
    """
    if max(examples.counts.values()) < 2:
        raise UserError(
            f"no calibration comes with the backbone {backbone.name}, and none can be chosen from one photograph of "
            "each class: give a second one"
            + (
                ", or photographs of the backbone's own classes by --base-images FOLDER"
                if backbone.base_weights is not None
                else ""
            )
        )
    examples = _some(examples)
    closed = _choose("closed", examples, backbone, prior) if len(examples.classes) > 1 else None
    joint = _choose("joint", examples, backbone, prior) if backbone.base_weights is not None else None
    if closed is None and joint is None:
        raise UserError(
            f"one class alone cannot be learned with {backbone.name}, which has no classes of its own to tell it from: "
            "give photographs of a second class"
        )
    return Calibrations(closed, joint, "leave-one-out")


def _choose(setting: Setting, examples: Examples, backbone: Backbone, prior: GaussianPrior) -> Calibration:
    from kshot.concepts import Calibration, Temperature

    best = []
    for scale in _SCALES:
        plain = Calibration(float(scale), Temperature((1.0,), (1.0,)), setting=setting).apply(prior)
        base: dict[str, Any] = {}
        if setting == "joint":
            base = {"base_weights": backbone.base_weights, "base_bias": backbone.base_bias, "twin_share": SHARE}
        ways = len(examples.classes)
        table = left_out_table(plain, examples, **base)
        known = np.isfinite(table).all(axis=1)
        # Each is a table of probabilities and the columns that are right.
        own = np.zeros((int(known.sum()), table.shape[1]), np.bool_)
        own[np.arange(len(own)), table.shape[1] - ways + examples.labels[known]] = True
        parts = [(table[known], own)]
        if setting == "joint" and ways > 1:
            parts += _classes_out(plain, examples, backbone)
        scores = np.array([sum(_score(table, own, t) for table, own in parts) for t in _TEMPERATURES])
        best.append((scores.max(), float(scale), float(_TEMPERATURES[scores.argmax()])))
    good = [choice for choice in best if choice[0] >= max(best)[0] - _ENOUGH]
    _, scale, temperature = good[len(good) // 2]
    report = {"chosen": "by leaving photographs out", "photographs": len(examples)}
    return Calibration(scale, Temperature((1.0,), (temperature,)), setting=setting, report=report)


def _some(examples: Examples) -> Examples:
    """Keep six photographs of ten classes at most, those with the most photographs."""
    ranked = sorted(examples.counts, key=lambda name: (-examples.counts[name], name))[:_MOST_CLASSES]
    rows: list[int] = []
    for name in ranked:
        rows += [row for row, own in enumerate(examples.names) if own == name][:_MOST_OF_CLASS]
    names, files, digests = (
        [values[row] for row in rows] for values in (examples.names, examples.files, examples.digests)
    )
    return Examples.ordered(examples.X[rows], names, files, digests)


def _score(table: Floats, own: NDArray[np.bool_], temperature: float) -> float:
    """Give the mean log probability of the right columns after a temperature."""
    with np.errstate(divide="ignore"):
        logits = temperature * np.log(table)
    logits -= logits.max(axis=1, keepdims=True)
    grown = np.exp(logits)
    right = np.where(own, grown, 0.0).sum(axis=1) / grown.sum(axis=1)
    return float(np.log(np.maximum(right, 1e-12)).mean())


def _classes_out(prior: Any, examples: Examples, backbone: Backbone) -> list[tuple[Floats, NDArray[np.bool_]]]:
    """Give what models without a class say of its photographs, (n, B + C − 1), and that old classes are right.

    Nothing where all old classes are the user's, whichever class is left out.
    """
    from kshot.inference import fit_tasks

    assert backbone.base_weights is not None
    weights, bias = backbone.base_weights, backbone.base_bias
    tables = []
    for label in range(len(examples.classes)):
        seen = examples.labels != label
        y = np.unique(examples.labels[seen], return_inverse=True)[1]
        kept = np.delete(np.arange(len(weights)), list(find_twins(examples.X[seen], y, weights, bias)))
        if not len(kept):
            continue
        _, info = fit_tasks(
            prior,
            examples.X[seen][None],
            y[None],
            base_weights=weights[kept],
            base_bias=None if bias is None else bias[kept],
            X_query=examples.X[~seen][None],
        )
        assert info.proba is not None
        table = np.zeros((int((~seen).sum()), len(weights) + len(examples.classes) - 1))
        table[:, [*kept, *range(len(weights), table.shape[1])]] = info.proba[0]
        tables.append(table)
    if not tables:
        return []
    table = np.concatenate(tables)
    own = np.zeros(table.shape, np.bool_)
    own[:, : len(weights)] = True
    return [(table, own)]
