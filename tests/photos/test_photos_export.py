"""An exported model gives the same probabilities anywhere, from the same pixels and without kshot."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kshot.backbones import Backbone
from kshot.concepts import Normalisation
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import UserError
from kshot.photos.examples import Examples
from kshot.photos.export import export_onnx
from kshot.photos.model import BackboneRecord, Head, PhotoModel
from kshot.photos.predicting import predict
from kshot.training.backbone_file import BackboneContent

CLASSES = ("dunnock", "Spatz – 雀", "wren\nor [red]not")


def make_model(backbone: Backbone, classes: tuple[str, ...] = CLASSES, *, joint: bool = True) -> PhotoModel:
    """Give a model whose weights are as large as learned ones; two of the backbone's classes are set aside."""
    rng = np.random.default_rng(0)
    count, dim = len(classes), backbone.dim
    X = rng.standard_normal((count, dim)).astype(np.float32)
    examples = Examples.ordered(X, classes, [f"{row}.jpg" for row in range(count)], [str(row) for row in range(count)])

    def head(temperature: float) -> Head:
        weights = rng.normal(0, 0.3, (count, dim)).astype(np.float32)
        return Head(weights, rng.normal(0, 1, count).astype(np.float32), temperature, 3.0, 0.5, -1.0)

    record = BackboneRecord(backbone.name, backbone.hash, backbone.name)
    closed = head(0.4) if count > 1 else None
    aside = ((3, classes[0]), (7, classes[0])) if joint else ()
    normal = Normalisation(rng.uniform(0, 0.5, dim), 14.0)
    return PhotoModel(examples, record, closed, head(0.7) if joint else None, aside, 0.5, normalisation=normal)


@pytest.fixture(scope="module")
def efficientnet() -> Backbone:
    return Backbone.load("efficientnet-lite0", threads=1)


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (5, 7, 7, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((224, 224), Image.Resampling.BICUBIC)) for one in coarse])


ELSEWHERE = """
import json, sys
import numpy as np, onnxruntime
from PIL import Image
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
kept = session.get_modelmeta().custom_metadata_map
how = json.loads(kept["preprocessing"])
image = Image.open(sys.argv[2]).convert("RGB")
scale = how["shorter_side"] / min(image.size)
image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BICUBIC)
x, y = [(side - how["centre_crop"]) // 2 for side in image.size]
cropped = np.asarray(image.crop((x, y, x + how["centre_crop"], y + how["centre_crop"])))
same = np.load(sys.argv[3])
(found,) = session.run(["probabilities"], {"pixels": np.stack([same, cropped])})
assert "kshot" not in sys.modules
print(json.dumps([json.loads(kept["classes"]), found.tolist()]))
"""


@pytest.mark.parametrize("closed", [False, True])
def test_plain_onnx_runtime_gives_the_same_probabilities_elsewhere(
    tmp_path: Path, efficientnet: Backbone, closed: bool
) -> None:
    model = make_model(efficientnet)
    rng = np.random.default_rng(2)
    photograph = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((640, 480))
    photograph.save(tmp_path / "photograph.png")
    names = export_onnx(model, efficientnet, tmp_path / "model.onnx", closed=closed)
    np.save(tmp_path / "pixels.npy", efficientnet.preprocessing.pixels(photograph))
    files = [tmp_path / name for name in ("model.onnx", "photograph.png", "pixels.npy")]
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, *files], capture_output=True, text=True, check=True)
    classes, found = json.loads(done.stdout)
    assert tuple(classes) == names == (model.classes if closed else (*model.classes, "something else"))
    expected = model.probabilities(efficientnet.features(tmp_path / "photograph.png"), efficientnet, closed=closed)
    whole = expected.classes[0] if closed else np.append(expected.classes[0], expected.other[0])
    assert np.abs(np.array(found[0]) - whole).max() < 1e-5
    # Resized as the metadata say, in other words than ours: one pixel in a thousand differs by a grey level or two.
    assert np.abs(np.array(found[1]) - whole).max() < 1e-3


