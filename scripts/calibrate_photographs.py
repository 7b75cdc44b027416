"""Fit the numbers that come with a pretrained backbone for photographs, src/kshot/assets/calibrations/NAME.json.

From images of its own classes, in folders named as the backbone names them (for EfficientNet-Lite0: miniImageNet's 64
training and 16 validation classes, the first 120 images of each; the 20 test classes are left out of every fit):

    kshot extract FOLDER -o FILE
    python scripts/calibrate_photographs.py efficientnet-lite0 --features FILE

Everything is seeded: the same command writes the same file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import kshot
from kshot.evaluation.pretrained import calibrate_pretrained
from kshot.evaluation.temperature import fit_class_mean_temperature

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the numbers that come with a pretrained backbone.")
    parser.add_argument("name", help="of the bundled backbone")
    parser.add_argument("--features", type=Path, required=True, help="of images of its own classes: kshot extract")
    parser.add_argument("--out", type=Path, help="by default src/kshot/assets/calibrations/NAME.json")
    arguments = parser.parse_args()

    begun = time.perf_counter()
    backbone, features = kshot.Backbone.load(arguments.name), kshot.Features.load(arguments.features)
    known = list(backbone.base_ids or backbone.base_names or ())
    missing = [name for name in features.names if name not in known]
    if missing or backbone.base_weights is None:
        raise SystemExit(f"{arguments.name} has no class {missing[0] if missing else '(and no last layer)'}")
    rows = np.array([known.index(name) for name in features.names])[features.y]
    found = calibrate_pretrained(
        features.X,
        rows,
        base_weights=backbone.base_weights.astype(np.float64),
        base_bias=None if backbone.base_bias is None else backbone.base_bias.astype(np.float64),
        inference=("map", "laplace"),
    )
    for entry, calibration in found.items():
        print(f"{entry}: {calibration!r}")
    mean_temperature = fit_class_mean_temperature(features.X, features.y)
    content = {
        "backbone": arguments.name,
        "hash": backbone.hash,
        "kshot": kshot.__version__,
        "source": {
            "kind": "images of the network's own base classes",
            "classes": list(features.names),
            "images": len(features.X),
        },
        "calibrations": {f"gauss-iso:{entry}": calibration.to_json() for entry, calibration in found.items()},
        "class_mean_temperature": {"value": mean_temperature, "shots": [1, 5, 10], "tasks": 400},
    }
    out = arguments.out or ROOT / "src/kshot/assets/calibrations" / f"{arguments.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
    size = out.stat().st_size / 1e3
    print(f"class means: {mean_temperature:.4g}; {out.name}, {size:.0f} kB, in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
