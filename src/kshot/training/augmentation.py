"""Random changes of training images (Appendix D.1), vectorised over the batch; never used in phases 3 and 4.

Every random number of an epoch is drawn for the whole global batch from one generator and then sliced, so that two
processes see together exactly what one process with the doubled batch sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Augmentation", "Draws"]

# Principal directions of ImageNet's RGB pixel values and their standard deviations, on the scale 0..1 (Krizhevsky et
# al. 2012, the "lighting" noise).
EIGENVALUES = (0.2175, 0.0188, 0.0045)
EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))
GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Draws:
    """The random numbers of one batch: whether to flip, the shift as a fraction, and the four colour changes."""

    flip: Tensor  # (n,) bool
    shift: Tensor  # (n, 2) in [-1, 1]
    colour: Tensor  # (n, 3) in [-1, 1]: brightness, contrast, saturation
    lighting: Tensor  # (n, 3) standard normal

    def rows(self, start: int, stop: int) -> Draws:
        """Keep the draws of the images start..stop of the batch."""
        return Draws(self.flip[start:stop], self.shift[start:stop], self.colour[start:stop], self.lighting[start:stop])


@dataclass(frozen=True)
class Augmentation:
    """Flip, shift, and change brightness, contrast, saturation and lighting.

    Args:
        flip: mirror each image left to right with probability one half.
        shift: largest shift as a fraction of the side. Pasting 84 px into a 100 px frame and cutting out the centre
            (D.1) is a shift by up to 8 px: 8/84.
        fill: what the shift uncovers, `"zero"` as D.1's frame or `"reflect"`.
        colour: brightness, contrast and saturation each change by a factor of up to 1 ± colour.
        lighting: standard deviation of the noise along ImageNet's principal colours.

    """

    flip: bool = True
    shift: float = 8 / 84
    fill: Literal["zero", "reflect"] = "zero"
    colour: float = 0.3
    lighting: float = 0.1

    def scaled(self, strength: float) -> Augmentation:
        """Give the same changes with shift, colour and lighting `strength` times as large."""
        return replace(
            self, shift=self.shift * strength, colour=self.colour * strength, lighting=self.lighting * strength
        )

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        """Draw the random numbers for `count` images."""
        return Draws(
            flip=torch.rand(count, generator=generator) < 0.5,
            shift=torch.rand(count, 2, generator=generator) * 2 - 1,
            colour=torch.rand(count, 3, generator=generator) * 2 - 1,
            lighting=torch.randn(count, 3, generator=generator),
        )

    def __call__(self, images: Tensor, draws: Draws, *, window: int | None = None) -> Tensor:
        """Change images (n, h, h, 3) uint8 by `draws`; give float32 of the same shape on the scale 0..255.

        With `window`, squares of that side are cut out anywhere within the images, (n, window, window, 3), in place of
        the shift.
        """
        moved = self._move(images, draws, window)
        return self._recolour(moved.float(), draws)

    def _move(self, images: Tensor, draws: Draws, window: int | None) -> Tensor:
        """Flip, and shift or cut out, in one gather: out[n, r, c] = images[n, row(n, r), column(n, c)]."""
        side = images.shape[1]
        if images.shape[2] != side:
            raise ValueError(f"images must be square, not {tuple(images.shape[1:3])}")
        if window is None:
            offset = (draws.shift * (self.shift * side)).round().long()  # (n, 2)
        else:
            offset = ((draws.shift + 1) / 2 * (side - window)).round().long()
        positions = torch.arange(window or side)
        rows = positions + offset[:, :1]
        columns = positions + offset[:, 1:]
        inside = ((rows >= 0) & (rows < side))[:, :, None] & ((columns >= 0) & (columns < side))[:, None, :]
        rows, columns = _reflect(rows, side), _reflect(columns, side)
        if self.flip:
            columns = torch.where(draws.flip[:, None], side - 1 - columns, columns)
        numbers = torch.arange(len(images))[:, None, None]
        moved = images[numbers, rows[:, :, None], columns[:, None, :]]
        return moved if self.fill == "reflect" else moved * inside[..., None]

    def _recolour(self, images: Tensor, draws: Draws) -> Tensor:
        """Change brightness, contrast, saturation and lighting, in this order; the result stays in 0..255."""
        if self.colour:
            brightness, contrast, saturation = (1 + self.colour * draws.colour).T[:, :, None, None, None]
            images = images * brightness
            mean = images.mean(dim=(1, 2, 3), keepdim=True)
            images = mean + (images - mean) * contrast
            grey = (images * torch.tensor(GREY)).sum(dim=-1, keepdim=True)
            images = grey + (images - grey) * saturation
        if self.lighting:
            amount = self.lighting * draws.lighting * torch.tensor(EIGENVALUES) * 255
            images = images + (amount @ torch.tensor(EIGENVECTORS).T)[:, None, None, :]
        return images.clamp_(0, 255) if self.colour or self.lighting else images


def _reflect(positions: Tensor, side: int) -> Tensor:
    """Mirror positions outside 0..side-1 back inside, without repeating the border."""
    if side == 1:
        return torch.zeros_like(positions)
    period = 2 * (side - 1)
    folded = positions.remainder(period)
    return torch.minimum(folded, period - folded)
