"""Meta-Learner LSTM: Ravi, Larochelle, "Optimization as a Model for Few-Shot Learning" (ICLR 2017).

A learner's parameters θ are the cell state of an LSTM, which is thereby the learner's optimiser:

    θ_t = f_t ⊙ θ_{t−1} − i_t ⊙ ∇L_t                                            (2), with c̃_t = −∇L_t
    i_t = σ(W_I · [∇L_t, L_t, θ_{t−1}, i_{t−1}] + b_I)                          (Section 3.2)
    f_t = σ(W_F · [∇L_t, L_t, θ_{t−1}, f_{t−1}] + b_F)

with c_0 = θ_0 learned too. All coordinates share the parameters and each has its own state (Section 3.3); gradient and
loss enter preprocessed (Appendix 1, after Andrychowicz et al. 2016),

    x → (log|x| / p, sgn x) if |x| ≥ e^{−p}, else (−1, e^p x),   p = 10

through a first, ordinary LSTM, whose output stands in the brackets above for (∇L_t, L_t). The meta-learner is trained
by the loss of the adapted learner on the queries, with the gradients ∇L_t taken as constants (Section 3.4).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from kshot.errors import UserError
from kshot.training.episodic.base import EpisodicMethod
from kshot.training.episodic.learner import Learner

__all__ = ["MetaLSTM", "preprocessed", "updates"]

P = 10


def updates(shots: int) -> int:
    """Give the number of updates on the support: 12 at one shot and 5 at five (Section 5.1), and 5 beyond."""
    return 12 if shots == 1 else 5


def preprocessed(values: Tensor) -> Tensor:
    """Map numbers (n,) to two inputs each, magnitude and sign (2, n) (Appendix 1)."""
    large = values.abs() >= math.exp(-P)
    first = torch.where(large, values.abs().clamp_min(math.exp(-P)).log() / P, -1.0)
    return torch.stack([first, torch.where(large, values.sign(), math.exp(P) * values)])


class CoordinateLSTM(nn.Module):
    """The ordinary LSTM with coordinates in columns, which takes half the time of rows for tens of thousands of them.

    Args:
        inputs: numbers that come in for each coordinate.
        hidden: numbers that come out.

    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.weight = nn.Parameter(torch.empty(4 * hidden, inputs + hidden).uniform_(-0.01, 0.01))
        self.bias = nn.Parameter(torch.empty(4 * hidden, 1).uniform_(-0.01, 0.01))

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Give hidden and cell state (hidden, d) from inputs (inputs, d) and the state before."""
        hidden, cell = state or (inputs.new_zeros(self.hidden, inputs.shape[1]),) * 2
        gates = torch.addmm(self.bias, self.weight, torch.cat([inputs, hidden]))
        take, keep, candidate, show = gates.chunk(4)
        cell = keep.sigmoid() * cell + take.sigmoid() * candidate.tanh()
        return show.sigmoid() * cell.tanh(), cell


class Gate(nn.Module):
    """A gate σ(w · [hidden, θ, previous gate] + b) of every coordinate, with one w and b for all.

    Args:
        hidden: width of the first LSTM's output.
        low, high: the bias is drawn between them.

    """

    def __init__(self, hidden: int, *, low: float, high: float) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.empty(hidden).uniform_(-0.01, 0.01))
        self.theta = nn.Parameter(torch.empty(()).uniform_(-0.01, 0.01))
        self.previous = nn.Parameter(torch.empty(()).uniform_(-0.01, 0.01))
        self.bias = nn.Parameter(torch.empty(()).uniform_(low, high))

    def forward(self, hidden: Tensor, theta: Tensor, previous: Tensor) -> Tensor:
        """Give the gate (d,) from the first LSTM's output (hidden, d), θ (d,) and the gate before (d,)."""
        return torch.sigmoid(self.hidden @ hidden + self.theta * theta + self.previous * previous + self.bias)


class MetaLSTM(EpisodicMethod):
    """Adapt a network to each task by a learned optimiser from a learned start, then classify its queries.

    Args:
        ways: number of classes, fixed: the learner has a linear layer of its own.
        size: side of the images.
        width: filters of the learner's blocks.
        hidden: width of the first LSTM.

    """

    def __init__(self, ways: int, *, size: int, width: int = 32, hidden: int = 20) -> None:
        super().__init__()
        self.learner = Learner(ways, size=size, width=width)
        self.theta = nn.Parameter(self.learner.initial(size))
        self.lstm = CoordinateLSTM(4, hidden)
        # Forget little and step little at first: it starts as gradient descent (Section 3.2).
        self.forget = Gate(hidden, low=4.0, high=5.0)
        self.update = Gate(hidden, low=-5.0, high=-4.0)

    def forward(self, support: Tensor, query: Tensor, *, ways: int) -> Tensor:
        """Give the log-probabilities (m, ways) by the learner adapted to the support."""
        if ways != self.learner.ways:
            raise UserError(
                f"this Meta-Learner LSTM was trained for tasks of {self.learner.ways} classes and cannot be used for "
                f"{ways}: its network has one output for each"
            )
        running = self.learner.statistics(self.theta)
        theta = self.adapted(support, running)
        if self.training:
            logits = self.learner(theta, query, running=None, adapt=True)
        else:
            logits = self.learner(theta, query, running=running, adapt=False)
        return functional.log_softmax(logits, dim=1)

    def adapted(self, support: Tensor, running: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Give θ_T (d,) after the updates on the support, and collect its statistics in `running`."""
        shots = len(support) // self.learner.ways
        labels = torch.arange(self.learner.ways, device=support.device).repeat_interleave(shots)
        theta: Tensor = self.theta
        state: tuple[Tensor, Tensor] | None = None
        forget, update = torch.zeros_like(theta), torch.zeros_like(theta)
        for _ in range(updates(shots)):
            gradient, loss = self._gradient(theta, support, labels, running)
            with torch.autocast(theta.device.type, enabled=False):
                inputs = torch.cat([preprocessed(loss[None]).expand(2, len(theta)), preprocessed(gradient)])
                state = self.lstm(inputs, state)
                forget, update = self.forget(state[0], theta, forget), self.update(state[0], theta, update)
                theta = forget * theta - update * gradient
        return theta

    def _gradient(
        self, theta: Tensor, support: Tensor, labels: Tensor, running: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Give ∇L (d,) and L at θ, cut off from the graph: no gradient flows through the learner's gradients."""
        with torch.enable_grad():
            leaf = theta.detach().requires_grad_()
            loss = functional.cross_entropy(self.learner(leaf, support, running=running, adapt=True), labels)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient, loss.detach()
