"""Shared by all tests: which ones can run here, and where the image data is."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore = ["training/two_processes.py"]  # a script that a test starts
MISSING = [package for package in ("torch", "jax") if importlib.util.find_spec(package) is None]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the doctests of a room out where its extra is not installed."""
    if "torch" in MISSING and "training" in collection_path.parts and "src" in collection_path.parts:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, package in (("train", "torch"), ("sample", "jax")):
            if item.get_closest_marker(mark) and package in MISSING:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))
        if item.get_closest_marker("data") and "KSHOT_DATA" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="needs the image data: set KSHOT_DATA"))


@pytest.fixture(scope="session")
def image_data() -> Path:
    """Give the folder that holds `cifar-100-python` and `mini-imagenet`."""
    return Path(os.environ["KSHOT_DATA"])


@pytest.fixture(scope="session")
def small_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file of a small real network: pixels times a matrix, tanh; 7 base classes, 12 features."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    from kshot import Backbone
    from kshot.datasets.preprocessing import Preprocessing
    from kshot.training.backbone_file import BackboneContent

    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((192, 12)).astype(np.float32) / 10
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("MatMul", ["flat", "matrix"], ["product"]),
            helper.make_node("Tanh", ["product"], ["features"]),
        ],
        "small",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 12])],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content = BackboneContent(
        name="small",
        onnx=np.frombuffer(model.SerializeToString(), np.uint8),
        preprocessing=Preprocessing(crop=8, mean=(127.0, 127.0, 127.0), std=(64.0, 64.0, 64.0)),
        dim=12,
        base_weights=rng.standard_normal((7, 12)).astype(np.float32),
        base_bias=rng.standard_normal(7).astype(np.float32),
        base_names=("tench", "goldfish", "hen", "ostrich", "jay", "magpie", "grey squirrel"),
    )
    path = tmp_path_factory.mktemp("backbone") / "small.safetensors"
    Backbone(content).save(path)
    return path


@pytest.fixture(scope="session")
def paint_class() -> Callable[..., None]:
    """Give a function that paints photographs of a class: `paint_class(folder, seed, count)`, noise on a pattern."""
    import numpy as np
    from PIL import Image

    def paint(folder: Path, seed: int, count: int, *, first: int = 0, noise: float = 40.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pattern = np.random.default_rng(seed).uniform(0, 255, (8, 8, 3))
        for number in range(first, first + count):
            pixels = pattern + np.random.default_rng((seed, number)).normal(0, noise, (8, 8, 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number}.png")

    return paint


@pytest.fixture
def feeder(tmp_path: Path, paint_class: Callable[..., None]) -> Path:
    """Give a folder with three classes of 4, 3 and 2 photographs."""
    for seed, (name, count) in enumerate({"sparrow": 4, "dunnock": 3, "robin": 2}.items()):
        paint_class(tmp_path / "feeder" / name, seed, count)
    return tmp_path / "feeder"
