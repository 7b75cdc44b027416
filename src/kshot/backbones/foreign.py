"""Make a backbone of an ONNX file from anywhere: its features, its last layer, and the preprocessing it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kshot.backbones.checked import load_checked
from kshot.backbones.last_layer import cut, find_last_layer, named_last_layer
from kshot.backbones.session import Session
from kshot.datasets.preprocessing import NAMED, Preprocessing
from kshot.errors import FileFormatError, UserError
from kshot.training.backbone_file import BackboneContent

__all__ = ["import_onnx"]


def import_onnx(
    path: Path,
    *,
    preprocessing: Preprocessing | str | None,
    final: str | None = None,
    features: str | None = None,
    base_names: Sequence[str] | None = None,
) -> BackboneContent:
    """Read an ONNX network.

    Args:
        path: the file.
        preprocessing: what it expects of its images, or the name of a usual convention (`Preprocessing.named`).
        final: name of its last linear layer; by default the one that the output comes from.
        features: name of the tensor to take as features, without a last layer and so without base weights.
        base_names: names of its classes.

    """
    if preprocessing is None:
        raise UserError(
            f"{path} does not say how its images are prepared: give its preprocessing, one of {', '.join(NAMED)}, or "
            "your own (preprocessing= in Python, --preprocessing with a JSON file on the command line)"
        )
    if final is not None and features is not None:
        raise UserError("give final= (a linear layer) or features= (a tensor), not both")
    model = load_checked(path)
    try:
        layer = None
        if features is None:
            layer = find_last_layer(model) if final is None else named_last_layer(model, final)
        graph = cut(model, layer.features if layer is not None else features or model.graph.output[0].name)
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, UserError):
            raise
        # A node without the inputs its kind has, a weight of another size than it states: the graph contradicts itself.
        raise FileFormatError(f"{path} is not a valid ONNX network: {error}") from None
    session = Session(graph, name=str(path))
    preprocessing = _fitting(preprocessing, session.shape, path)
    dim = session.run(np.zeros((1, *preprocessing.shape), np.float32)).shape[1]
    if layer is not None and layer.weights.shape[1] != dim:
        raise FileFormatError(f"{path} gives {dim} features where its last layer takes {layer.weights.shape[1]}")
    return BackboneContent(
        name=path.stem,
        onnx=np.frombuffer(graph, np.uint8),
        preprocessing=preprocessing,
        dim=dim,
        base_weights=None if layer is None else layer.weights,
        base_bias=None if layer is None else layer.bias,
        base_names=None if base_names is None else tuple(base_names),
        provenance={"file": path.name, "origin": "onnx"},
    )


def _fitting(preprocessing: Preprocessing | str, shape: tuple[int | str | None, ...], path: Path) -> Preprocessing:
    """Hold the preprocessing against the input that the graph states; a convention's name takes its size from there."""
    if isinstance(preprocessing, str):
        channels_last = shape[3] == 3 and shape[1] != 3
        side = shape[1] if channels_last else shape[2]
        named = Preprocessing.named(preprocessing, crop=side if isinstance(side, int) and side > 0 else 224)
        preprocessing = replace(named, layout="NHWC" if channels_last else "NCHW")
    for stated, given in zip(shape[1:], preprocessing.shape, strict=True):
        if isinstance(stated, int) and stated > 0 and stated != given:
            raise UserError(
                f"{path} takes images of shape {shape[1:]}, and its preprocessing gives {preprocessing.shape}: "
                "set crop= and layout= to match"
            )
    return preprocessing
