"""Average the weights of a finished run with those of the backbone that it started from, as a run to be bundled.

    python scripts/average_networks.py RUN --start BACKBONE.safetensors --data DIR --out MEAN

Where a run learns something else than the network before it, the mean of both keeps much of either (Wortsman et al.
2022, "Robust fine-tuning of zero-shot models", with equal parts), as long as they lie in one valley: the accuracy on
training images, which is printed for all three, must not fall below the lower of the two. The statistics of the batch
normalisation are not averaged but measured, on training images. OUT holds a checkpoint and RUN's log.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from kshot.datasets.splits import open_data
from kshot.training.backbone_file import read_backbone
from kshot.training.batches import Normalisation, resized
from kshot.training.checkpoint import read, restore, write
from kshot.training.networks import build
from kshot.training.trainer import evaluate
from kshot.training.unfold import unfolded

SETTLING_IMAGES, BATCHES = 1600, 8


def main() -> None:
    parser = argparse.ArgumentParser(description="Average a run's weights with those that it started from.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--start", type=Path, required=True, help="the backbone file that it started from")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    trained, base = restore(arguments.run), open_data(arguments.data).base
    assert base.names == trained.names
    start = unfolded(read_backbone(arguments.start), trained.recipe["network"], base, trained.normalisation)
    first, second = start.state_dict(), trained.network.state_dict()
    mean = build(trained.recipe["network"], len(trained.names))
    mean.load_state_dict({name: average(value, second[name]) for name, value in first.items()})
    settle(mean, resized(base.spread(SETTLING_IMAGES).images, trained.size), trained.normalisation)

    some, _ = base.first_per_class(20)
    fabric = Fabric(accelerator="cpu", devices=1)
    for name, network in (("start", start), ("run", trained.network), ("mean", mean)):
        loss, accuracy = evaluate(fabric, network, some, trained.size, trained.normalisation)
        print(f"{name}: loss {loss:.3f}, accuracy {accuracy:.1%} on 20 training images a class", flush=True)
    recipe = trained.recipe | {"averaging": 0.0, "mean_with_start": 0.5}
    arguments.out.mkdir(parents=True)
    state = {"network": mean.state_dict(), "averaged": None, "recipe": json.dumps(recipe)}
    write(arguments.out, read(arguments.run) | state)
    shutil.copy(arguments.run / "log.csv", arguments.out)


def average(first: Tensor, second: Tensor) -> Tensor:
    """Give the mean of two weights; counters stay."""
    return (first + second) / 2 if first.is_floating_point() else first


@torch.no_grad()
def settle(network: nn.Module, images: Tensor, normalisation: Normalisation) -> None:
    """Measure the batch normalisation's statistics anew."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
            layer.momentum = None  # the plain mean over all batches
    network.train()
    for batch in images.tensor_split(BATCHES):
        network(normalisation(batch))
    network.eval()


if __name__ == "__main__":
    main()
