"""Fit the numbers that come with a bundled backbone, src/kshot/assets/calibrations/NAME.json, and nothing else.

A network trained here takes them from classes that a sibling of equal recipe has not seen:

    kshot train --data cifar100 --leave-out 16 --out SIBLING
    python scripts/calibrate_backbone.py vgg-cifar100 --network SIBLING/backbone.safetensors --data DIR --leave-out 16

The sibling has seen fewer classes than the network itself, perhaps for a shorter time, and needs other temperatures for
that reason alone. How much other is measured on test images of the classes that both know, at the same scale: the
temperatures are multiplied by that ratio. Where the data set keeps no test images (miniImageNet), there are only images
that both have learned from:

- The scale is multiplied by the sibling's mean σ²‖x‖² on them over the network's own: only the kernel s σ² x·x' counts.
- At equal kernels, the ratio of the temperatures says how much better the network tells classes apart, but also how
  much more it remembers. Without it the network's temperatures come out too low, with it too high: its square root is
  taken, the middle.
- Old and new classes together cannot be fitted.

(A pretrained network's numbers come from images of its own classes: `calibrate_photographs.py`.)

Everything is seeded: the same command writes the same file.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kshot
from kshot.datasets.splits import open_data
from kshot.evaluation.calibrate import Fit
from kshot.evaluation.methods import prior_of
from kshot.evaluation.simulation import simulate
from kshot.evaluation.temperature import fit_class_mean_temperature
from kshot.evaluation.ways import closed_exponent

ROOT = Path(__file__).resolve().parent.parent
SHOTS = (1, 2, 3, 5, 10, 20, 50)
SEEN_IMAGES = 80  # of each class that both know, where there are no test images
# Family, setting, inference method.
ENTRIES = ("gauss-iso:closed:map", "gauss-iso:closed:laplace", "gauss-iso:joint:map")


@dataclass(frozen=True, eq=False)
class Source:
    """Features of images to calibrate on, with the last layer that they belong to.

    Labels are rows of that layer; those of classes it has never seen are below 0.
    """

    features: kshot.Features
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    words: dict[str, Any]
    itself: kshot.Features  # of the network itself: images of the classes that both know
    learned: bool  # whether both have learned from these, for want of test images

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Say which images are of the classes to calibrate on: those without a row."""
        return self.y < 0

    @cached_property
    def times(self) -> float:
        """Give the sibling's mean σ²‖x‖² over the network's own: what the scale has to be multiplied by."""
        if not self.learned:  # measured by the temperatures themselves
            return 1.0
        return kernel(self.features, self.X[~self.unseen]) / kernel(self.itself, self.itself.X)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the numbers that come with a bundled backbone.")
    parser.add_argument("name", help="of the bundled backbone that the numbers are for")
    parser.add_argument("--network", required=True, help="the sibling's backbone file")
    parser.add_argument("--data", type=Path, required=True, help="a data set, as kshot train takes it")
    parser.add_argument("--leave-out", type=int, default=16, help="how many base classes the sibling has not seen")
    parser.add_argument("--entries", nargs="+", help="FAMILY:SETTING:INFERENCE; by default all that can be fitted")
    parser.add_argument("--shots", type=int, nargs="+", default=list(SHOTS))
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--old-answer", choices=["each", "together"], default="each")
    parser.add_argument("--out", type=Path, help="by default src/kshot/assets/calibrations/NAME.json")
    arguments = parser.parse_args()

    source = from_images(arguments)
    calibrations = {}
    for entry in arguments.entries or [each for each in ENTRIES if not source.learned or ":joint:" not in each]:
        begun = time.perf_counter()
        calibrations[entry] = fit(entry, source, arguments)
        print(f"{entry}: {calibrations[entry]!r} in {time.perf_counter() - begun:.0f} s", flush=True)
    X, y = source.X[source.unseen], source.y[source.unseen]
    shots = [k for k in (1, 5, 10) if k in arguments.shots] or arguments.shots
    mean_temperature = fit_class_mean_temperature(X, y, ways=arguments.ways, shots=shots, tasks=arguments.tasks)
    content = {
        "backbone": arguments.name,
        "hash": kshot.Backbone.load(arguments.name).hash,
        "kshot": kshot.__version__,
        "source": source.words,
        "calibrations": {entry: found.to_json() for entry, found in calibrations.items()},
        "class_mean_temperature": {"value": mean_temperature, "shots": shots, "tasks": arguments.tasks},
    }
    out = arguments.out or ROOT / "src/kshot/assets/calibrations" / f"{arguments.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"class means: {mean_temperature:.4g}; written to {out}")


