"""Carry a bundled network's calibration over to the same network after more training, without its sibling.

`calibrate_backbone.py` takes the numbers for a data set that keeps no test images from a sibling, with two corrections
that compare the network with the sibling on images that both have learned from: the ratio of their kernels, and that
of the temperatures that they need at equal kernels. Both are chains: what the sibling is to the network before, times
what that is to the network now. The first link is in the network's file of numbers; the second is measured here, on the
same images. So the numbers come out as they would with the sibling at hand:

    git show REVISION:src/kshot/assets/backbones/resnet34-miniimagenet.safetensors > BEFORE.safetensors
    python scripts/carry_calibration.py resnet34-miniimagenet --before BEFORE.safetensors --data DIR

Everything is seeded. A second call is refused: the file then holds the numbers of the network as it is now.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import kshot
from calibrate_backbone import ROOT, SEEN_IMAGES, kernel, ratios
from kshot.datasets.imageset import ImageSet
from kshot.datasets.splits import open_data


def main() -> None:
    parser = argparse.ArgumentParser(description="Carry a bundled network's calibration over to what it is now.")
    parser.add_argument("name", help="of the bundled backbone that the numbers are for")
    parser.add_argument("--before", type=Path, required=True, help="its file when the numbers were fitted")
    parser.add_argument("--data", type=Path, required=True, help="a data set, as kshot train takes it")
    arguments = parser.parse_args()

    path = ROOT / "src/kshot/assets/calibrations" / f"{arguments.name}.json"
    content = json.loads(path.read_text("utf-8"))
    before, now = kshot.Backbone.load(str(arguments.before)), kshot.Backbone.load(arguments.name)
    if content["hash"] != before.hash:
        raise SystemExit(f"the numbers in {path} are not of {arguments.before}")
    images = learned(arguments.data, set(content["source"]["classes"]))
    networks = known(now, images), known(before, images)
    ours, earlier = (kernel(features, features.X) for features in networks)
    for entry, numbers in content["calibrations"].items():
        carry(entry, numbers, networks, earlier / ours)
        print(entry, json.dumps({key: numbers[key] for key in ("scale", "temperature")}))
    content |= {"hash": now.hash, "kshot": kshot.__version__}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"kernel × {ours / earlier:.4g}; written to {path}")


def learned(data: Path, left_out: set[str]) -> ImageSet:
    """Give the images that the sibling was compared on: the first of each class that was not left out of it."""
    split = open_data(data, leave_out=len(left_out))
    if split.left_out is None or set(split.left_out.names) != left_out or split.base_test is not None:
        raise SystemExit("these are not the data that the numbers were fitted on")
    return split.base.first_per_class(SEEN_IMAGES)[0]


def known(backbone: kshot.Backbone, images: ImageSet) -> kshot.Features:
    """Extract the features of images by a network, beside its last layer."""
    last = {"base_weights": backbone.base_weights, "base_bias": backbone.base_bias}
    return kshot.Features(backbone.features(images.images), images.labels, **last)


def carry(entry: str, numbers: dict[str, Any], networks: tuple[kshot.Features, kshot.Features], times: float) -> None:
    """Change an entry's numbers from the second network's to the first's.

    The scale is multiplied by `times`, the temperatures by the root of the ratio of what the networks need.
    """
    family, _, _ = entry.split(":")
    ways, shots = numbers["report"]["ways"], [int(k) for k in numbers["temperature"]["shots"]]
    ratio = ratios(family, networks, (numbers["scale"] * times, numbers["scale"]), shots=shots, ways=ways)
    report, temperature = numbers["report"], numbers["temperature"]
    numbers["scale"] *= times
    temperature["values"] = [t * math.sqrt(r) for t, r in zip(temperature["values"], ratio, strict=True)]
    report["times_for_larger_features"] *= times
    report["times_on_learned_images"] = [
        old * r for old, r in zip(report["times_on_learned_images"], ratio, strict=True)
    ]


if __name__ == "__main__":
    main()
