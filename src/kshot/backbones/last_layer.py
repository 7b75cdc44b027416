"""Find the last linear layer of an ONNX graph, W̃ Φ(u) + b (Section 2.1), and cut the graph at the features Φ(u)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError

if TYPE_CHECKING:
    import onnx

__all__ = ["LastLayer", "cut", "find_last_layer", "named_last_layer"]

# What may stand between the last layer and the output without changing which class a row of W̃ belongs to.
_AFTERWARDS = {"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Cast", "Dropout", "Flatten", "Squeeze", "Reshape"}


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The tensor of features, W̃ (C̃, p) and b (C̃,) or None."""

    features: str
    weights: NDArray[np.float32]
    bias: NDArray[np.float32] | None


def find_last_layer(model: onnx.ModelProto) -> LastLayer | None:
    """Walk back from each output, through softmax and the like, to a linear layer; None where there is none."""
    graph = _Graph(model)
    for output in model.graph.output:
        node = graph.producer.get(output.name)
        while node is not None and node.op_type in _AFTERWARDS:
            node = graph.producer.get(node.input[0])
        layer = graph.linear(node) if node is not None else None
        if layer is not None:
            return layer
    return None


def named_last_layer(model: onnx.ModelProto, final: str) -> LastLayer:
    """Take the linear layer with that name (of its node, or of what comes out of it)."""
    graph = _Graph(model)
    for node in model.graph.node:
        if final == node.name or final in node.output:
            # A product's bias is added by the next node.
            following = [n for n in model.graph.node if n.op_type == "Add" and set(n.input) & set(node.output)]
            for candidate in (*following, node):
                layer = graph.linear(candidate)
                if layer is not None:
                    return layer
    linear = [node.name or node.output[0] for node in model.graph.node if graph.linear(node) is not None]
    known = f"its linear layers are {', '.join(linear[-5:])}" if linear else "it has no linear layer"
    raise UserError(f"final={final!r} is not a linear layer of this ONNX graph: {known}")


def cut(model: onnx.ModelProto, features: str) -> bytes:
    """Give the part of the graph that computes the tensor `features`, as its only output."""
    from onnx import TensorProto, helper

    producer = _Graph(model).producer
    if features not in producer:
        names = [name for node in model.graph.node for name in node.output]
        raise UserError(
            f"features={features!r} is not a tensor of this ONNX graph; the last are {', '.join(names[-5:])}"
        )
    needed, waiting = {features}, [features]
    while waiting:
        node = producer.get(waiting.pop())
        for name in _inputs(node) if node is not None else ():
            if name not in needed:
                needed.add(name)
                waiting.append(name)
    kept = [node for node in model.graph.node if needed & set(node.output)]
    weights = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    inputs = [value for value in model.graph.input if value.name in needed]
    known = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    output = known.get(features) or helper.make_tensor_value_info(features, TensorProto.FLOAT, None)
    graph = helper.make_graph(kept, "features", inputs, [output], weights)
    graph.sparse_initializer.extend(sparse for sparse in model.graph.sparse_initializer if sparse.values.name in needed)
    result = helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version, functions=model.functions
    )
    content: bytes = result.SerializeToString()
    return content


class _Graph:
    """Who produces which tensor, and which tensors are constant."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.producer = {name: node for node in model.graph.node for name in node.output if name}
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}

    def linear(self, node: onnx.NodeProto) -> LastLayer | None:
        """Read a node as W̃ x + b of features x that the graph computes, or say None."""
        layer = self._linear(node)
        return layer if layer is not None and layer.features in self.producer else None

    def _linear(self, node: onnx.NodeProto) -> LastLayer | None:
        if node.op_type == "Gemm":
            settings = _attributes(node)
            weights = self.constant(node.input[1])
            bias = self.constant(node.input[2]) if len(node.input) > 2 else None
            if weights is None or settings.get("transA", 0) or (len(node.input) > 2 and bias is None):
                return None
            weights = weights if settings.get("transB", 0) else weights.T
            bias = None if bias is None else bias * settings.get("beta", 1.0)
            return _layer(node.input[0], weights * settings.get("alpha", 1.0), bias)
        if node.op_type == "MatMul":
            weights = self.constant(node.input[1])
            return None if weights is None else _layer(node.input[0], weights.T, None)
        if node.op_type == "Add":
            for product, other in (node.input, reversed(node.input)):
                before, bias = self.producer.get(product), self.constant(other)
                if before is not None and before.op_type == "MatMul" and bias is not None:
                    weights = self.constant(before.input[1])
                    return None if weights is None else _layer(before.input[0], weights.T, bias)
        return None

    def constant(self, name: str) -> NDArray[Any] | None:
        """Give the value of a tensor that does not depend on the image, None for others."""
        from onnx import numpy_helper

        if name in self._weights:
            return np.asarray(numpy_helper.to_array(self._weights[name]))
        node = self.producer.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            value = _attributes(node).get("value")
            return None if value is None else np.asarray(numpy_helper.to_array(value))
        inner = self.constant(node.input[0]) if node.op_type in ("Identity", "Cast", "Transpose") else None
        if inner is not None and node.op_type == "Transpose":
            return np.transpose(inner, _attributes(node).get("perm"))
        return inner


def _layer(features: str, weights: NDArray[Any], bias: NDArray[Any] | None) -> LastLayer | None:
    if weights.ndim != 2 or weights.dtype.kind != "f":
        return None
    if bias is not None:
        if bias.size not in (1, len(weights)):
            return None
        bias = np.broadcast_to(bias.reshape(-1), (len(weights),)).astype(np.float32)
        if not np.ptp(bias):  # zeros, or one number for all: the softmax does not know it, and it has no variance
            bias = None
    return LastLayer(features, np.ascontiguousarray(weights, np.float32), bias)


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _inputs(node: onnx.NodeProto) -> Iterator[str]:
    """Give the tensors that a node reads, also from inside its branches and loops."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _inputs(inner)
            yield from (value.name for value in graph.output)
