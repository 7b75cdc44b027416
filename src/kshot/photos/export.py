"""A model and its backbone as one ONNX graph: pixels in, probabilities out, for programs without kshot."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError
from kshot.files import atomic_path

if TYPE_CHECKING:
    import onnx

    from kshot.backbones import Backbone
    from kshot.photos.model import PhotoModel

__all__ = ["SOMETHING_ELSE", "export_onnx", "is_exported", "rule"]

SOMETHING_ELSE = "something else"
_PREFIX = "backbone/"


def export_onnx(model: PhotoModel, backbone: Backbone, path: str | Path, *, closed: bool = False) -> tuple[str, ...]:
    """Write a graph from `pixels`, uint8 (n, height, width, 3), to `probabilities`, float32 (n, answers), atomically.

    The pixels are RGB, of the network's own size: its normalisation is in the graph, the resize before it is not (no
    two libraries agree on one) and is stated in the file's metadata, as JSON under "preprocessing", beside the answers'
    names under "classes". The last answer is "something else", the mass on the backbone's own classes, unless `closed`.

    `kshot predict` answers with the most probable, but "unsure" where its probability is below "threshold", or where it
    is a class and something else is more probable than "doubt": two more numbers of the metadata, and the rule stands
    there in words under "answer".

    Gives the names of the answers. Only the Python package `onnx` is needed to write, and nothing of kshot to run:

        session = onnxruntime.InferenceSession("feeder.onnx")
        kept = session.get_modelmeta().custom_metadata_map
        names, threshold, doubt = (json.loads(kept[key]) for key in ("classes", "threshold", "doubt"))
        (probabilities,) = session.run(["probabilities"], {"pixels": pixels})
        # of one photograph:
        best = max(range(len(names)), key=lambda answer: probabilities[0, answer])
        doubted = names[-1] == "something else" and best != len(names) - 1 and probabilities[0, -1] > doubt
        answer = "unsure" if probabilities[0, best] < threshold or doubted else names[best]
    """
    from kshot import __version__

    target = Path(path)
    if target.is_dir():
        raise UserError(f"{target} is a folder: give the name of a file")
    joint = not closed and model.joint is not None
    if not joint and model.closed is None:
        raise UserError(
            f"this model knows one class only ({model.classes[0]}), so --closed leaves nothing to choose from: "
            "leave --closed out, or add a class"
        )
    names = (*model.classes, SOMETHING_ELSE) if joint else model.classes
    graph = _graph(backbone, _arrays(model, backbone, joint=joint), classes=len(model.classes))
    graph.producer_name, graph.producer_version = "kshot", __version__
    for key, value in _metadata(model, backbone, names).items():
        graph.metadata_props.add(key=key, value=value)
    try:
        with atomic_path(target) as temporary:
            temporary.write_bytes(graph.SerializeToString())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(f"there is no space left for {target}: make some and try again") from None
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from None
    return tuple(names)


def is_exported(path: Path) -> bool:
    """Say whether `export_onnx` wrote a file: an ONNX file begins with its format's number and its producer's name."""
    with path.open("rb") as opened:
        return b"\x12\x05kshot" in opened.read(16)


def rule(model: PhotoModel, names: tuple[str, ...]) -> str:
    """Say how `kshot predict` comes from probabilities to an answer, with the two limits of the metadata."""
    doubt = _doubt(model, names)
    doubted = f', or where it is a class and "{SOMETHING_ELSE}" is above doubt {doubt:.4g}' if doubt < 1 else ""
    return f'the most probable, but "unsure" where that is below threshold {model.threshold:.4g}{doubted}'


def _doubt(model: PhotoModel, names: tuple[str, ...]) -> float:
    """Give the highest p(something else) beside a class; 1 without that answer, where there is nothing to doubt by."""
    return model.doubt if SOMETHING_ELSE in names else 1.0


def _arrays(model: PhotoModel, backbone: Backbone, *, joint: bool) -> dict[str, NDArray[Any]]:
    """Give what the graph computes with after the features: the head, and the old rows that stand for something else.

    Temperature, factor and shift are multiplied into weights and biases.
    """
    head = model.joint if joint else model.closed
    assert head is not None
    weights = head.temperature * head.weights.T.astype(np.float64)
    arrays: dict[str, NDArray[Any]] = {"weights": weights, "bias": head.temperature * head.bias.astype(np.float64)}
    if model.normalisation is not None:
        arrays |= {"centre": model.normalisation.centre, "length": np.array(model.normalisation.length)}
    if joint:
        old = model.old_rows(backbone)
        assert backbone.base_weights is not None
        bias = np.zeros(len(old)) if backbone.base_bias is None else backbone.base_bias[old].astype(np.float64)
        arrays["old_weights"] = head.old_factor * backbone.base_weights[old].T.astype(np.float64)
        arrays["old_bias"] = head.old_factor * bias + head.old_shift
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def _graph(backbone: Backbone, head: dict[str, NDArray[Any]], *, classes: int) -> onnx.ModelProto:
    """Set normalisation before the backbone's graph and the softmax after it."""
    import onnx
    from onnx import TensorProto, compose, helper, numpy_helper

    model = compose.add_prefix(onnx.load_model_from_string(backbone.graph), _PREFIX)
    stored = {tensor.name for tensor in model.graph.initializer}
    (images,) = (value for value in model.graph.input if value.name not in stored)
    features = model.graph.output[0].name
    how = backbone.preprocessing
    along = (1, 1, 1, 3) if how.layout == "NHWC" else (1, 3, 1, 1)
    joint = "old_weights" in head
    arrays: dict[str, NDArray[Any]] = {
        "mean": np.array(how.mean, np.float32).reshape(along),
        "std": np.array(how.std, np.float32).reshape(along),
        **head,
    }
    # In bytes while the axes are exchanged, as kshot itself does it.
    pixels, before = "pixels", []
    if how.layout == "NCHW":
        pixels, before = "moved", [helper.make_node("Transpose", ["pixels"], ["moved"], perm=[0, 3, 1, 2])]
    before += [
        helper.make_node("Cast", [pixels], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["numbers", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["normalised"]),
        helper.make_node("Cast", ["normalised"], [images.name], to=images.type.tensor_type.elem_type),
    ]
    after = [
        helper.make_node("Flatten", [features], ["flat"], axis=1),
        helper.make_node("Cast", ["flat"], ["features"], to=TensorProto.FLOAT),
    ]
    rows = "features"
    if "centre" in head:
        rows = "prepared"
        after += [
            helper.make_node("Sub", ["features", "centre"], ["away"]),
            helper.make_node("LpNormalization", ["away"], ["unit"], axis=1, p=2),
            helper.make_node("Mul", ["unit", "length"], ["prepared"]),
        ]
    after += [
        helper.make_node("MatMul", [rows, "weights"], ["products"]),
        helper.make_node("Add", ["products", "bias"], ["logits"]),
    ]
    if joint:
        arrays["rows"] = np.arange(classes)
        arrays["old"] = (np.arange(classes + len(head["old_bias"])) >= classes).astype(np.float32)[:, None]
        after += [
            helper.make_node("MatMul", ["features", "old_weights"], ["old_products"]),
            helper.make_node("Add", ["old_products", "old_bias"], ["old_logits"]),
            helper.make_node("Concat", ["logits", "old_logits"], ["both"], axis=1),
            helper.make_node("Softmax", ["both"], ["softmax"], axis=1),
            helper.make_node("Gather", ["softmax", "rows"], ["new"], axis=1),
            helper.make_node("MatMul", ["softmax", "old"], ["other"]),
            helper.make_node("Concat", ["new", "other"], ["probabilities"], axis=1),
        ]
    else:
        after.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
    batch = images.type.tensor_type.shape.dim[0].dim_value or "n"  # a few networks take a fixed number at once
    shape = [batch, how.crop, how.crop, 3]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    whole = helper.make_graph(
        [*before, *model.graph.node, *after],
        "kshot",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, classes + joint])],
        [*initializers, *model.graph.initializer],
    )
    whole.sparse_initializer.extend(model.graph.sparse_initializer)
    made: onnx.ModelProto = helper.make_model(
        whole, opset_imports=model.opset_import, ir_version=model.ir_version, functions=model.functions
    )
    return made


def _metadata(model: PhotoModel, backbone: Backbone, names: tuple[str, ...]) -> dict[str, str]:
    how = backbone.preprocessing
    preprocessing: dict[str, Any] = {
        "colour": "RGB",
        "shorter_side": how.shorter_side,
        "interpolation": f"{how.interpolation}, antialiased (Pillow's resize)",
        "centre_crop": how.crop,
        "pixels": "uint8, 0 to 255, (n, height, width, 3); normalised inside the graph",
        "orientation": "upright: turn the photograph as its EXIF orientation says",
    }
    return {
        "classes": json.dumps(names, ensure_ascii=False),
        "preprocessing": json.dumps(preprocessing),
        "threshold": json.dumps(model.threshold),
        "doubt": json.dumps(_doubt(model, names)),
        "answer": rule(model, names),
        "backbone": json.dumps({"name": backbone.name, "hash": backbone.hash}),
    }
