"""One law for all episodic methods: from support and query images to log-probabilities of the queries."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from kshot.training.networks import Network

__all__ = ["EpisodicMethod", "MetricMethod"]


class EpisodicMethod(nn.Module, ABC):
    """A classifier that is given its classes by examples: p(y | query, support)."""

    @abstractmethod
    def forward(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give the log-probabilities (m, ways) of query images, in float32.

        Args:
            support: (ways · shots, 3, h, w) normalised images, class after class.
            query: (m, 3, h, w) normalised images.
            ways: number of classes.

        """


class MetricMethod(EpisodicMethod):
    """A method that embeds every image by one network and then compares embeddings.

    Args:
        network: its features are the embedding; its last layer is taken off.

    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.dim = network.last.in_features
        del network.last
        self.network = network
        norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
        if norms:
            # Hundreds of features of unit size would start the softmax over distances saturated: begin at norm 2.
            nn.init.constant_(norms[-1].weight, 2 * self.dim**-0.5)

    def embed(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, h, w) to embeddings (n, p)."""
        return self.network.features(images)

    @abstractmethod
    def compare(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give log-probabilities (m, ways) from embeddings (ways · shots, p), class after class, and (m, p)."""

    def forward(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Embed support and queries in one batch, whose statistics normalise both in training, and compare them."""
        embedded = self.embed(torch.cat([support, query]))
        with torch.autocast(embedded.device.type, enabled=False):
            embedded = embedded.float()
            return self.compare(embedded[: len(support)], embedded[len(support) :], ways=ways)
