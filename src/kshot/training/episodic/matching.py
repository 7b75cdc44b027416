"""Matching Networks: Vinyals et al., "Matching Networks for One Shot Learning" (NeurIPS 2016).

arXiv:1606.04080. A query's label is a mixture of the support's labels, weighted by attention:

    P(ŷ | x̂, S) = Σ_i a(x̂, x_i) y_i                                             (1)
    a(x̂, x_i) = exp c(f(x̂), g(x_i)) / Σ_j exp c(f(x̂), g(x_j)),   c the cosine  (Section 2.1.1)

Without full-context embeddings f = g = the network. With them (Section 2.1.2, Appendix A):

    g(x_i, S) = h→_i + h←_i + g'(x_i), h→ and h← by a bidirectional LSTM over g'(x_1), ..., g'(x_n)    (A.2)
    ĥ_k, c_k = LSTM(f'(x̂), [h_{k−1}, r_{k−1}], c_{k−1})                        (3)
    h_k = ĥ_k + f'(x̂)                                                          (4)
    r_{k−1} = Σ_i a(h_{k−1}, g(x_i)) g(x_i)                                     (5)
    a(h_{k−1}, g(x_i)) = softmax_i(h_{k−1}ᵀ g(x_i))                             (6)

and f(x̂, S) = h_K after K processing steps. The cosine is not scaled: with five classes no probability can exceed
e² / (e² + 4) = 0.65, and with non-negative features e / (e + 4) = 0.40. That is the method as its authors define it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from kshot.training.episodic.base import MetricMethod
from kshot.training.networks import Network

__all__ = ["MatchingNetwork", "MatchingNetworkFCE"]


class MatchingNetwork(MetricMethod):
    """Classify by attention over the support, by cosine between embeddings (Eq. 1)."""

    def compare(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give log P(ŷ | x̂, S) (m, ways) from embeddings of the support (ways · shots, p) and the queries (m, p)."""
        cosines = functional.normalize(query, dim=1) @ functional.normalize(support, dim=1).T
        attention = functional.log_softmax(cosines, dim=1)
        # The labels come class after class: the sum over a class's examples is a logsumexp over its columns.
        return attention.reshape(len(query), ways, -1).logsumexp(dim=2)


class MatchingNetworkFCE(MatchingNetwork):
    """The same with full-context embeddings: every embedding depends on the whole support (Appendix A).

    Args:
        network: f' = g'.
        processing_steps: K of the attention LSTM.

    """

    def __init__(self, network: Network, *, processing_steps: int = 5) -> None:
        super().__init__(network)
        self.processing_steps = processing_steps
        self.support_lstm = nn.LSTM(self.dim, self.dim, bidirectional=True)
        # LSTM(x, [h, r], c): the maps of x, h and r add up, so that r may as well be given beside x.
        self.query_lstm = nn.LSTMCell(2 * self.dim, self.dim)

    def embed_support(self, embedded: Tensor) -> Tensor:
        """Map g'(x_i) (n, p) to g(x_i, S) (n, p) (A.2); the support is read in the order it is given in."""
        both, _ = self.support_lstm(embedded[:, None, :])
        forwards, backwards = both[:, 0, :].chunk(2, dim=1)
        context: Tensor = forwards + backwards + embedded
        return context

    def embed_query(self, embedded: Tensor, support: Tensor) -> Tensor:
        """Map f'(x̂) (m, p) to f(x̂, S) (m, p) by K steps of attention over g(x_i, S) (n, p) (Eq. 3 to 6)."""
        hidden, cell = embedded, torch.zeros_like(embedded)  # ĥ_0 = 0
        for _ in range(self.processing_steps):
            read = functional.softmax(hidden @ support.T, dim=1) @ support
            output, cell = self.query_lstm(torch.cat([embedded, read], dim=1), (hidden, cell))
            hidden = output + embedded
        return hidden

    def compare(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give log P(ŷ | x̂, S) (m, ways), with both embedded in the context of the support first."""
        context = self.embed_support(support)
        return super().compare(context, self.embed_query(query, context), ways=ways)
