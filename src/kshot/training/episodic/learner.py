"""The network that the Meta-Learner LSTM adapts: four blocks and a linear layer, as a function of one flat vector θ.

Its batch normalisation is Ravi & Larochelle's (2017, Section 3.5): statistics of the batch while it learns from the
support; for the queries the batch's own in meta-training, and in meta-testing averages collected on this task's support
alone, "biased so that earlier batches have less impact".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from kshot.training.networks.conv4 import Conv4

__all__ = ["Learner", "Statistics"]

Statistics = list[tuple[Tensor, Tensor]]
"""Mean and variance (width,) of each block's channels."""

_EPS = 1e-3
_MOMENTUM = 0.95  # weight of the newest batch, as in the authors' code


class Learner:
    """Map images to logits by parameters θ (d,) that are given from outside.

    Args:
        ways: number of classes.
        size: side of the images.
        width: filters of every block.

    """

    def __init__(self, ways: int, *, size: int, width: int = 32) -> None:
        self.ways, self.width = ways, width
        self.shapes: list[tuple[int, ...]] = []
        for channels in (3, width, width, width):
            self.shapes += [(width, channels, 3, 3), (width,), (width,), (width,)]
        self.shapes += [(ways, width * (size // 16) ** 2), (ways,)]
        self.sizes = [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """Length d of θ."""
        return sum(self.sizes)

    def initial(self, size: int) -> Tensor:
        """Draw θ as the four-block network draws its weights, with a last layer near zero and no bias."""
        drawn = Conv4(self.ways, size=size, width=self.width)
        parts = [parameter.detach().flatten() for parameter in drawn.blocks.parameters()]
        return torch.cat([*parts, 0.1 * drawn.last.weight.detach().flatten(), torch.zeros(self.ways)])

    def statistics(self, like: Tensor) -> Statistics:
        """Give the running averages before any batch: nothing is carried from task to task."""
        return [(like.new_zeros(self.width), like.new_ones(self.width)) for _ in range(4)]

    def __call__(self, theta: Tensor, images: Tensor, *, running: Statistics | None, adapt: bool) -> Tensor:
        """Give logits (n, ways) of images (n, 3, size, size).

        Args:
            theta: (d,) all parameters, block after block.
            images: normalised.
            running: averages of the statistics, or None.
            adapt: normalise by the batch's own statistics and blend them into `running`; else by `running`.

        """
        parts = [part.view(shape) for part, shape in zip(torch.split(theta, self.sizes), self.shapes, strict=True)]
        out = images
        for block in range(4):
            weight, bias, scale, shift = parts[4 * block : 4 * block + 4]
            mean, variance = (None, None) if running is None else running[block]
            out = functional.conv2d(out, weight, bias, padding=1)
            out = functional.batch_norm(out, mean, variance, scale, shift, adapt, _MOMENTUM, _EPS)
            out = functional.relu(functional.max_pool2d(out, 2))
        return functional.linear(out.flatten(1), parts[-2], parts[-1]).float()
