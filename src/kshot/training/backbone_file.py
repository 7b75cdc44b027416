"""The file of a backbone: an ONNX graph from images to features, the base weights, their names, the preprocessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import FileFormatError, UserError

__all__ = ["BackboneContent", "Storage", "read_backbone", "store_half", "write_backbone"]

KIND = "backbone"
VERSION = 1
Storage = Literal["float16", "float32"]

# Smaller arrays (biases, mostly) stay in float32: they would save next to nothing.
_WORTH_HALVING = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class BackboneContent:
    """What a backbone file holds.

    Args:
        name: what it is called in reports.
        onnx: bytes of the ONNX graph, images to features, as uint8.
        preprocessing: what the graph expects of its images.
        dim: number of features p.
        base_weights: (C̃, p) weights of the last layer W̃, or None.
        base_bias: (C̃,) or None.
        base_names: C̃ names of the base classes, or None.
        base_ids: C̃ identifiers of theirs (WordNet's, for ImageNet), or None.
        provenance: where the network comes from, as JSON.

    """

    name: str
    onnx: NDArray[np.uint8]
    preprocessing: Preprocessing
    dim: int
    base_weights: NDArray[np.float32] | None = None
    base_bias: NDArray[np.float32] | None = None
    base_names: tuple[str, ...] | None = None
    base_ids: tuple[str, ...] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.base_weights is None:
            if self.base_bias is not None or self.base_names is not None or self.base_ids is not None:
                raise UserError(f"the backbone {self.name} has a bias or names of base classes but no base weights")
            return
        if self.base_weights.ndim != 2 or self.base_weights.shape[1] != self.dim:
            raise UserError(f"base_weights of {self.name} have shape {self.base_weights.shape}, not (C̃, {self.dim})")
        classes = len(self.base_weights)
        if self.base_bias is not None and self.base_bias.shape != (classes,):
            raise UserError(f"base_bias of {self.name} has shape {self.base_bias.shape}, not ({classes},)")
        for what, values in (("base_names", self.base_names), ("base_ids", self.base_ids)):
            if values is not None and len(values) != classes:
                raise UserError(f"{what} of {self.name} are {len(values)}, and the last layer has {classes} classes")


def write_backbone(path: str | Path, content: BackboneContent, *, storage: Storage = "float32") -> None:
    """Write a backbone file, atomically; "float16" halves it and moves the features by about 0.3 %."""
    arrays: files.Arrays = {"onnx": content.onnx}
    if storage == "float16":
        arrays["onnx"] = np.frombuffer(store_half(content.onnx.tobytes()), np.uint8)
    if content.base_weights is not None:
        half = storage == "float16" and _fits_half(content.base_weights)
        arrays["base_weights"] = content.base_weights.astype(np.float16 if half else np.float32)
    if content.base_bias is not None:
        arrays["base_bias"] = content.base_bias.astype(np.float32)
    metadata = {
        "name": content.name,
        "features": content.dim,
        "preprocessing": content.preprocessing.to_json(),
        "base_names": content.base_names,
        "base_ids": content.base_ids,
        "provenance": content.provenance,
    }
    files.write(path, arrays, kind=KIND, version=VERSION, metadata=metadata)


def read_backbone(path: str | Path) -> BackboneContent:
    """Read what `write_backbone` wrote; weights come back as float32 whatever they were stored as."""
    arrays, metadata = files.read(path, kind=KIND, version=VERSION)
    try:
        return BackboneContent(
            name=str(metadata["name"]),
            onnx=arrays["onnx"].view(np.uint8).reshape(-1),
            preprocessing=Preprocessing.from_json(metadata["preprocessing"]),
            dim=int(metadata["features"]),
            base_weights=_float32(arrays.get("base_weights")),
            base_bias=_float32(arrays.get("base_bias")),
            base_names=_strings(metadata.get("base_names")),
            base_ids=_strings(metadata.get("base_ids")),
            provenance=dict(metadata.get("provenance") or {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not a whole backbone file ({error})") from None


def store_half(onnx_bytes: bytes) -> bytes:
    """Rewrite an ONNX graph so that its large float32 weights are stored as float16 behind Cast nodes.

    ONNX Runtime undoes the casts once, when it loads the graph: it runs as fast as before.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_model_from_string(onnx_bytes)
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        weights = numpy_helper.to_array(tensor)
        if weights.size < _WORTH_HALVING or not _fits_half(weights):
            continue
        name, stored = tensor.name, f"{tensor.name}.float16"
        tensor.CopyFrom(numpy_helper.from_array(weights.astype(np.float16), stored))
        casts.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *nodes])
    rewritten: bytes = model.SerializeToString()
    return rewritten


def _fits_half(weights: NDArray[Any]) -> bool:
    return bool(np.abs(weights).max() <= float(np.finfo(np.float16).max))


def _float32(array: NDArray[Any] | None) -> NDArray[np.float32] | None:
    return None if array is None else array.astype(np.float32)


def _strings(values: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)
