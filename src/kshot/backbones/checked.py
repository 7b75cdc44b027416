"""Read an ONNX file from anywhere without trusting it: what it claims is checked before anything is loaded or run."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kshot.errors import FileFormatError

if TYPE_CHECKING:
    import onnx

__all__ = ["load_checked", "refuse_external_data"]

# Protobuf's own limit for one message, and so for a graph with its weights inside.
MAX_BYTES = 2**31 - 1
# No image network has an array of a thousand million numbers for one image: 4 GB.
MAX_ELEMENTS = 2**30


def load_checked(path: Path) -> onnx.ModelProto:
    """Read a graph with its weights, also those that lie in files beside it; refuse what is not safe to run.

    Raises `FileFormatError` for a file that is no ONNX graph, is damaged, wants to read files outside its own folder,
    or states sizes that no image network has.
    """
    import onnx

    if path.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{path} is larger than 2 GB, more than an ONNX graph can be")
    model = _parse(path.read_bytes(), str(path))
    if not model.graph.node:
        raise FileFormatError(f"{path} has no graph in it: it is not an ONNX network")
    if not model.graph.output:
        raise FileFormatError(f"{path} has no output: export the network again")
    _read_external_data(model, path)
    _check_sizes(model, path)
    try:
        # With the shapes that follow from the graph: ONNX Runtime checks the rest, but allocates what it is told to.
        inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise FileFormatError(f"{path} is not a valid ONNX network: {_first_line(error)}") from None
    for value in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        if prod(max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim) > MAX_ELEMENTS:
            raise FileFormatError(f"{path} would need more than 4 GB for its array {value.name!r}: it is not loaded")
    return inferred


def refuse_external_data(graph: bytes, name: str) -> None:
    """Refuse a graph inside one of our own files that would read other files; ours never do."""
    # Such a tensor has an entry with the key "location": without these bytes there is none, and no need to import onnx.
    if b"location" in graph and any(_is_external(tensor) for tensor in _tensors(_parse(graph, name))):
        raise FileFormatError(f"{name} is not a backbone file of kshot: its graph wants to read other files")


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    import onnx

    try:
        return onnx.load_model_from_string(content)
    except Exception:  # protobuf's own DecodeError, whose place differs between its versions
        raise FileFormatError(f"{name} is not an ONNX file, or it is damaged") from None


def _read_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Bring weights from files beside the graph into it; they must lie in the graph's own folder, links resolved."""
    from onnx import TensorProto

    folder = path.resolve().parent
    total = 0
    for tensor in _tensors(model):
        if not _is_external(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        source = (folder / location).resolve()
        if Path(location).is_absolute() or folder not in source.parents:
            raise FileFormatError(f"{path} wants to read {location!r}, outside its own folder: it is not loaded")
        if not source.is_file():
            raise FileFormatError(f"{path} keeps weights in {location!r}, which is not there: copy it beside the graph")
        try:
            start, size = int(entries.get("offset") or 0), source.stat().st_size
            length = int(entries.get("length") or size - start)
        except ValueError:
            start, size, length = -1, 0, 0
        total += length
        if start < 0 or length < 0 or start + length > size or total > MAX_BYTES:
            raise FileFormatError(f"{path} does not fit its weights file {location!r}: one of them is damaged")
        with source.open("rb") as opened:
            opened.seek(start)
            tensor.raw_data = opened.read(length)
        del tensor.external_data[:]
        tensor.data_location = TensorProto.DEFAULT


def _check_sizes(model: onnx.ModelProto, path: Path) -> None:
    for tensor in _tensors(model):
        if any(length < 0 for length in tensor.dims) or prod(tensor.dims) > MAX_ELEMENTS:
            raise FileFormatError(f"{path} states a weight of shape {tuple(tensor.dims)}: it is not loaded")


def _is_external(tensor: onnx.TensorProto) -> bool:
    from onnx import TensorProto

    return bool(tensor.data_location == TensorProto.EXTERNAL or tensor.external_data)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Give every constant of a model, also inside branches, loops and functions."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        yield from _attribute_tensors(function.attribute_proto)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Any) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _graph_tensors(graph)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
