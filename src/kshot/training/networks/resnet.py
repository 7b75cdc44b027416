"""The ResNet-34 style network of Table 5, with the blocks of tensorpack's ImageNet example that the paper started from.

A block is convolution, batch normalisation, ReLU, convolution, batch normalisation, plus the shortcut, then ReLU. The
second normalisation starts at zero, so that a block starts as the identity. Unlike in ImageNet's ResNet-34 there is no
pooling after the first convolution (42×42 stays 42×42 in the table).
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from kshot.errors import UserError
from kshot.training.networks.base import Network

__all__ = ["ResNet", "SameConv2d", "resnet34_miniimagenet"]


class SameConv2d(nn.Conv2d):
    """Convolve with TensorFlow's SAME padding: output side ⌈input / stride⌉, an odd pixel of padding at the end."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__(channels_in, channels_out, kernel, stride=stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, channels_in, h, w) to (n, channels_out, ⌈h/stride⌉, ⌈w/stride⌉)."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        total = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in images.shape[-2:]]
        (top, bottom), (left, right) = ((pad // 2, pad - pad // 2) for pad in map(int, total))
        if (top, left) == (bottom, right):
            return functional.conv2d(images, self.weight, None, stride, (top, left))
        return functional.conv2d(functional.pad(images, (left, right, top, bottom)), self.weight, None, stride)


class Block(nn.Module):
    """Two 3×3 convolutions bridged by a shortcut, which is projected where the width or the size changes."""

    def __init__(self, channels_in: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = SameConv2d(channels_in, width, 3, stride=stride)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = SameConv2d(width, width, 3)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != width:
            self.shortcut = nn.Sequential(SameConv2d(channels_in, width, 1, stride=stride), nn.BatchNorm2d(width))

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, channels_in, h, w) to (n, width, ⌈h/stride⌉, ⌈w/stride⌉)."""
        out = functional.relu(self.norm1(self.conv1(images)))
        return functional.relu(self.norm2(self.conv2(out)) + self.shortcut(images))


class ResNet(Network):
    """Stack groups of residual blocks and average over the image (Table 5).

    Args:
        classes: number of base classes C̃.
        size: side of the input in pixels it is meant for; any other works too.
        widths: channels of each group; the last is the number of features.
        blocks: blocks in each group; each group but the first begins with stride 2.

    """

    def __init__(self, classes: int, *, size: int, widths: tuple[int, ...], blocks: tuple[int, ...]) -> None:
        super().__init__(classes, size=size, features=widths[-1])
        self.stem = nn.Sequential(SameConv2d(3, widths[0], 5, stride=2), nn.BatchNorm2d(widths[0]), nn.ReLU())
        groups: list[nn.Sequential] = []
        channels = widths[0]
        for number, (width, count) in enumerate(zip(widths, blocks, strict=True)):
            group = []
            for index in range(count):
                group.append(Block(channels, width, stride=2 if number and not index else 1))
                channels = width
            groups.append(nn.Sequential(*group))
        self.groups = nn.ModuleList(groups)
        self.blocks = self.active = blocks
        self.initialise(mode="fan_out")
        for block in self.modules():
            if isinstance(block, Block):
                nn.init.zeros_(block.norm2.weight)

    def features(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, h, w) to features Φ(u) (n, p), the mean over the last group's positions."""
        out: Tensor = self.stem(images)
        for group, active in zip(self.groups, self.active, strict=True):
            out = cast(nn.Sequential, group)[:active](out)
        return out.mean(dim=(2, 3))

    def grow(self, depth: float) -> None:
        """Let the first ⌊depth · blocks⌋ blocks of each group take part, at least one.

        A block that has not been trained is the identity (its last normalisation starts at zero, and what comes in is
        not negative), so leaving it out changes nothing but the time: the function is the same before and after
        growing. Early epochs at a quarter of the depth cost a quarter (Chang et al. 2018, "Multi-level residual
        networks from dynamical systems view").
        """
        if not 0 < depth <= 1:
            raise UserError(f"a phase's depth must be above 0 and at most 1, not {depth:g}")
        self.active = tuple(max(1, int(depth * blocks)) for blocks in self.blocks)

    def regularised(self) -> list[Tensor]:
        """Give the weights under weight decay: all convolutions and the last layer, not the batch normalisation."""
        return [layer.weight for layer in self.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]


def resnet34_miniimagenet(classes: int) -> ResNet:
    """Build the network of Table 5 for 84×84 images, with 256 features."""
    return ResNet(classes, size=84, widths=(32, 64, 128, 256), blocks=(3, 4, 6, 3))
