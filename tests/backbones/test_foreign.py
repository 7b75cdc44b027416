"""Any ONNX network becomes a backbone; a hostile or broken file becomes a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from kshot import Backbone
from kshot.backbones.checked import load_checked
from kshot.backbones.session import quiet_options
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import FileFormatError, UserError
from kshot.training.backbone_file import BackboneContent, store_half

RNG = np.random.default_rng(5)
HOW = Preprocessing(crop=8, mean=(100.0, 110.0, 120.0), std=(50.0, 60.0, 70.0))
KERNEL = RNG.standard_normal((6, 3, 3, 3)).astype(np.float32)
W = RNG.standard_normal((4, 6)).astype(np.float32)
B = RNG.standard_normal(4).astype(np.float32)
PICTURES = RNG.integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)


def model(
    tail: list[Any], weights: dict[str, Any], *, output: str = "out", shape: Any = ("n", 3, 8, 8), **options: Any
) -> onnx.ModelProto:
    """A small network: convolution, ReLU, pooling to "pooled" (n, 6), then the nodes of `tail`."""
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["convolved"]),
        helper.make_node("Relu", ["convolved"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["square"]),
        helper.make_node("Flatten", ["square"], ["pooled"]),
        *tail,
    ]
    arrays = {"kernel": KERNEL, **weights}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **options)


def written(graph: onnx.ModelProto, folder: Path, name: str = "network.onnx") -> Path:
    path = folder / name
    path.write_bytes(graph.SerializeToString())
    return path


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], name=f"{kind}-{output}", **attributes)


SOFTMAX = node("Softmax", ["logits"], "out", axis=-1)
ENDS: dict[str, tuple[list[Any], dict[str, Any], bool]] = {
    "Gemm transposed": ([node("Gemm", ["pooled", "w", "b"], "out", transB=1)], {"w": W, "b": B}, True),
    "Gemm plain": ([node("Gemm", ["pooled", "w", "b"], "out")], {"w": np.ascontiguousarray(W.T), "b": B}, True),
    "Gemm scaled": (
        [node("Gemm", ["pooled", "w", "b"], "out", transB=1, alpha=2.0, beta=0.5)],
        {"w": W / 2, "b": B * 2},
        True,
    ),
    "Gemm without bias": ([node("Gemm", ["pooled", "w"], "out", transB=1)], {"w": W}, False),
    "MatMul": ([node("MatMul", ["pooled", "w"], "out")], {"w": np.ascontiguousarray(W.T)}, False),
    "MatMul and Add": (
        [node("MatMul", ["pooled", "w"], "product"), node("Add", ["b", "product"], "out")],
        {"w": np.ascontiguousarray(W.T), "b": B[None]},
        True,
    ),
    "softmax": ([node("Gemm", ["pooled", "w", "b"], "logits", transB=1), SOFTMAX], {"w": W, "b": B}, True),
    "transposed weights": (
        [
            node("Transpose", ["w"], "wt", perm=[1, 0]),
            node("MatMul", ["pooled", "wt"], "p"),
            node("Add", ["p", "b"], "out"),
        ],
        {"w": W, "b": B},
        True,
    ),
    "constants": (
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W)),
            node("Identity", ["b0"], "b"),
            node("Gemm", ["pooled", "w", "b"], "logits", transB=1),
            node("Identity", ["logits"], "same"),
            node("LogSoftmax", ["same"], "out"),
        ],
        {"b0": B},
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_last_linear_layer_is_found_in_all_its_forms(tmp_path: Path, name: str) -> None:
    tail, weights, has_bias = ENDS[name]
    backbone = Backbone.load(written(model(tail, weights), tmp_path), preprocessing=HOW, base_names=list("abcd"))
    assert backbone.base_weights is not None and backbone.base_names == ("a", "b", "c", "d")
    np.testing.assert_allclose(backbone.base_weights, W, rtol=1e-6)
    assert (backbone.base_bias is not None) == has_bias
    features = backbone.features(PICTURES)
    np.testing.assert_allclose(features, expected_features(), rtol=1e-4, atol=1e-4)
    if has_bias:
        np.testing.assert_allclose(backbone.base_bias, B, rtol=1e-6)


def expected_features() -> np.ndarray[Any, Any]:
    """The network's features by plain NumPy."""
    x = HOW.apply_batch(PICTURES).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("ncxyij,kcij->nkxy", windows, KERNEL), 0).mean((2, 3))


