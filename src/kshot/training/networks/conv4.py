"""The four-block convolutional network of the episodic papers (Vinyals et al. 2016, Snell et al. 2017, and since).

A block is a 3×3 convolution of 64 filters, batch normalisation, ReLU and 2×2 max-pooling: 32 px become 2×2×64 = 256
features, 84 px 5×5×64 = 1600. Ravi & Larochelle (2017) take 32 filters. With its last layer it trains by batches as
the paper's own networks do, for a comparison at equal network.
"""

from __future__ import annotations

from torch import Tensor, nn

from kshot.training.networks.base import Network

__all__ = ["Conv4", "conv4_32_cifar100", "conv4_cifar100", "conv4_miniimagenet"]


class Conv4(Network):
    """Stack four blocks of convolution, batch normalisation, ReLU and pooling, and flatten.

    Args:
        classes: number of base classes C̃ of the last layer, which episodic methods do without.
        size: side of the input in pixels.
        width: filters of every block.

    """

    def __init__(self, classes: int, *, size: int, width: int = 64) -> None:
        super().__init__(classes, size=size, features=width * (size // 16) ** 2)
        self.width = width
        self.blocks = nn.Sequential(*(_block(3 if number == 0 else width, width) for number in range(4)), nn.Flatten())
        self.initialise(mode="fan_in")

    def features(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, size, size) to features Φ(u) (n, width · (size / 16)²)."""
        out: Tensor = self.blocks(images)
        return out

    def at(self, size: int) -> Network:
        """Give the network for images of any side from 16 pixels, with as many more or fewer features."""
        return self if size == self.size else Conv4(self.last.out_features, size=size, width=self.width)

    def regularised(self) -> list[Tensor]:
        """Give the weights under weight decay: all convolutions and the last layer, not the batch normalisation."""
        return [layer.weight for layer in self.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]


def conv4_cifar100(classes: int) -> Conv4:
    """Build the network for 32×32 images, with 256 features."""
    return Conv4(classes, size=32)


def conv4_32_cifar100(classes: int) -> Conv4:
    """Build the network for 32×32 images with 32 filters, and 128 features."""
    return Conv4(classes, size=32, width=32)


def conv4_miniimagenet(classes: int) -> Conv4:
    """Build the network for 84×84 images, with 1600 features."""
    return Conv4(classes, size=84)


def _block(channels: int, width: int) -> nn.Sequential:
    # ReLU and max-pooling commute, and after pooling ReLU has a quarter of the work.
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.MaxPool2d(2), nn.ReLU(inplace=True)
    )
