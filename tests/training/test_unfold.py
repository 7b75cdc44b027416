"""A backbone file becomes a network that computes the same and can be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kshot.datasets.imageset import ImageSet  # noqa: E402
from kshot.datasets.preprocessing import Preprocessing  # noqa: E402
from kshot.errors import UserError  # noqa: E402
from kshot.training import networks  # noqa: E402
from kshot.training.augmentation import Augmentation  # noqa: E402
from kshot.training.backbone_file import BackboneContent, read_backbone  # noqa: E402
from kshot.training.checkpoint import export_trained  # noqa: E402
from kshot.training.export import from_module  # noqa: E402
from kshot.training.networks import build  # noqa: E402
from kshot.training.networks.conv4 import Conv4  # noqa: E402
from kshot.training.networks.resnet import ResNet  # noqa: E402
from kshot.training.recipe import Phase, Recipe  # noqa: E402
from kshot.training.trainer import train  # noqa: E402
from kshot.training.unfold import unfold  # noqa: E402

pytestmark = pytest.mark.train
CLASSES = 3


def resnet(classes: int = CLASSES) -> Any:
    # Eight channels at least: for fewer, oneDNN under AVX2 writes past its memory (strided shortcut, its issue 6035).
    return ResNet(classes, size=16, widths=(8, 16), blocks=(2, 2))


def conv4(classes: int = CLASSES) -> Any:
    return Conv4(classes, size=16, width=4)


def pictures(seed: int, count: int = 48) -> Any:
    return torch.randn((count, 3, 16, 16), generator=torch.Generator().manual_seed(seed))


def learned(make: Any, *, dead: bool = False) -> Any:
    """Give a network whose normalisation has slopes of both signs, offsets, and statistics of its own."""
    torch.manual_seed(1)
    network = make()
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(layer.weight)
            torch.nn.init.normal_(layer.bias)
    for seed in range(3):
        network.train()(pictures(seed))
    if dead:
        torch.nn.init.zeros_(next(layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)).weight[0])
    return network.eval()


def content_of(network: Any) -> BackboneContent:
    plain = Preprocessing(crop=16, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    return from_module(network, final="last", preprocessing=plain, name="small")


@pytest.mark.parametrize("make", [resnet, conv4])
@pytest.mark.parametrize("dead", [False, True])
def test_the_network_computes_what_the_file_does(make: Any, dead: bool) -> None:
    network = learned(make, dead=dead)
    torch.manual_seed(2)
    again = make()
    unfold(content_of(network), again, pictures(10))
    others = pictures(11)
    with torch.no_grad():
        expected = network(others)
        torch.testing.assert_close(again.eval()(others), expected, rtol=1e-4, atol=1e-4)
        # The normalisation holds the statistics of those images: while training they give the same too.
        seen = pictures(10)
        slack = {"rtol": 0.0, "atol": 1e-2 * float(expected.abs().max())}  # n in training, n - 1 afterwards
        torch.testing.assert_close(again.train()(seen), again.eval()(seen), **slack)


def test_filters_get_the_size_of_freshly_drawn_ones() -> None:
    torch.manual_seed(2)
    again = resnet()
    fresh = {name: float(value.detach().norm()) for name, value in again.named_parameters() if value.ndim == 4}
    unfold(content_of(learned(resnet)), again, pictures(10))
    for name, value in again.named_parameters():
        if name in fresh:
            lengths = value.flatten(1).norm(dim=1)
            assert torch.allclose(lengths, lengths.mean()) and float(value.detach().norm()) == pytest.approx(
                fresh[name], rel=0.1
            )


def test_another_network_and_one_without_normalisation_are_refused() -> None:
    content = content_of(learned(resnet))
    with pytest.raises(UserError, match="small is another network, or one without batch normalisation"):
        unfold(content, conv4(), pictures(10))
    with pytest.raises(UserError, match="is another network, or one without batch normalisation"):
        unfold(content, build("vgg-cifar100", CLASSES), torch.zeros(4, 3, 32, 32))


def coloured() -> ImageSet:
    """Give images whose colour tells the class."""
    generator = np.random.default_rng(0)
    labels = np.arange(96) % CLASSES
    images = generator.integers(0, 120, (96, 16, 16, 3), dtype=np.uint8)
    images[np.arange(96), :, :, labels] += 100
    return ImageSet(images, labels, ("red", "green", "blue"), tuple(map(str, range(96))))


def test_a_run_starts_from_a_backbone_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(networks.NETWORKS, "small", resnet)
    recipe = Recipe("small", (Phase(3, 16),), "sgd", 0.05, 16, 1e-3, averaging=0.9, augmentation=Augmentation())
    options: dict[str, Any] = {"device": "cpu", "precision": "float32"}
    data = coloured()
    first = train(data, recipe, out=tmp_path / "first", **options)
    file = tmp_path / "first.safetensors"
    export_trained(first, file, weights="raw", source="colours")
    still = recipe.changed(learning_rate=0.0)
    begun = train(data, still, out=tmp_path / "second", start=file, stop_after=1, **options)
    assert begun.before == [{"recipe": first.recipe, "seed": 0, "epochs": 3}]
    content = read_backbone(file)
    for network in (begun.network, begun.averaged):
        assert network is not None
        np.testing.assert_array_equal(network.last.weight.detach().numpy(), content.base_weights)
    # At a rate of zero it still knows its classes, far better than a guess (log 3).
    last = (tmp_path / "second" / "log.csv").read_text().splitlines()[-1]
    assert float(last.split(",")[3]) < 0.7 * np.log(CLASSES)

    some, rest = data.first_per_class(20)
    with pytest.raises(UserError, match="learned from other images than these, or does not say from which"):
        train(some, still, out=tmp_path / "third", test=rest, start=file, **options)
    renamed = ImageSet(data.images, data.labels, ("a", "b", "c"), data.ids)
    with pytest.raises(UserError, match="was trained on other classes: start from a network of the same"):
        train(renamed, still, out=tmp_path / "fourth", start=file, **options)