def test_features_and_base_weights_give_the_graphs_own_logits(tmp_path: Path) -> None:
    path = written(model(*ENDS["Gemm scaled"][:2]), tmp_path)
    backbone = Backbone.load(path, preprocessing=HOW)
    session = onnxruntime.InferenceSession(path.read_bytes(), quiet_options(), providers=["CPUExecutionProvider"])
    own = session.run(None, {"images": HOW.apply_batch(PICTURES)})[0]
    assert backbone.base_weights is not None and backbone.base_bias is not None
    found = backbone.features(PICTURES) @ backbone.base_weights.T + backbone.base_bias
    np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5)


def test_a_bias_that_is_the_same_for_all_classes_is_none(tmp_path: Path) -> None:
    graph = model([node("Gemm", ["pooled", "W", "b"], "out", transB=1)], {"W": W, "b": np.full(4, 0.5, np.float32)})
    backbone = Backbone.load(written(graph, tmp_path), preprocessing=HOW)
    assert backbone.base_bias is None and backbone.base_weights is not None


def test_it_is_saved_as_a_backbone_file_that_needs_no_options(tmp_path: Path) -> None:
    backbone = Backbone.load(written(model(*ENDS["softmax"][:2]), tmp_path), preprocessing=HOW)
    backbone.save(tmp_path / "mine.safetensors")
    again = Backbone.load(tmp_path / "mine.safetensors")
    assert again.hash == backbone.hash and again.name == "network"
    np.testing.assert_array_equal(again.features(PICTURES), backbone.features(PICTURES))


def test_a_layer_or_a_tensor_can_be_named(tmp_path: Path) -> None:
    hidden = RNG.standard_normal((6, 9)).astype(np.float32)
    tail = [
        node("MatMul", ["pooled", "hidden"], "middle"),
        node("Add", ["middle", "c"], "moved"),
        node("Tanh", ["moved"], "bent"),
        node("MatMul", ["bent", "w"], "out"),
    ]
    last = RNG.standard_normal((9, 4)).astype(np.float32)
    path = written(model(tail, {"hidden": hidden, "w": last, "c": np.arange(9, dtype=np.float32)}), tmp_path)
    assert Backbone.load(path, preprocessing=HOW).dim == 9
    for name in ("MatMul-middle", "middle"):
        inner = Backbone.load(path, preprocessing=HOW, final=name)
        assert inner.dim == 6 and inner.base_weights is not None and inner.base_bias is not None
        np.testing.assert_array_equal(inner.base_weights, hidden.T)
        np.testing.assert_array_equal(inner.base_bias, np.arange(9))
    tensor = Backbone.load(path, preprocessing=HOW, features="bent")
    assert tensor.dim == 9 and tensor.base_weights is None and tensor.base_bias is None
    square = Backbone.load(path, preprocessing=HOW, features="square")  # (n, 6, 1, 1)
    np.testing.assert_allclose(square.features(PICTURES), expected_features(), rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="final='fc' is not a linear layer of this ONNX graph: its linear layers are"):
        Backbone.load(path, preprocessing=HOW, final="fc")
    with pytest.raises(UserError, match="features='nothing' is not a tensor of this ONNX graph; the last are"):
        Backbone.load(path, preprocessing=HOW, features="nothing")
    with pytest.raises(UserError, match="not both"):
        Backbone.load(path, preprocessing=HOW, final="fc", features="bent")
    with pytest.raises(FileFormatError, match="not one vector for each"):
        Backbone.load(path, preprocessing=HOW, features="convolved")


def test_without_a_linear_layer_there_are_no_base_weights(tmp_path: Path) -> None:
    path = written(model([node("Tanh", ["pooled"], "out")], {}), tmp_path)
    backbone = Backbone.load(path, preprocessing=HOW)
    assert (backbone.base_weights, backbone.base_bias, backbone.base_names) == (None, None, None)
    np.testing.assert_allclose(backbone.features(PICTURES), np.tanh(expected_features()), rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="names of base classes but no base weights"):
        Backbone.load(path, preprocessing=HOW, base_names=["a"])


def test_preprocessing_is_needed_and_must_fit(tmp_path: Path) -> None:
    path = written(model(*ENDS["MatMul"][:2]), tmp_path)
    with pytest.raises(UserError, match="does not say how its images are prepared"):
        Backbone.load(path)
    with pytest.raises(UserError, match="set crop= and layout= to match"):
        Backbone.load(path, preprocessing=Preprocessing(crop=9, mean=(0, 0, 0), std=(1, 1, 1)))
    named = Backbone.load(path, preprocessing="imagenet")
    assert (named.preprocessing.crop, named.preprocessing.resize) == (8, 9)
    free = written(model(*ENDS["MatMul"][:2], shape=("n", 3, "h", "w")), tmp_path)
    assert Backbone.load(free, preprocessing="imagenet").preprocessing.crop == 224


