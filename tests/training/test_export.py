"""A torch network becomes a backbone whose features and last layer give the network's own logits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from kshot import Backbone, files  # noqa: E402
from kshot.datasets.preprocessing import Preprocessing  # noqa: E402
from kshot.errors import UserError  # noqa: E402
from kshot.training.export import export  # noqa: E402
from kshot.training.networks import NETWORKS, build  # noqa: E402

pytestmark = pytest.mark.train

HOW = Preprocessing(crop=16, mean=(120.0, 110.0, 100.0), std=(60.0, 61.0, 62.0))


class Trunk(nn.Module):
    """Convolutions with everything that differs between training and testing."""

    def __init__(self, features: int = 12) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5),
            nn.Conv2d(8, features, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip

    def forward(self, images: Any) -> Any:
        return self.layers(images)


class Nested(nn.Module):
    """A final layer two levels down, and an answer that is neither logits nor a tensor."""

    def __init__(self, *, bias: bool = True) -> None:
        super().__init__()
        self.trunk = Trunk()
        self.head = nn.ModuleDict({"fc": nn.Linear(12, 5, bias=bias), "aux": nn.Linear(12, 2)})

    def forward(self, images: Any) -> dict[str, Any]:
        x = self.trunk(images)
        return {"probabilities": self.head["fc"](x).softmax(1), "aux": self.head["aux"](x)}


def trained(network: nn.Module) -> nn.Module:
    """Give batch normalisation statistics that matter."""
    torch.manual_seed(0)
    network.train()
    with torch.no_grad():
        for _ in range(3):
            network(torch.randn(8, 3, 16, 16) * 2 + 1)
    return network


def pictures(count: int = 5, size: int = 16) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(3).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def logits(backbone: Backbone, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    assert backbone.base_weights is not None
    found = backbone.features(images) @ backbone.base_weights.T
    return found if backbone.base_bias is None else found + backbone.base_bias


@pytest.mark.parametrize("bias", [True, False])
def test_features_and_base_weights_give_the_networks_own_answer(bias: bool) -> None:
    network = trained(Nested(bias=bias))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    backbone = Backbone.from_torch(network, final="head.fc", preprocessing=HOW)
    # The user's network is as it was: weights, mode, and no hook left behind.
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not network.head["fc"]._forward_pre_hooks  # type: ignore[index]
    assert (backbone.base_bias is not None) == bias
    assert backbone.dim == 12 and backbone.name == "Nested"
    network.eval()
    with torch.no_grad():
        own = network(torch.from_numpy(HOW.apply_batch(pictures())))["probabilities"].numpy()
    ours = np.exp(logits(backbone, pictures()))
    np.testing.assert_allclose(ours / ours.sum(1, keepdims=True), own, rtol=1e-4)


@pytest.mark.parametrize(("storage", "tolerance"), [("float32", 1e-4), ("float16", 1e-2)])
@pytest.mark.parametrize("name", ["vgg-cifar100", pytest.param("resnet34-miniimagenet", marks=pytest.mark.slow)])
def test_the_papers_networks_reproduce_their_logits_from_a_file(
    tmp_path: Path, name: str, storage: Any, tolerance: float
) -> None:
    torch.manual_seed(1)
    network = build(name, 10).eval()
    how = Preprocessing(crop=network.size, mean=(125.0, 123.0, 114.0), std=(63.0, 62.0, 67.0))
    path = tmp_path / "backbone.safetensors"
    names = [f"class {number}" for number in range(10)]
    export(network, path, final="last", preprocessing=how, name=name, base_names=names, storage=storage)
    images = pictures(4, network.size)
    with torch.no_grad():
        own = network(torch.from_numpy(how.apply_batch(images))).numpy()
    backbone = Backbone.load(path)
    found = logits(backbone, images)
    assert np.abs(found - own).max() <= tolerance * np.abs(own).max()
    np.testing.assert_array_equal(found.argmax(1), own.argmax(1))
    assert backbone.base_names == tuple(names) and backbone.base_bias is None
    assert backbone.preprocessing == how
    assert name in NETWORKS


def test_half_precision_halves_the_file(tmp_path: Path) -> None:
    network = build("vgg-cifar100", 10)
    how = Preprocessing(crop=32, mean=(0, 0, 0), std=(1, 1, 1))
    sizes = {}
    for storage in ("float32", "float16"):
        path = tmp_path / storage
        export(network, path, final="last", preprocessing=how, name="vgg", storage=storage)  # type: ignore[arg-type]
        sizes[storage] = path.stat().st_size
    assert sizes["float16"] < 0.52 * sizes["float32"]


def test_weights_beyond_the_range_of_half_precision_stay_whole(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 12), nn.Linear(12, 3))
    with torch.no_grad():
        network[1].weight.fill_(1e5)  # type: ignore[union-attr, operator]
    path = tmp_path / "large"
    export(network, path, final="2", preprocessing=HOW, name="large", storage="float16")
    assert np.isfinite(Backbone.load(path).features(pictures(2))).all()


def test_a_backbone_file_says_where_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "b.safetensors"
    export(trained(Nested()), path, final="head.fc", preprocessing=HOW, name="mine", provenance={"seed": 7})
    arrays, metadata = files.read(path, kind="backbone", version=1)
    assert set(arrays) == {"onnx", "base_weights", "base_bias"}
    assert (metadata["name"], metadata["features"], metadata["provenance"]) == ("mine", 12, {"seed": 7})
    assert Preprocessing.from_json(metadata["preprocessing"]) == HOW


def test_the_exporters_own_warnings_stay_in_and_others_come_through() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Backbone.from_torch(Nested(), final="head.fc", preprocessing=HOW)

    class Grumbling(Nested):
        def forward(self, images: Any) -> dict[str, Any]:
            warnings.warn("this network is out of date", UserWarning, stacklevel=2)
            return super().forward(images)

    with pytest.warns(UserWarning, match="out of date"):
        Backbone.from_torch(Grumbling(), final="head.fc", preprocessing=HOW)


def test_a_wrong_final_layer_is_named_with_those_there_are() -> None:
    with pytest.raises(
        UserError, match=r"final='fc' of Nested is not there: its linear layers are head\.fc, head\.aux"
    ):
        Backbone.from_torch(Nested(), final="fc", preprocessing=HOW)
    with pytest.raises(UserError, match="is not a linear layer"):
        Backbone.from_torch(Nested(), final="trunk", preprocessing=HOW)
    with pytest.raises(UserError, match="it has no linear layer"):
        Backbone.from_torch(Trunk(), final="fc", preprocessing=HOW)


def test_networks_that_cannot_be_a_backbone_are_refused() -> None:
    class Unused(Nested):
        def forward(self, images: Any) -> Any:
            return self.trunk(images)

    class Tokens(Nested):
        def forward(self, images: Any) -> Any:
            return self.head["fc"](self.trunk(images)[:, None].repeat(1, 4, 1))

    class Fickle(Nested):
        def forward(self, images: Any) -> Any:
            x = self.trunk(images)
            return self.head["fc"](x * 2 if len(images) == 2 else x)

    with pytest.raises(UserError, match="does not use its final layer"):
        Backbone.from_torch(Unused(), final="head.fc", preprocessing=HOW)
    with pytest.raises(UserError, match="not one vector for each image"):
        Backbone.from_torch(Tokens(), final="head.fc", preprocessing=HOW)
    with pytest.raises(UserError, match="other features than the network itself"):
        Backbone.from_torch(Fickle(), final="head.fc", preprocessing=HOW)
    channels_last = Preprocessing(**{**HOW.to_json(), "layout": "NHWC"})
    with pytest.raises(UserError, match="NCHW"):
        Backbone.from_torch(Nested(), final="head.fc", preprocessing=channels_last)
    with pytest.raises(UserError, match="base_names of Nested are 2, and the last layer has 5 classes"):
        Backbone.from_torch(Nested(), final="head.fc", preprocessing=HOW, base_names=["a", "b"])


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_a_network_that_cannot_be_copied_is_refused_in_a_sentence() -> None:
    network = nn.Sequential(nn.Flatten(), nn.utils.weight_norm(nn.Linear(768, 8)), nn.Linear(8, 3))
    network(torch.randn(1, 3, 16, 16))
    with pytest.raises(UserError, match=r"Sequential cannot be copied .*: take off what hinders it"):
        Backbone.from_torch(network, final="2", preprocessing=HOW)


def test_a_network_in_half_precision_is_exported_in_single() -> None:
    network = trained(Nested()).bfloat16()
    backbone = Backbone.from_torch(network, final="head.fc", preprocessing=HOW)
    assert backbone.features(pictures(2)).dtype == np.float32
    assert next(network.parameters()).dtype == torch.bfloat16
