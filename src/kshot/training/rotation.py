"""Learning which way up: some images are turned, and a second last layer says by how much, beside their classes.

To tell that an image lies on its side a network must know what is on it, whatever its class, and so keeps features that
the labels of the base classes alone would let go: it is new classes that need them (Gidaris et al. 2019, "Boosting
few-shot visual learning with self-supervision"; Mangla et al. 2020, "Charting the right manifold"). The second layer is
part of the training alone: the network that comes out is the same, and costs the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from kshot.errors import UserError
from kshot.training.networks import Network

__all__ = ["Rotation", "TwoHeads"]


@dataclass(frozen=True)
class Rotation:
    """How many images are turned, and how much it counts to say by how much.

    Args:
        part: of the images that are turned, by 90, 180 or 270 degrees alike.
        weight: of the cross-entropy over the four angles, beside the loss over the classes.

    """

    part: float = 0.5
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.part <= 1:
            raise UserError(f"the part of the images that are turned must be above 0 and at most 1, not {self.part:g}")
        if not self.weight >= 0:
            raise UserError(f"the weight of the loss over the angles must be at least 0, not {self.weight:g}")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the quarter turns (count,) of so many images, 0 to 3."""
        drawn = torch.rand(count, generator=generator)
        return torch.where(drawn < self.part, 1 + (drawn * 3 / self.part).long().clamp(max=2), 0)

    @staticmethod
    def turn(images: Tensor, turns: Tensor) -> Tensor:
        """Turn square images (n, h, h, 3) by quarter turns (n,)."""
        turned = images.clone()
        for quarters in (1, 2, 3):
            chosen = turns == quarters
            turned[chosen] = images[chosen].rot90(quarters, (1, 2))
        return turned

    def loss(self, angles: Tensor, turns: Tensor) -> Tensor:
        """Give weight · cross-entropy of the angles' logits (n, 4)."""
        return self.weight * functional.cross_entropy(angles, turns)


class TwoHeads(nn.Module):
    """A network with a second last layer, for the angles, on the same features."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.angles = nn.Linear(network.last.in_features, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Map normalised images (n, 3, h, w) to logits of the classes (n, C̃) and of the four angles (n, 4)."""
        features = self.network.features(images)
        with torch.autocast(features.device.type, enabled=False):  # as the network's own last layer
            angles: Tensor = self.angles(features.float())
        return self.network.classify(features), angles
