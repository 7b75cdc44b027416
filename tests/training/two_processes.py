"""Started by torchrun in a test: train a plain network, let another learn from it, and write the losses of rank 0."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from kshot.datasets.imageset import ImageSet
from kshot.training import networks
from kshot.training.augmentation import Augmentation
from kshot.training.distillation import Distillation
from kshot.training.networks.vgg import VGG
from kshot.training.recipe import Phase, Recipe
from kshot.training.rotation import Rotation
from kshot.training.trainer import train


def main() -> None:
    torch.set_num_threads(1)
    networks.NETWORKS["plain"] = lambda classes: VGG(classes, size=8, widths=(8,), hidden=16, features=8, dropout=0.0)
    out = Path(sys.argv[1])
    random = np.random.default_rng(0)
    labels = np.arange(64) % 4
    images = (random.integers(0, 100, (64, 8, 8, 3)) + 30 * labels[:, None, None, None]).astype(np.uint8)
    data = ImageSet(images, labels, ("a", "b", "c", "d"), tuple(map(str, range(64))))
    recipe = Recipe("plain", (Phase(3, 8),), "sgd", 0.05, 16, 1e-3, augmentation=Augmentation())
    train(data, recipe, out=out / "teacher", device="cpu", precision="float32")
    taught = replace(recipe, distillation=Distillation(), rotation=Rotation())
    train(data, taught, out=out, start=out / "teacher", device="cpu", precision="float32")


if __name__ == "__main__":
    main()