def test_any_number_of_images_goes_in_at_once(tmp_path: Path, efficientnet: Backbone, pixels: np.ndarray) -> None:
    import onnxruntime

    model = make_model(efficientnet)
    export_onnx(model, efficientnet, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    expected = model.probabilities(efficientnet._run(efficientnet.preprocessing.normalise(pixels)), efficientnet)
    for count in (5, 1, 3):
        (found,) = session.run(None, {"pixels": pixels[:count]})
        whole = np.column_stack([expected.classes, expected.other])[:count]
        assert found.shape == (count, 4) and found.dtype == np.float32
        assert np.abs(found - whole).max() < 1e-5


@pytest.mark.parametrize("closed", [False, True])
def test_the_rule_of_an_exported_file_gives_the_answers_of_predict(tmp_path: Path, closed: bool) -> None:
    import onnxruntime

    backbone = tiny_backbone("NCHW", batch=None, elem="float")
    colours = np.random.default_rng(5).integers(0, 256, (60, 3)).tolist()
    files = [tmp_path / f"{number}.png" for number in range(len(colours))]
    for file, colour in zip(files, colours, strict=True):
        Image.new("RGB", (8, 8), tuple(colour)).save(file)
    read = np.stack([backbone.preprocessing.pixels(Image.open(file)) for file in files])
    model = make_model(backbone)
    middle = model.probabilities(backbone.features(files), backbone)
    own = middle.classes.max(axis=1) > middle.other

    def between(values: np.ndarray, share: float) -> float:  # not at one of them: float32 would decide
        place = int(share * len(values))
        return float(np.sort(values)[place : place + 2].mean())

    limits = {"threshold": between(middle.classes[own].max(axis=1), 0.2), "doubt": between(middle.other[own], 0.5)}
    model = replace(model, **limits)
    export_onnx(model, backbone, tmp_path / "model.onnx", closed=closed)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    kept = session.get_modelmeta().custom_metadata_map
    names, threshold, doubt = (json.loads(kept[key]) for key in ("classes", "threshold", "doubt"))
    (found,) = session.run(["probabilities"], {"pixels": read})

    def answer(row: np.ndarray) -> str:  # in the words of the docstring
        best = max(range(len(names)), key=lambda answer: row[answer])
        doubted = names[-1] == "something else" and best != len(names) - 1 and row[-1] > doubt
        return "unsure" if row[best] < threshold or doubted else names[best]

    expected = [one.name for one in predict(model, files, backbone=backbone, closed=closed)]
    assert [answer(row) for row in found] == expected
    by_threshold = ["unsure" if row.max() < threshold else names[row.argmax()] for row in found]
    assert len(set(expected)) > 1 and (by_threshold == expected) is closed  # both limits are needed
    assert doubt == (1.0 if closed else model.doubt) and (f"doubt {doubt:.4g}" in kept["answer"]) is not closed


def tiny_backbone(layout: str, *, batch: int | None, elem: str) -> Backbone:
    """A network of a mean and a product, as foreign ones are: other axes, numbers and a fixed batch."""
    from onnx import TensorProto, helper, numpy_helper

    kind, dtype = {"float": (TensorProto.FLOAT, np.float32), "double": (TensorProto.DOUBLE, np.float64)}[elem]
    rng = np.random.default_rng(4)
    kernel = numpy_helper.from_array(rng.normal(0, 0.3, (3, 6)).astype(dtype), "pixels")  # a name that clashes
    shape, axes = ([batch or "n", 8, 8, 3], [1, 2]) if layout == "NHWC" else ([batch or "n", 3, 8, 8], [2, 3])
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["weights"], axes=axes, keepdims=0),
        helper.make_node("MatMul", ["weights", "pixels"], ["probabilities"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", kind, shape)],
        [helper.make_tensor_value_info("probabilities", kind, [batch or "n", 6])],
        [kernel],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    how = Preprocessing(crop=8, mean=(10, 20, 30), std=(40, 50, 60), layout=layout)  # type: ignore[arg-type]
    weights = rng.normal(0, 1, (9, 6)).astype(np.float32)
    return Backbone(
        BackboneContent(
            name="tiny", onnx=np.frombuffer(content, np.uint8), preprocessing=how, dim=6, base_weights=weights
        )
    )


@pytest.mark.parametrize(
    ("layout", "batch", "elem"), [("NHWC", None, "float"), ("NCHW", 2, "float"), ("NCHW", None, "double")]
)
def test_networks_of_any_origin_are_exported(tmp_path: Path, layout: str, batch: int | None, elem: str) -> None:
    import onnx
    import onnxruntime

    backbone = tiny_backbone(layout, batch=batch, elem=elem)
    model = make_model(backbone)
    export_onnx(model, backbone, tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    pixels = np.random.default_rng(3).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    (found,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, {"pixels": pixels})
    expected = model.probabilities(backbone.features(pixels), backbone)
    assert np.abs(found - np.column_stack([expected.classes, expected.other])).max() < 1e-5


def test_a_model_of_one_class_can_only_tell_it_from_something_else(tmp_path: Path) -> None:
    backbone = tiny_backbone("NCHW", batch=None, elem="float")
    model = make_model(backbone, ("cat",))
    assert export_onnx(model, backbone, tmp_path / "cat.onnx") == ("cat", "something else")
    with pytest.raises(UserError, match="one class only"):
        export_onnx(model, backbone, tmp_path / "closed.onnx", closed=True)
    assert not (tmp_path / "closed.onnx").exists()


def test_a_backbone_without_classes_of_its_own_gives_a_closed_model(tmp_path: Path) -> None:
    backbone = tiny_backbone("NCHW", batch=None, elem="float")
    assert export_onnx(make_model(backbone, joint=False), backbone, tmp_path / "model.onnx") == tuple(sorted(CLASSES))


def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    backbone = tiny_backbone("NCHW", batch=None, elem="float")
    for target in (tmp_path, tmp_path / "nowhere" / "model.onnx"):
        with pytest.raises(UserError, match=r"folder|cannot be written"):
            export_onnx(make_model(backbone), backbone, target)
    assert not list(tmp_path.iterdir())
