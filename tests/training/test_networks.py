"""The networks are those of Tables 5 and 6, layer for layer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from kshot.errors import UserError  # noqa: E402
from kshot.training.networks import build  # noqa: E402
from kshot.training.networks.resnet import Block, ResNet, SameConv2d  # noqa: E402

pytestmark = pytest.mark.train


def shapes(network: nn.Module, kinds: tuple[type, ...], size: int) -> list[tuple[int, ...]]:
    """Run one image and give the output shape of every module of the given kinds, in order, without the batch."""
    seen: list[tuple[int, ...]] = []
    for module in network.modules():
        if isinstance(module, kinds):
            module.register_forward_hook(lambda _m, _i, out: seen.append(tuple(out.shape[1:])))
    network.eval()(torch.zeros(1, 3, size, size))
    return seen


def test_vgg_for_cifar_has_the_sizes_of_table_6() -> None:
    network = build("vgg-cifar100", 80)
    assert shapes(network, (nn.MaxPool2d, nn.Linear), 32) == [
        (64, 16, 16), (64, 8, 8), (128, 4, 4), (128, 2, 2), (256,), (128,), (80,),
    ]  # fmt: skip


def test_vgg_for_miniimagenet_has_the_sizes_of_table_6() -> None:
    network = build("vgg-miniimagenet", 80)
    assert shapes(network, (nn.MaxPool2d, nn.Linear), 84) == [
        (32, 42, 42), (64, 21, 21), (128, 11, 11), (128, 6, 6), (128, 3, 3), (512,), (256,), (80,),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["vgg-cifar100", "vgg-miniimagenet"])
def test_vgg_is_elu_and_dropout_without_batch_normalisation(name: str) -> None:
    modules = list(build(name, 10).modules())
    assert sum(isinstance(module, nn.Dropout) and module.p == 0.5 for module in modules) == 2
    assert not any(isinstance(module, nn.BatchNorm2d | nn.ReLU) for module in modules)
    convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
    assert all(convolution.kernel_size == (3, 3) for convolution in convolutions)
    # An ELU after every convolution and after both fully connected layers below the last.
    assert sum(isinstance(module, nn.ELU) for module in modules) == len(convolutions) + 2


def test_resnet_has_the_sizes_and_blocks_of_table_5() -> None:
    network = build("resnet34-miniimagenet", 80)
    sizes = [(32, 42, 42)] * 3 + [(64, 21, 21)] * 4 + [(128, 11, 11)] * 6 + [(256, 6, 6)] * 3
    assert shapes(network, (Block,), 84) == sizes
    # 34 layers with weights: the first convolution, two in each of the 16 blocks, and the last.
    weighted = [
        m for m in network.modules() if isinstance(m, nn.Linear) or (isinstance(m, nn.Conv2d) and m.kernel_size[0] > 1)
    ]
    assert len(weighted) == 34
    assert network.features(torch.zeros(2, 3, 84, 84)).shape == (2, 256)


@pytest.mark.parametrize("name", ["vgg-cifar100", "vgg-miniimagenet", "resnet34-miniimagenet"])
def test_the_last_layer_has_no_bias_and_the_logits_are_weights_times_features(name: str) -> None:
    network = build(name, 7).eval()
    assert network.last.bias is None
    images = torch.randn(3, 3, network.size, network.size)
    with torch.no_grad():
        assert torch.allclose(network(images), network.features(images) @ network.last.weight.T, atol=1e-5)


def test_l2_is_on_the_fully_connected_layers_of_the_vgg_and_not_on_batch_normalisation_of_the_resnet() -> None:
    vgg, resnet = build("vgg-cifar100", 5), build("resnet34-miniimagenet", 5)
    dense = [module.weight for module in vgg.modules() if isinstance(module, nn.Linear)]
    assert [id(weight) for weight in vgg.regularised()] == [id(weight) for weight in dense] and len(dense) == 3
    normalisations = {id(p) for m in resnet.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    assert not normalisations & {id(weight) for weight in resnet.regularised()}
    assert len(normalisations) + len(resnet.regularised()) == len(list(resnet.parameters()))


@pytest.mark.parametrize(
    ("side", "kernel", "stride"), [(84, 5, 2), (42, 3, 2), (21, 3, 2), (11, 3, 2), (7, 3, 1), (42, 1, 2)]
)
def test_same_padding_is_tensorflows(side: int, kernel: int, stride: int) -> None:
    """Output r looks at inputs from r·stride − before, where before is the smaller half of the padding needed."""
    layer = SameConv2d(1, 1, kernel, stride=stride)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    image = torch.randn(1, 1, side, side)
    rows = -(-side // stride)
    before = max((rows - 1) * stride + kernel - side, 0) // 2
    expected = torch.zeros(rows, rows)
    for row in range(rows):
        for column in range(rows):
            top, left = row * stride - before, column * stride - before
            window = image[0, 0, max(top, 0) : max(top + kernel, 0), max(left, 0) : max(left + kernel, 0)]
            expected[row, column] = window.sum()
    assert torch.allclose(layer(image)[0, 0], expected, atol=1e-5)


def test_mixed_precision_leaves_the_last_layer_in_float32() -> None:
    network = build("vgg-cifar100", 5).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=False):
        assert network(torch.zeros(1, 3, 32, 32)).dtype == torch.float32


def test_an_unknown_network_is_named() -> None:
    with pytest.raises(ValueError, match=r"choose one of .*resnet34-miniimagenet, vgg-cifar100"):
        build("vgg16", 5)


def test_growing_a_resnet_does_not_change_what_it_computes() -> None:
    torch.manual_seed(0)
    network, images = ResNet(5, size=16, widths=(8, 16), blocks=(3, 4)), torch.randn(6, 3, 16, 16)
    network.grow(0.5)
    assert network.active == (1, 2)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    before = {name: value.clone() for name, value in network.named_parameters()}
    for _ in range(3):  # the active blocks learn
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), torch.arange(6) % 5).backward()
        optimiser.step()
    asleep = ("groups.0.1.", "groups.0.2.", "groups.1.2.", "groups.1.3.")
    for name, value in network.named_parameters():
        assert torch.equal(value, before[name]) == name.startswith(asleep), name
    network.eval()
    shallow = network(images)
    network.grow(1)
    assert network.active == (3, 4) and torch.equal(network(images), shallow)


def test_a_part_of_the_depth_is_refused_where_there_is_none() -> None:
    with pytest.raises(UserError, match="VGG cannot train at a part of its depth"):
        build("vgg-cifar100", 3).grow(0.5)
    for depth in (0.0, 1.5):
        with pytest.raises(UserError, match="above 0 and at most 1"):
            build("resnet34-miniimagenet", 3).grow(depth)
