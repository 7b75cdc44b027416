"""The VGG-style networks of Table 6: ELU, dropout, no batch normalisation, a last layer without bias."""

from __future__ import annotations

from torch import Tensor, nn

from kshot.training.networks.base import Network

__all__ = ["VGG", "vgg_cifar100", "vgg_miniimagenet"]


class VGG(Network):
    r"""Stack blocks of 2 × (3×3 convolution, ELU) and 2×2 pooling, then two fully connected layers (Table 6).

    Args:
        classes: number of base classes C̃.
        size: side of the input in pixels.
        widths: channels of each block.
        hidden: width of the first fully connected layer.
        features: width of the second, whose output is Φ(u).
        dropout: probability of dropping a unit before each of these two.

    """

    def __init__(
        self, classes: int, *, size: int, widths: tuple[int, ...], hidden: int, features: int, dropout: float = 0.5
    ) -> None:
        super().__init__(classes, size=size, features=features)
        layers: list[nn.Module] = []
        channels, side = 3, size
        for width in widths:
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                nn.ELU(),
                nn.Conv2d(width, width, 3, padding=1),
                nn.ELU(),
                # ceil_mode is TensorFlow's SAME for an even window: 21 → 11 → 6, as in the table.
                nn.MaxPool2d(2, ceil_mode=True),
            ]
            channels, side = width, (side + 1) // 2
        self.convolutions = nn.Sequential(*layers)
        self.dense = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(channels * side * side, hidden),
            nn.ELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, features),
            nn.ELU(),
        )
        self.initialise(mode="fan_in")

    def features(self, images: Tensor) -> Tensor:
        """Map normalised images (n, 3, size, size) to features Φ(u) (n, features)."""
        out: Tensor = self.dense(self.convolutions(images))
        return out

    def regularised(self) -> list[Tensor]:
        """Give the weights under L2: those of the fully connected layers (Appendix D.4), the last one included."""
        return [layer.weight for layer in self.modules() if isinstance(layer, nn.Linear)]


def vgg_cifar100(classes: int) -> VGG:
    """Build the network of Table 6 for 32×32 images, with 128 features."""
    return VGG(classes, size=32, widths=(64, 64, 128, 128), hidden=256, features=128)


def vgg_miniimagenet(classes: int) -> VGG:
    """Build the network of Table 6 for 84×84 images, with 256 features."""
    return VGG(classes, size=84, widths=(32, 64, 128, 128, 128), hidden=512, features=256)
