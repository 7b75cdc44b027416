"""Each episodic method's forward pass is a few lines of NumPy from its paper, and gradients reach what should learn."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from kshot.training.episodic.learner import Learner  # noqa: E402
from kshot.training.episodic.matching import MatchingNetwork, MatchingNetworkFCE  # noqa: E402
from kshot.training.episodic.meta_lstm import MetaLSTM, preprocessed, updates  # noqa: E402
from kshot.training.episodic.methods import build_method  # noqa: E402
from kshot.training.episodic.protonet import PrototypicalNetwork  # noqa: E402
from kshot.training.episodic.untrained import Untrained  # noqa: E402
from kshot.training.networks.conv4 import Conv4  # noqa: E402

pytestmark = pytest.mark.train
WAYS, SHOTS, QUERIES, DIM = 3, 2, 4, 8
METRIC = [PrototypicalNetwork, MatchingNetwork, MatchingNetworkFCE]


def embeddings(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(WAYS * SHOTS, DIM)), random.normal(size=(WAYS * QUERIES, DIM))


def method_of(kind: type) -> nn.Module:
    torch.manual_seed(0)
    return kind(Conv4(1, size=16, width=DIM)).double()


def compared(kind: type, support: np.ndarray, query: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        out = method_of(kind).compare(torch.from_numpy(support), torch.from_numpy(query), ways=WAYS)
    return out.exp().numpy()


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def lstm_step(cell: nn.LSTMCell, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute one step of the textbook LSTM with a torch cell's weights (input, forget, candidate, output)."""
    w, u, b, d = (getattr(cell, name).detach().numpy() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    i, f, g, o = np.split(x @ w.T + b + h @ u.T + d, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def attention_mixture(support: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Compute Σ_i a(x̂, x_i) y_i with cosine attention (Vinyals et al., Eq. 1)."""
    labels = np.eye(WAYS)[np.repeat(np.arange(WAYS), SHOTS)]
    return softmax(unit(query) @ unit(support).T) @ labels


def test_a_prototypical_network_is_a_softmax_of_distances_to_class_means() -> None:
    support, query = embeddings()
    means = np.stack([support[SHOTS * k : SHOTS * (k + 1)].mean(axis=0) for k in range(WAYS)])
    distances = np.array([[((x - mean) ** 2).sum() for mean in means] for x in query])
    np.testing.assert_allclose(compared(PrototypicalNetwork, support, query), softmax(-distances), rtol=1e-12)


def test_a_matching_network_mixes_the_labels_by_cosine_attention() -> None:
    support, query = embeddings()
    np.testing.assert_allclose(compared(MatchingNetwork, support, query), attention_mixture(support, query), rtol=1e-12)


def test_full_context_embeddings_are_the_two_lstms_of_the_appendix() -> None:
    support, query = embeddings()
    method = method_of(MatchingNetworkFCE)
    lstm = method.support_lstm
    directions = []
    for suffix, order in (("", range(len(support))), ("_reverse", reversed(range(len(support))))):
        cell = nn.LSTMCell(DIM, DIM).double()
        cell.load_state_dict(
            {name: getattr(lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        )
        outputs, h, c = np.empty_like(support), np.zeros((1, DIM)), np.zeros((1, DIM))
        for row in order:
            h, c = lstm_step(cell, support[row : row + 1], h, c)
            outputs[row] = h
        directions.append(outputs)
    g = directions[0] + directions[1] + support
    h, c = query, np.zeros_like(query)
    for _ in range(method.processing_steps):
        r = softmax(h @ g.T) @ g
        out, c = lstm_step(method.query_lstm, np.concatenate([query, r], axis=1), h, c)
        h = out + query
    np.testing.assert_allclose(compared(MatchingNetworkFCE, support, query), attention_mixture(g, h), rtol=1e-9)


def test_the_untrained_baseline_is_the_library_nearest_neighbour() -> None:
    from kshot.datasets.tasks import Tasks
    from kshot.evaluation.baselines import nearest
    from kshot.features import Features

    support, query = embeddings()
    X = np.concatenate([support, query]).astype(np.float32)
    tasks = Tasks(np.arange(WAYS)[None], np.arange(len(support))[None], np.arange(len(support), len(X))[None])
    expected = nearest(Features(X, np.zeros(len(X), int)), tasks)[0]
    found = compared(Untrained, X[: len(support)].astype(float), X[len(support) :].astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", METRIC)
def test_a_metric_method_learns_its_embedding_and_has_no_other_network(kind: type) -> None:
    method = method_of(kind).train()
    assert not any(name.startswith("network.last") for name, _ in method.named_parameters())
    images = torch.randn(WAYS * (SHOTS + QUERIES), 3, 16, 16, dtype=torch.float64)
    log_proba = method.float()(images[: WAYS * SHOTS].float(), images[WAYS * SHOTS :].float(), ways=WAYS)
    functional.nll_loss(log_proba, torch.arange(WAYS).repeat_interleave(QUERIES)).backward()
    np.testing.assert_allclose(log_proba.detach().exp().sum(dim=1), 1, rtol=1e-5)
    for name, parameter in method.named_parameters():
        # A convolution's bias before batch normalisation cancels, whatever is learned.
        cancels = name.startswith("network.blocks") and name.endswith("0.bias")
        assert parameter.grad is not None and (cancels or parameter.grad.abs().max() > 0), name


def test_gradients_and_losses_enter_by_magnitude_and_sign() -> None:
    values = np.array([0.5, -2.0, 1e-3, -1e-7, 0.0, np.exp(-10.0), 30.0])
    expected = [
        (np.log(abs(x)) / 10, np.sign(x)) if abs(x) >= np.exp(-10.0) else (-1.0, np.exp(10.0) * x) for x in values
    ]
    np.testing.assert_allclose(preprocessed(torch.from_numpy(values)).T.numpy(), expected, rtol=1e-9, atol=1e-12)


class Linear:
    """A learner with a known gradient in place of the network: softmax regression on six pixels."""

    ways, shape = WAYS, (WAYS, 6)

    def statistics(self, like: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return []

    def __call__(self, theta, images, *, running, adapt):
        return images.flatten(1) @ theta.view(self.shape).T


def linear_meta_lstm(seed: int = 0) -> MetaLSTM:
    torch.manual_seed(seed)
    method = MetaLSTM(WAYS, size=16, width=2, hidden=5)
    method.learner = Linear()
    method.theta = nn.Parameter(torch.randn(WAYS * 6))
    for gate in (method.forget, method.update):  # larger than at the start, so that every term counts
        nn.init.normal_(gate.hidden)
        nn.init.normal_(gate.theta)
        nn.init.normal_(gate.previous)
    for parameter in method.lstm.parameters():
        nn.init.normal_(parameter)
    return method.double()


def toy_images(seed: int = 0, shots: int = SHOTS) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda n: torch.randn(n, 3, 1, 2, generator=generator, dtype=torch.float64)  # noqa: E731
    return draw(WAYS * shots), draw(WAYS * QUERIES)


@pytest.mark.parametrize("shots", [1, 2])
def test_the_meta_learner_updates_by_the_equations_of_the_paper(shots: int) -> None:
    method, (support, query) = linear_meta_lstm(), toy_images(shots=shots)
    X, labels = support.flatten(1).numpy(), np.repeat(np.arange(WAYS), shots)
    theta = method.theta.detach().numpy().copy()
    h, c = np.zeros((len(theta), 5)), np.zeros((len(theta), 5))
    cell = nn.LSTMCell(4, 5).double()
    w, u = method.lstm.weight.split([4, 5], dim=1)
    bias = method.lstm.bias[:, 0]
    cell.load_state_dict({"weight_ih": w, "weight_hh": u, "bias_ih": bias, "bias_hh": torch.zeros_like(bias)})
    forget, update = np.zeros_like(theta), np.zeros_like(theta)

    def gate(module: nn.Module, hidden: np.ndarray, theta: np.ndarray, before: np.ndarray) -> np.ndarray:
        w, a, b, bias = (getattr(module, n).detach().numpy() for n in ("hidden", "theta", "previous", "bias"))
        return sigmoid(hidden @ w + a * theta + b * before + bias)

    def scaled(x: float) -> list[float]:
        return [np.log(abs(x)) / 10, np.sign(x)] if abs(x) >= np.exp(-10.0) else [-1.0, np.exp(10.0) * x]

    assert updates(1) == 12 and updates(5) == 5
    for _ in range(updates(shots)):
        proba = softmax(X @ theta.reshape(WAYS, 6).T)
        loss = -np.log(proba[np.arange(len(X)), labels]).mean()
        gradient = ((proba - np.eye(WAYS)[labels]).T @ X / len(X)).ravel()
        inputs = np.array([scaled(loss) + scaled(g) for g in gradient])
        h, c = lstm_step(cell, inputs, h, c)
        forget, update = gate(method.forget, h, theta, forget), gate(method.update, h, theta, update)
        theta = forget * theta - update * gradient
    with torch.no_grad():
        found = method(support, query, ways=WAYS).exp().numpy()
    expected = softmax(query.flatten(1).numpy() @ theta.reshape(WAYS, 6).T)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_no_gradient_flows_through_the_learners_gradients() -> None:
    """With constant gates θ_T = f^T θ_0 − Σ ..., so that dL/dθ_0 = f^T ∇L(θ_T) if, and only if, ∇L_t are constants."""
    method, (support, query) = linear_meta_lstm(), toy_images()
    for gate, bias in ((method.forget, 2.0), (method.update, 0.5)):
        for parameter in (gate.hidden, gate.theta, gate.previous):
            nn.init.zeros_(parameter)
        nn.init.constant_(gate.bias, bias)
    labels = torch.arange(WAYS).repeat_interleave(QUERIES)
    functional.nll_loss(method(support, query, ways=WAYS), labels).backward()
    end = method.adapted(support, []).detach().requires_grad_()
    functional.cross_entropy(method.learner(end, query, running=None, adapt=True), labels).backward()
    kept = torch.sigmoid(torch.tensor(2.0, dtype=torch.float64)) ** updates(SHOTS)
    torch.testing.assert_close(method.theta.grad, kept * end.grad)


def test_the_meta_learner_learns_start_gates_and_lstm_and_nothing_else() -> None:
    torch.manual_seed(0)
    method = MetaLSTM(WAYS, size=16, width=8).train()
    assert {name.split(".")[0] for name, _ in method.named_parameters()} == {"theta", "lstm", "forget", "update"}
    assert not list(method.buffers())
    images = torch.randn(WAYS * (SHOTS + QUERIES), 3, 16, 16)
    log_proba = method(images[: WAYS * SHOTS], images[WAYS * SHOTS :], ways=WAYS)
    functional.nll_loss(log_proba, torch.arange(WAYS).repeat_interleave(QUERIES)).backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    with pytest.raises(ValueError, match="trained for tasks of 3 classes"):
        method(images[: WAYS * SHOTS], images, ways=2)


def test_the_learner_is_the_four_block_network() -> None:
    torch.manual_seed(0)
    learner, network = Learner(5, size=32, width=4), Conv4(5, size=32, width=4)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eps = 1e-3
            nn.init.uniform_(layer.weight)
            nn.init.normal_(layer.bias)
    parts = [parameter.detach().flatten() for parameter in network.blocks.parameters()]
    theta = torch.cat([*parts, network.last.weight.detach().flatten(), torch.zeros(5)])
    images = torch.randn(6, 3, 32, 32)
    assert theta.shape == (learner.dim,) == learner.initial(32).shape
    found = learner(theta, images, running=None, adapt=True)
    torch.testing.assert_close(found, network.train()(images), rtol=1e-4, atol=1e-5)


def test_batch_statistics_come_from_the_tasks_own_support_in_testing_and_from_the_batch_in_training() -> None:
    torch.manual_seed(0)
    method = MetaLSTM(WAYS, size=16, width=8)
    support, query = torch.randn(WAYS * SHOTS, 3, 16, 16), torch.randn(6, 3, 16, 16)
    with torch.no_grad():
        method.eval()
        whole, alone = method(support, query, ways=WAYS), method(support, query[:2], ways=WAYS)
        # A query's answer does not depend on the other queries, nor one task on the one before.
        torch.testing.assert_close(whole[:2], alone, rtol=1e-4, atol=1e-5)
        method(3 * support + 1, query, ways=WAYS)
        assert torch.equal(method(support, query, ways=WAYS), whole)
        method.train()
        assert not torch.allclose(method(support, query, ways=WAYS)[:2], method(support, query[:2], ways=WAYS))
        running = method.learner.statistics(method.theta)
        method.learner(method.theta, support, running=running, adapt=True)
        convolved = functional.conv2d(support, method.theta[: 8 * 27].view(8, 3, 3, 3), padding=1)
        torch.testing.assert_close(running[0][0], 0.95 * convolved.mean(dim=(0, 2, 3)), rtol=1e-4, atol=1e-5)


def test_a_method_that_does_not_exist_or_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="choose one of protonet, matching"):
        build_method({"method": "maml", "network": "conv4-cifar100", "size": 32, "ways": 5})
    with pytest.raises(ValueError, match="network of its own, conv4-32"):
        build_method({"method": "meta-lstm", "network": "vgg-cifar100", "size": 32, "ways": 5})
    with pytest.raises(ValueError, match="takes images of 32 pixels, not 84"):
        build_method({"method": "protonet", "network": "vgg-cifar100", "size": 84, "ways": 5})


def test_the_four_block_network_takes_images_of_any_side() -> None:
    method = build_method({"method": "protonet", "network": "conv4-miniimagenet", "size": 42, "ways": 5})
    assert isinstance(method, PrototypicalNetwork) and method.dim == 256
    assert method.embed(torch.zeros(2, 3, 42, 42)).shape == (2, 256)
