"""Prototypical Networks: Snell, Swersky, Zemel, "Prototypical Networks for Few-shot Learning" (NeurIPS 2017).

arXiv:1703.05175. A class is the mean of its embedded examples, a query goes to the nearest mean:

    c_k = 1/|S_k| Σ_{(x_i, y_i) ∈ S_k} f_φ(x_i)                                  (1)
    p(y = k | x) = exp(−d(f_φ(x), c_k)) / Σ_k' exp(−d(f_φ(x), c_k'))             (2)

with d the squared Euclidean distance (Section 2.7), and the loss −log p(y | x) averaged over queries (algorithm 1).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from kshot.training.episodic.base import MetricMethod

__all__ = ["PrototypicalNetwork"]


class PrototypicalNetwork(MetricMethod):
    """Classify by the softmax over negative squared distances to class means (Eq. 1 and 2)."""

    def compare(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give log p(y | x) (m, ways) from embeddings of the support (ways · shots, p) and the queries (m, p)."""
        prototypes = support.reshape(ways, -1, support.shape[1]).mean(dim=1)
        # Written out and not as ‖x‖² − 2 x·c + ‖c‖²: that loses digits where x and c are close.
        distances = (query[:, None, :] - prototypes[None, :, :]).square().sum(dim=2)
        return functional.log_softmax(-distances, dim=1)
