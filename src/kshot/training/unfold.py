"""A backbone file made trainable again: its convolutions, into which batch normalisation was folded, taken apart.

A file holds y = W'x + b' where the network had a convolution and a normalisation. Any W = s W' with s > 0 per filter
gives the same function, when the normalisation after it has the mean m and the variance v of Wx on some images as its
own, and the slope √(v + ε) / s and the offset b' + m / s. So the network begins where the file ends; only momentum and
the size of the filters are lost. They get the size of freshly drawn ones, which the learning rates are meant for.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError
from kshot.training.backbone_file import BackboneContent
from kshot.training.batches import Normalisation, resized
from kshot.training.export import onnx_features
from kshot.training.networks import Network, build

__all__ = ["unfold", "unfolded"]

Folded = dict[str, tuple[Tensor, Tensor]]

# What the network then gives may differ from the file by rounding alone; another graph differs by far more.
_TOLERANCE = 1e-3

_IMAGES = 800


def unfolded(content: BackboneContent, name: str, data: ImageSet, normalisation: Normalisation) -> Network:
    """Build the network of that name, on the CPU, with the function of a backbone file and statistics of the data."""
    network = build(name, len(data.names))
    some = resized(data.spread(_IMAGES).images, content.preprocessing.crop)
    unfold(content, network, normalisation(some))
    return network


@torch.no_grad()
def unfold(content: BackboneContent, network: Network, images: Tensor) -> None:
    """Give a freshly drawn network the function of a backbone file, with statistics of normalised images (n, 3, h, w).

    Args:
        content: of a file that `export` wrote for such a network.
        network: takes the weights; every convolution of it must be followed by its batch normalisation.
        images: some hundreds of those that it is to learn from, at the file's own size.

    """
    folded = _convolutions(content.onnx)
    convolutions = {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.Conv2d)}
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    same = {name: tuple(layer.weight.shape) for name, layer in convolutions.items()} == {
        name: tuple(weight.shape) for name, (weight, _) in folded.items()
    }
    if not same or len(norms) != len(convolutions) or content.base_weights is None:
        raise UserError(f"{content.name} is another network, or one without batch normalisation: start from its run")
    scaled: list[tuple[Tensor, Tensor]] = []  # s and b' of the convolution that was computed last

    def remember(name: str, layer: nn.Conv2d) -> torch.utils.hooks.RemovableHandle:
        weight, bias = folded[name]
        length = weight.flatten(1).norm(dim=1)
        scale = layer.weight.flatten(1).norm(dim=1).mean() / torch.where(length > 0, length, 1)
        layer.weight.copy_(weight * scale[:, None, None, None])
        if layer.bias is not None:
            layer.bias.zero_()
        return layer.register_forward_hook(lambda *_: scaled.append((scale, bias)))

    def settle(norm: nn.BatchNorm2d, inputs: tuple[Tensor, ...]) -> None:
        scale, bias = scaled.pop()
        variance, mean = torch.var_mean(inputs[0], dim=(0, 2, 3))
        norm.running_mean, norm.running_var = mean, variance
        norm.weight.copy_((variance + norm.eps).sqrt() / scale)
        norm.bias.copy_(bias + mean / scale)

    hooks = [remember(name, layer) for name, layer in convolutions.items()]
    hooks += [norm.register_forward_pre_hook(settle) for norm in norms]
    network.last.weight.copy_(torch.from_numpy(content.base_weights))
    network.eval()
    found = network.features(images).numpy()
    for hook in hooks:
        hook.remove()
    expected = onnx_features(content.onnx.tobytes(), images)
    if not np.allclose(found, expected, rtol=0, atol=_TOLERANCE * float(np.abs(expected).max())):
        raise UserError(f"{content.name} computes something else than the network to be trained: start from its run")


def _convolutions(graph: NDArray[np.uint8]) -> Folded:
    """Give weight and bias of each convolution of an ONNX graph, under the name of its layer in the torch network."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_model_from_string(graph.tobytes())
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:  # float16 weights stand behind casts
        if node.op_type == "Cast" and node.input[0] in arrays:
            arrays[node.output[0]] = arrays[node.input[0]]
    found: Folded = {}
    for node in model.graph.node:
        if node.op_type == "Conv" and len(node.input) == 3 and all(name in arrays for name in node.input[1:]):
            weight, bias = (torch.from_numpy(arrays[name].astype(np.float32)) for name in node.input[1:])
            found[_layer(node.name)] = (weight, bias)
    return found


def _layer(node: str) -> str:
    """Give the name of the torch layer that a node of its ONNX graph stands for.

    >>> _layer("/network/groups.1.0/shortcut/shortcut.0/Conv")
    'groups.1.0.shortcut.0'
    """
    path: list[str] = []
    for part in node.removeprefix("/network/").split("/")[:-1]:
        # A layer of a sequence repeats the name of the sequence.
        if path and part.startswith(f"{path[-1]}."):
            path.pop()
        path.append(part)
    return ".".join(path)
