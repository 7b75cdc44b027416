"""What every network of phase 1 has: features Φ(u), and a last layer without bias whose rows are the base weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from kshot.errors import UserError

__all__ = ["Network"]


class Network(nn.Module, ABC):
    r"""A feature extractor Φ with a softmax layer on top: logits = W̃ Φ(u) (Section 2.1).

    Args:
        classes: number of base classes C̃, the rows of W̃.
        size: side in pixels of the images it is meant for.
        features: length p of Φ(u), the columns of W̃.

    """

    def __init__(self, classes: int, *, size: int, features: int) -> None:
        super().__init__()
        self.size = size
        self.last = nn.Linear(features, classes, bias=False)

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, h, w) to features Φ(u) (n, p)."""

    def grow(self, depth: float) -> None:
        """Let the part `depth` of the residual blocks take part; a network without such blocks has only the whole."""
        if depth != 1:
            raise UserError(f"{type(self).__name__} cannot train at a part of its depth: set the phase's depth to 1")

    def at(self, size: int) -> Network:
        """Give this network, with freshly drawn weights, for images of another side; most have only their own."""
        if size != self.size:
            raise UserError(f"this {type(self).__name__} takes images of {self.size} pixels, not {size}")
        return self

    @abstractmethod
    def regularised(self) -> list[Tensor]:
        """Give the parameters that the recipe's weight decay acts on."""

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, h, w) to logits (n, C̃)."""
        return self.classify(self.features(images))

    def classify(self, features: Tensor) -> Tensor:
        """Map features (n, p) to logits (n, C̃)."""
        # The base weights are data for phase 2: keep this layer and the loss in float32 under mixed precision.
        with torch.autocast(features.device.type, enabled=False):
            logits: Tensor = self.last(features.float())
        return logits

    def initialise(self, *, mode: Literal["fan_in", "fan_out"]) -> None:
        """Draw all weights by He's rule, biases zero; the last layer by 1/√p, so that logits start near unit size."""
        for layer in self.modules():
            if layer is self.last:
                nn.init.normal_(self.last.weight, std=self.last.in_features**-0.5)
            elif isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