def test_a_network_for_channels_last_images_gets_them(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["pixels"], "images", perm=[0, 3, 1, 2])]
    graph = model(*ENDS["Gemm transposed"][:2])
    graph.graph.input[0].CopyFrom(helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 8, 8, 3]))
    rest = list(graph.graph.node)
    del graph.graph.node[:]
    graph.graph.node.extend(nodes + rest)
    backbone = Backbone.load(written(graph, tmp_path), preprocessing="zero-to-one")
    assert backbone.preprocessing.layout == "NHWC"
    assert backbone.features(PICTURES).shape == (5, 6)


@pytest.mark.parametrize("fixed", [1, 2, 8])
def test_a_network_of_one_batch_size_takes_any_number_of_images(tmp_path: Path, fixed: int) -> None:
    path = written(model(*ENDS["Gemm transposed"][:2], shape=(fixed, 3, 8, 8)), tmp_path)
    backbone = Backbone.load(path, preprocessing=HOW)
    np.testing.assert_allclose(backbone.features(PICTURES), expected_features(), rtol=1e-4, atol=1e-4)


def test_weights_in_a_file_beside_the_graph_are_read(tmp_path: Path) -> None:
    inside = written(model(*ENDS["Gemm transposed"][:2]), tmp_path, "inside.onnx")
    graph = onnx.load_model(inside)
    onnx.save_model(
        graph, tmp_path / "outside.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert (tmp_path / "weights.bin").is_file()
    expected = Backbone.load(inside, preprocessing=HOW).features(PICTURES)
    np.testing.assert_array_equal(
        Backbone.load(tmp_path / "outside.onnx", preprocessing=HOW).features(PICTURES), expected
    )
    (tmp_path / "weights.bin").write_bytes(b"\0" * 10)
    with pytest.raises(FileFormatError, match=r"does not fit its weights file 'weights\.bin'"):
        Backbone.load(tmp_path / "outside.onnx", preprocessing=HOW)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(FileFormatError, match="copy it beside the graph"):
        Backbone.load(tmp_path / "outside.onnx", preprocessing=HOW)


def external(graph: onnx.ModelProto, **entries: str) -> onnx.ModelProto:
    """Make the kernel an external tensor with those entries."""
    tensor = graph.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return graph


def test_files_outside_the_graphs_folder_are_never_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    secret = tmp_path / "secret.bin"
    secret.write_bytes(KERNEL.tobytes())
    (home / "link.bin").symlink_to(secret)
    for location in (str(secret), "../secret.bin", "a/../../secret.bin", "link.bin", ".", ""):
        path = written(external(model(*ENDS["MatMul"][:2]), location=location), home)
        with pytest.raises(FileFormatError, match=r"outside its own folder|which is not there"):
            Backbone.load(path, preprocessing=HOW)
    for entries in ({"offset": "-4"}, {"length": "-1"}, {"offset": "many"}, {"length": str(10**18)}):
        (home / "own.bin").write_bytes(KERNEL.tobytes())
        path = written(external(model(*ENDS["MatMul"][:2]), location="own.bin", **entries), home)
        with pytest.raises(FileFormatError, match="does not fit its weights file"):
            Backbone.load(path, preprocessing=HOW)


def test_external_weights_hidden_in_a_branch_are_found_too(tmp_path: Path) -> None:
    tensor = TensorProto(name="hidden", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/hostname")
    result = helper.make_tensor_value_info("chosen", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Constant", [], ["chosen"], value=tensor)], "b", [], [result])
    choice = helper.make_node("If", ["yes"], ["bias"], then_branch=branch, else_branch=branch)
    tail = [choice, node("Add", ["pooled", "bias"], "out")]
    path = written(model(tail, {"yes": np.array(True)}), tmp_path)
    with pytest.raises(FileFormatError, match="outside its own folder"):
        Backbone.load(path, preprocessing=HOW)


def test_a_backbone_file_whose_graph_reads_other_files_is_refused(tmp_path: Path) -> None:
    graph = external(model(*ENDS["MatMul"][:2]), location="secret.bin").SerializeToString()
    content = BackboneContent(name="trojan", onnx=np.frombuffer(graph, np.uint8), preprocessing=HOW, dim=4)
    Backbone(content).save(tmp_path / "trojan.safetensors")
    with pytest.raises(FileFormatError, match="its graph wants to read other files"):
        Backbone.load(tmp_path / "trojan.safetensors").features(PICTURES)


def test_broken_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    whole = model(*ENDS["softmax"][:2]).SerializeToString()
    cases = {
        "empty": (b"", "has no graph in it"),
        "text": (b"this is not a network at all, but a letter to my aunt", "is not an ONNX file"),
        "truncated": (whole[: len(whole) // 2], "is not an ONNX file"),
        "photograph": (b"\xff\xd8\xff\xe0" + bytes(200), "is not an ONNX file"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=words):
            Backbone.load(path, preprocessing=HOW)


def test_graphs_that_are_no_image_network_are_refused(tmp_path: Path) -> None:
    tail, weights, _ = ENDS["MatMul"]
    no_output = model(tail, weights)
    del no_output.graph.output[:]
    unknown_node = model([helper.make_node("Magic", ["pooled"], ["out"])], {})
    foreign_domain = model([helper.make_node("Magic", ["pooled"], ["out"], domain="evil")], {})
    foreign_domain.opset_import.append(helper.make_opsetid("evil", 1))
    two_inputs = model([node("Mul", ["pooled", "other"], "out")], {})
    two_inputs.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [1, 6]))
    flat = model(tail, weights)
    flat.graph.input[0].CopyFrom(helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 192]))
    dangling = model([node("MatMul", ["nowhere", "w"], "out")], weights)
    for graph, words in (
        (no_output, "has no output"),
        (unknown_node, "ONNX Runtime cannot load the graph"),
        (foreign_domain, "ONNX Runtime cannot load the graph"),
        (two_inputs, "must take one batch of images"),
        (flat, "must take one batch of images|ONNX Runtime cannot load"),
        (dangling, "ONNX Runtime cannot load the graph"),
    ):
        with pytest.raises(FileFormatError, match=words):
            Backbone.load(written(graph, tmp_path), preprocessing=HOW)


def test_giant_sizes_are_refused_before_they_are_allocated(tmp_path: Path) -> None:
    stated = model(*ENDS["MatMul"][:2])
    stated.graph.initializer[0].dims[:] = [10**9, 10**9]
    negative = model(*ENDS["MatMul"][:2])
    negative.graph.initializer[0].dims[:] = [-1, 3, 3, 3]
    tail = [
        node("ConstantOfShape", ["huge"], "sea"),
        node("ReduceSum", ["sea"], "drop"),
        node("Add", ["pooled", "drop"], "out"),
    ]
    made = model(tail, {"huge": np.array([200_000, 200_000], np.int64)})
    image = model(*ENDS["MatMul"][:2], shape=("n", 3, 10**6, 10**6))
    for graph, words in (
        (stated, "states a weight of shape"),
        (negative, "states a weight of shape"),
        (made, "more than 4 GB"),
        (image, "more than 4 GB"),
    ):
        with pytest.raises(FileFormatError, match=words):
            Backbone.load(written(graph, tmp_path), preprocessing=HOW)


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_a_graph_with_changed_bytes_is_loaded_or_refused_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(model(*ENDS["softmax"][:2]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "fuzzed.onnx"
    path.write_bytes(content)
    try:
        backbone = Backbone.load(path, preprocessing=HOW)
    except UserError:
        return
    assert backbone.dim > 0


def test_half_precision_storage_moves_the_features_little(tmp_path: Path) -> None:
    wide = RNG.standard_normal((6, 700)).astype(np.float32)
    path = written(model([node("MatMul", ["pooled", "wide"], "out")], {"wide": wide}), tmp_path)
    graph = load_checked(path).SerializeToString()
    stored = store_half(graph)
    assert len(stored) < 0.7 * len(graph)
    runs = []
    for content in (graph, stored):
        session = onnxruntime.InferenceSession(content, quiet_options(), providers=["CPUExecutionProvider"])
        runs.append(session.run(None, {"images": HOW.apply_batch(PICTURES)})[0])
    assert np.abs(runs[0] - runs[1]).max() <= 1e-3 * np.abs(runs[0]).max()
    # Its own Cast nodes do not hide the last layer from those who read the graph again.
    again = written(onnx.load_model_from_string(stored), tmp_path, "half.onnx")
    found = Backbone.load(again, preprocessing=HOW).base_weights
    assert found is not None
    np.testing.assert_array_equal(found, wide.T.astype(np.float16).astype(np.float32))