def from_images(arguments: argparse.Namespace) -> Source:
    """Extract features of the left-out classes, and of test images of the classes that the sibling knows."""
    split = open_data(arguments.data, leave_out=arguments.leave_out)
    backbone = kshot.Backbone.load(arguments.network)
    if split.left_out is None or backbone.base_weights is None or not backbone.base_names:
        raise SystemExit("the data set must have left-out classes, and the network a last layer")
    if set(split.left_out.names) & set(backbone.base_names):
        raise SystemExit("the network was trained on the classes that should be left out: give the sibling's file")
    new = backbone.features(split.left_out.images)
    features = kshot.Features(
        new, split.left_out.labels, base_weights=backbone.base_weights, base_bias=backbone.base_bias
    )
    words = {
        "kind": "classes left out of the training of a sibling",
        "data": split.source,
        "classes": list(split.left_out.names),
        "images": len(new),
        "base_classes": len(backbone.base_weights),
    }
    y = split.left_out.labels - len(split.left_out.names)
    network = kshot.Backbone.load(arguments.name)
    if backbone.provenance.get("recipe") == network.provenance.get("recipe"):
        words["kind"] += " of equal recipe"
    known = split.base.first_per_class(SEEN_IMAGES)[0] if split.base_test is None else split.base_test
    old = backbone.features(known.images)
    rows = np.array([list(backbone.base_names).index(name) for name in known.names])
    itself = kshot.Features(
        network.features(known.images), known.labels, base_weights=network.base_weights, base_bias=network.base_bias
    )
    words["seen_images" if split.base_test is None else "base_images"] = len(old)
    X, labels = np.concatenate([new, old]), np.concatenate([y, rows[known.labels]])
    return Source(features, X, labels, words, itself, learned=split.base_test is None)


def kernel(features: kshot.Features, X: NDArray[np.float32]) -> float:
    """Give the mean σ²‖x‖² of images, σ² by the paper's rule: how far weights from the prior move a logit."""
    assert features.base_weights is not None
    return float(features.base_weights.var(axis=0).mean() * np.mean(np.sum(X**2, axis=1)))


def fit(entry: str, source: Source, arguments: argparse.Namespace) -> kshot.concepts.Calibration:
    """Calibrate one family for one setting and one inference method."""
    family, setting, inference = entry.split(":")
    prior, chosen = prior_of(family, source.features), source.unseen
    options: dict[str, Any] = {"ways": arguments.ways, "shots": arguments.shots, "inference": inference}
    options["tasks"] = arguments.tasks
    if inference != "map":  # averaging costs many times as much, and is as smooth a function of the shots
        options |= {"shots": [k for k in (1, 5, 10) if k in arguments.shots] or arguments.shots, "tasks": 150}
    if setting == "joint":
        options |= {"base_weights": source.features.base_weights, "base_bias": source.features.base_bias}
        options["old_answer"] = arguments.old_answer
        chosen = np.ones(len(source.y), np.bool_)
    found = kshot.calibrate(prior, source.X[chosen], source.y[chosen], **options).calibration
    if setting == "joint":
        return found
    exponent = closed_exponent(found, prior, source.X[chosen], source.y[chosen])
    known = source.y >= 0
    last = {"base_weights": source.features.base_weights, "base_bias": source.features.base_bias}
    sibling = kshot.Features(source.X[known], source.y[known], **last)
    shots = [int(k) for k in found.temperature.shots]
    scales = (found.scale * source.times, found.scale)
    ratio = ratios(family, (source.itself, sibling), scales, shots=shots, ways=arguments.ways)
    report = dict(found.report)
    if source.learned:
        report |= {"times_for_larger_features": source.times, "times_on_learned_images": ratio}
        ratio = [math.sqrt(each) for each in ratio]
    else:
        report["times_for_more_classes"] = ratio
    temperature = tuple(t * r for t, r in zip(found.temperature.values, ratio, strict=True))
    curve = kshot.concepts.Temperature(found.temperature.shots, temperature)
    return replace(found, scale=found.scale * source.times, temperature=curve, report=report, exponent=exponent)


def ratios(
    family: str,
    networks: tuple[kshot.Features, kshot.Features],
    scales: tuple[float, float],
    *,
    shots: list[int],
    ways: int,
) -> list[float]:
    """Give the ratio of the temperatures that two networks need for classes that both know, by MAP, at each shots.

    Each network is its features of the same images, with its last layer; each has a scale of its own.
    """
    needed = []
    for known, scale in zip(networks, scales, strict=True):
        rounds = simulate(known.X, known.y, ways=ways, shots=shots, queries=15, tasks=400, seed=0)
        best = Fit(prior_of(family, known), known.X, rounds, shots, "map", 0).at(math.log(scale))
        needed.append(best.log_temperature)
    return [math.exp(first - second) for first, second in zip(*needed, strict=True)]


if __name__ == "__main__":
    main()
