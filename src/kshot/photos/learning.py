"""Learn from a folder, add to a model, and take classes out or rename them: each gives a new model."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kshot.datasets.folders import Skipped
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import UserError
from kshot.photos.choosing import bundled_calibrations, choose_calibrations, fit_on_base_images
from kshot.photos.examples import Examples, class_name
from kshot.photos.fitting import Calibrations, backbone_prior, fit_model
from kshot.photos.gathering import gather
from kshot.photos.model import BackboneRecord, Head, PhotoModel

if TYPE_CHECKING:
    from kshot.backbones import Backbone

__all__ = ["Learned", "add", "find_class", "learn", "remove", "rename"]

Report = Callable[[int, int], None]
Phase = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, the examples that were read for it, and the files that were passed over."""

    model: PhotoModel
    read: Examples
    skipped: tuple[Skipped, ...]


def learn(
    folder: str | Path,
    *,
    backbone: str | Path = "efficientnet-lite0",
    preprocessing: Preprocessing | str | None = None,
    base_images: str | Path | None = None,
    calibrations: Calibrations | None = None,
    device: str = "cpu",
    threads: int | None = None,
    report: Report | None = None,
    phase: Phase = lambda _: None,
) -> Learned:
    """Learn the classes of a folder with a subfolder of photographs per class.

    Arguments:
        folder: links are followed; what is no photograph is passed over and named.
        backbone: a bundled name, a backbone file, or an `.onnx` file.
        preprocessing: of an `.onnx` file.
        base_images: photographs of the backbone's own classes, to calibrate on; needless for bundled backbones.
        calibrations: scale and temperature, where they are known; else the bundled ones, or chosen.
        device: see `kshot.Backbone.load`.
        threads: of the network.
        report: is told how many photographs of how many are read.
        phase: is told what is done next.
    """
    from kshot.backbones import Backbone

    phase("opening the network")
    network = Backbone.load(backbone, preprocessing=preprocessing, device=device, threads=threads)
    phase("reading photographs")
    gathered = gather(folder, network, report=report)
    if network.base_weights is None and len(gathered.examples.classes) == 1:
        raise UserError(
            f"{folder} has one class only ({gathered.examples.classes[0]}), and {network.name} has no classes of its "
            "own to tell it from: add a folder with photographs of another class"
        )
    if calibrations is None:
        calibrations = bundled_calibrations(network, backbone)
    if base_images is not None:
        phase("calibrating on base images")
        calibrations = fit_on_base_images(network, base_images)
    model = _fit(gathered.examples, network, _record(network, backbone), calibrations, phase)
    return Learned(model, gathered.examples, gathered.skipped)


def add(
    model: PhotoModel,
    folder: str | Path,
    *,
    backbone: str | Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    report: Report | None = None,
    phase: Phase = lambda _: None,
) -> Learned:
    """Learn from a folder beside what a model already knows: new classes, or more photographs of old ones.

    In whatever order photographs come, the model is the same; one that it has learned from already is passed over.
    """
    phase("opening the network")
    network = model.load_backbone(backbone, device=device, threads=threads)
    phase("reading photographs")
    gathered = gather(folder, network, report=report)
    known = set(zip(model.examples.names, model.examples.digests, strict=True))
    new = np.array([key not in known for key in zip(gathered.examples.names, gathered.examples.digests, strict=True)])
    read = gathered.examples
    repeated = tuple(
        Skipped(Path(folder, name, file), "already learned")
        for name, file, is_new in zip(read.names, read.files, new, strict=True)
        if not is_new
    )
    examples = model.examples.joined(read)
    learned = _fit(examples, network, model.backbone, _kept(model), phase)
    return Learned(learned, read.rows(new), (*gathered.skipped, *repeated))


def remove(
    model: PhotoModel, name: str, *, backbone: str | Path | None = None, phase: Phase = lambda _: None
) -> PhotoModel:
    """Take a class out: the model is the one that would have been learned without it."""
    name = find_class(model, name)
    if len(model.classes) == 1:
        raise UserError(f"{name} is the only class of this model: nothing would be left")
    network = model.load_backbone(backbone)
    if network.base_weights is None and len(model.classes) == 2:
        raise UserError(f"without {name} one class would be left, and {network.name} has nothing to tell it from")
    return _fit(model.examples.without(name), network, model.backbone, _kept(model), phase)


def rename(model: PhotoModel, old: str, new: str) -> PhotoModel:
    """Give a class another name; nothing is learned anew."""
    old, new = find_class(model, old), class_name(new)
    if new in model.classes:
        same = "it is called so already" if new == old else "there is a class of that name already"
        raise UserError(f"{old} cannot be renamed to {new}: {same}")
    examples = model.examples.renamed({old: new})
    place = [new if name == old else name for name in model.classes]
    order = [place.index(name) for name in examples.classes]

    def turned(head: Head | None) -> Head | None:
        return None if head is None else replace(head, weights=head.weights[order], bias=head.bias[order])

    rows = {key: row for row, key in enumerate(zip(model.examples.names, model.examples.digests, strict=True))}
    was = [
        rows[(old if name == new else name, digest)]
        for name, digest in zip(examples.names, examples.digests, strict=True)
    ]
    left_out = model.left_out[was][:, [*order, len(order)]] if model.left_out.size else model.left_out
    twins = tuple((row, new if name == old else name) for row, name in model.set_aside)
    return replace(
        model,
        examples=examples,
        closed=turned(model.closed),
        joint=turned(model.joint),
        set_aside=twins,
        left_out=left_out,
    )


def find_class(model: PhotoModel, name: str) -> str:
    """Give the class of that name, or say which one may have been meant."""
    name = class_name(name)
    if name in model.classes:
        return name
    close = difflib.get_close_matches(name, model.classes, n=1)
    some = ", ".join(model.classes[:10]) + (", ..." if len(model.classes) > 10 else "")
    raise UserError(
        f"there is no class {name}. " + (f"Did you mean {close[0]}?" if close else f"The classes are {some}")
    )


def _fit(
    examples: Examples,
    network: Backbone,
    record: BackboneRecord,
    calibrations: Calibrations | None,
    phase: Phase,
) -> PhotoModel:
    prior = backbone_prior(network, examples.X)
    if calibrations is None or (calibrations.closed is None and len(examples.classes) > 1):
        phase("choosing scale and temperature")
        calibrations = choose_calibrations(examples, network, prior)
    return fit_model(examples, network, record, calibrations, prior=prior, phase=phase)


def _kept(model: PhotoModel) -> Calibrations | None:
    """Give the numbers that a model was learned with; those chosen on its examples are chosen anew."""
    kept = Calibrations.from_json(model.calibration)
    return None if kept.source == "leave-one-out" else kept


def _record(network: Backbone, source: str | Path) -> BackboneRecord:
    from kshot.backbones import names

    foreign = Path(source).suffix.lower() == ".onnx"
    place = str(source) if str(source) in names.bundled() else str(names.find(source).resolve())
    return BackboneRecord(network.name, network.hash, place, dict(network.preprocessing.to_json()) if foreign else None)
