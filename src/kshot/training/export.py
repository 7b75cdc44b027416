"""Turn a torch network into a backbone that runs without torch: an ONNX graph of its features, and its last layer."""

from __future__ import annotations

import copy
import io
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kshot.datasets.preprocessing import Preprocessing
from kshot.errors import UserError
from kshot.training.backbone_file import BackboneContent, Storage, write_backbone

__all__ = ["export", "from_module", "onnx_features"]

# What the exporter says on every call and cannot be helped; its tracer's doubts are settled by `_verify`.
_EXPECTED = (
    (DeprecationWarning, r"(?s).*legacy TorchScript-based ONNX export"),
    (DeprecationWarning, r"The feature will be removed"),
    (UserWarning, r"Constant folding - Only steps=1 can be constant folded"),
    (torch.jit.TracerWarning, r""),  # type: ignore[attr-defined]
)
_OPSET = 17


def export(
    module: nn.Module,
    path: str | Path,
    *,
    final: str,
    preprocessing: Preprocessing,
    name: str,
    base_names: Sequence[str] | None = None,
    base_ids: Sequence[str] | None = None,
    provenance: dict[str, Any] | None = None,
    storage: Storage = "float32",
) -> None:
    """Write the backbone file of a torch network; the arguments are those of `from_module`."""
    content = from_module(
        module,
        final=final,
        preprocessing=preprocessing,
        name=name,
        base_names=base_names,
        base_ids=base_ids,
        provenance=provenance,
    )
    write_backbone(path, content, storage=storage)


def from_module(
    module: nn.Module,
    *,
    final: str,
    preprocessing: Preprocessing,
    name: str | None = None,
    base_names: Sequence[str] | None = None,
    base_ids: Sequence[str] | None = None,
    provenance: dict[str, Any] | None = None,
) -> BackboneContent:
    """Take a network apart into Φ(u), as ONNX, and the base weights W̃ of its last layer (Section 2.1).

    Args:
        module: any network whose first argument is a batch of images (n, 3, h, w). It is copied, never changed.
        final: name of its last linear layer, such as "fc" or "head.fc"; the features are what goes into it.
        preprocessing: what the network expects of its images.
        name: what to call the backbone; the class's name otherwise.
        base_names: names of the classes, in the order of the last layer's rows.
        base_ids: identifiers of the classes, likewise.
        provenance: where the network comes from, kept in the file.

    """
    if preprocessing.layout != "NCHW":
        raise UserError(f'a torch network takes images in the layout "NCHW", and not {preprocessing.layout!r}')
    try:
        network = copy.deepcopy(module).cpu().float()
    except (RuntimeError, TypeError) as error:  # torch.nn.utils.weight_norm, a lock, an open file, ...
        reason = str(error).partition(".")[0]
        raise UserError(
            f"{type(module).__name__} cannot be copied ({reason}): take off what hinders it, such as the old "
            "weight_norm by torch.nn.utils.remove_weight_norm"
        ) from None
    layer = _final_layer(network, final)
    # `eval` on the outermost: the exporter gives the whole its mode back afterwards.
    features = _Features(network, layer).eval()
    images = torch.randn((2, *preprocessing.shape), generator=torch.Generator().manual_seed(0))
    graph = _simplified(_to_onnx(features, images))
    _verify(graph, features, images.repeat(2, 1, 1, 1)[:3], type(module).__name__)
    return BackboneContent(
        name=name or type(module).__name__,
        onnx=np.frombuffer(graph, np.uint8),
        preprocessing=preprocessing,
        dim=layer.in_features,
        base_weights=layer.weight.detach().numpy().copy(),
        base_bias=None if layer.bias is None else layer.bias.detach().numpy().copy(),
        base_names=None if base_names is None else tuple(base_names),
        base_ids=None if base_ids is None else tuple(base_ids),
        provenance=dict(provenance or {"network": type(module).__name__, "origin": "torch"}),
    )


class _Features(nn.Module):
    """Give what goes into a network's final layer, whatever the network does with its output afterwards."""

    def __init__(self, network: nn.Module, layer: nn.Linear) -> None:
        super().__init__()
        self.network = network
        self.seen: list[Tensor] = []
        layer.register_forward_pre_hook(self._see)

    def _see(self, _layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.seen.append(inputs[0])

    def forward(self, images: Tensor) -> Tensor:
        self.seen.clear()
        self.network(images)
        if not self.seen:
            raise UserError("the network does not use its final layer in the forward pass: name another by final=")
        features = self.seen.pop()
        if features.ndim != 2:
            raise UserError(
                f"the final layer takes features of shape {tuple(features.shape)}, not one vector for each image: "
                "name another by final="
            )
        return features


def _final_layer(network: nn.Module, final: str) -> nn.Linear:
    named = dict(network.named_modules())
    layer = named.get(final)
    if isinstance(layer, nn.Linear):
        return layer
    linear = [name for name, candidate in named.items() if isinstance(candidate, nn.Linear)]
    known = f"its linear layers are {', '.join(linear[-5:])}" if linear else "it has no linear layer"
    problem = "is not a linear layer" if layer is not None else "is not there"
    raise UserError(f"the layer final={final!r} of {type(network).__name__} {problem}: {known}")


def _to_onnx(features: nn.Module, images: Tensor) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        for category, message in _EXPECTED:
            warnings.filterwarnings("ignore", message=message, category=category)
        torch.onnx.export(
            features,
            (images,),
            written,  # type: ignore[arg-type]  # an open file is documented and taken
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
            opset_version=_OPSET,
            # The newer exporter needs two more packages and much more time, and gives the same graph.
            dynamo=False,
        )
    return written.getvalue()


def _simplified(graph: bytes) -> bytes:
    """Fold constants and padding once and for all: the backbone then loads in half the time."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simplified.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        # "Basic" keeps to the standard's operators, the same for every device.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        model = onnx.load_model(path)
    if any(node.domain for node in model.graph.node):
        return graph
    standard = [entry for entry in model.opset_import if not entry.domain]
    del model.opset_import[:]
    model.opset_import.extend(standard)
    simplified: bytes = model.SerializeToString()
    return simplified


def _verify(graph: bytes, features: nn.Module, images: Tensor, name: str) -> None:
    """Compare the graph with the network, on a batch of another size than it was traced with."""
    with torch.no_grad():
        expected = features(images).numpy()
    try:
        found = onnx_features(graph, images)
    except Exception:  # a size that was fixed while tracing
        found = np.empty(0, np.float32)
    scale = max(float(np.abs(expected).max()), 1e-6)
    if found.shape != expected.shape or float(np.abs(found - expected).max()) > 1e-3 * scale:
        raise UserError(
            f"the ONNX graph of {name} gives other features than the network itself, because its code takes a "
            "different way for different images or numbers of images, which ONNX cannot follow"
        )


def onnx_features(graph: bytes, images: Tensor) -> NDArray[np.float32]:
    """Give what an ONNX graph makes of normalised images (n, 3, h, w), 250 at a time."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: chunk.numpy()})[0] for chunk in torch.split(images, 250)])
