"""Nearest neighbour in cosine similarity on a network as it is before training: what training has to beat."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from kshot.training.episodic.base import MetricMethod

__all__ = ["Untrained"]

COSINE_SCALE = 10.0
"""As for the baseline `nearest` of `kshot.evaluation`: the rule has no probabilities of its own."""


class Untrained(MetricMethod):
    """Classify by the nearest support example; probabilities are softmax(10 · largest cosine to a class's examples)."""

    def compare(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give log-probabilities (m, ways) from embeddings of the support (ways · shots, p) and the queries (m, p)."""
        cosines = functional.normalize(query, dim=1) @ functional.normalize(support, dim=1).T
        return functional.log_softmax(COSINE_SCALE * cosines.reshape(len(query), ways, -1).amax(dim=2), dim=1)
