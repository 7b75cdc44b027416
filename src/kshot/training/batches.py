"""Batches for training: shuffled, augmented, normalised, the same for any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError
from kshot.training.augmentation import Augmentation
from kshot.training.rotation import Rotation

__all__ = ["Batch", "Batches", "Normalisation", "resized"]


@dataclass(frozen=True)
class Normalisation:
    """Subtract each channel's mean and divide by its standard deviation, both on the scale 0..255."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @classmethod
    def of(cls, images: NDArray[np.uint8]) -> Normalisation:
        """Measure the channels of images (n, h, w, 3), exactly, by counting the 256 values."""
        counts = [np.bincount(images[..., channel].ravel(), minlength=256) for channel in range(3)]
        values = np.arange(256)
        means = [float(count @ values / count.sum()) for count in counts]
        variances = [
            float(count @ (values - mean) ** 2 / count.sum()) for count, mean in zip(counts, means, strict=True)
        ]
        stds = [
            max(variance**0.5, 1.0) for variance in variances
        ]  # one grey level at least: an empty channel stays finite
        return cls((means[0], means[1], means[2]), (stds[0], stds[1], stds[2]))

    def __call__(self, images: Tensor) -> Tensor:
        """Map images (n, h, w, 3) on 0..255 to float32 (n, 3, h, w) in channels_last memory, as convolutions want."""
        return ((images.float() - torch.tensor(self.mean)) / torch.tensor(self.std)).permute(0, 3, 1, 2)


def resized(images: NDArray[np.uint8], size: int) -> Tensor:
    """Scale square images (n, h, h, 3) to `size`, with antialiasing, in chunks of bounded memory."""
    whole = torch.from_numpy(images)
    if images.shape[1] == images.shape[2] == size:
        return whole
    out = torch.empty((len(images), size, size, 3), dtype=torch.uint8)
    for start in range(0, len(images), 512):
        chunk = whole[start : start + 512].permute(0, 3, 1, 2).float()
        small = functional.interpolate(chunk, (size, size), mode="bilinear", antialias=True, align_corners=False)
        out[start : start + 512] = small.round_().clamp_(0, 255).permute(0, 2, 3, 1)
    return out


class Batch(NamedTuple):
    """A process's share of one step: images (n, 3, size, size) float32, with what is known of them (n,)."""

    images: Tensor
    labels: Tensor
    rows: Tensor  # their numbers in the data
    turns: Tensor  # the quarter turns that they were turned by


class Batches:
    """Draw the batches of any epoch of a data set; epoch and seed alone decide them.

    Args:
        data: the images.
        size: side of the images that are drawn.
        frame: side to which the images are scaled, where squares of `size` are cut out of them; None for `size` itself.
        batch: images per step over all processes; an incomplete last batch is left out.
        augmentation: the random changes.
        rotation: how many are turned, after that; None for none.
        normalisation: applied last.
        seed: decides order and changes, with the epoch's number.
        rank: which process this is.
        world: how many there are; each takes its share of every batch.

    """

    def __init__(
        self,
        data: ImageSet,
        *,
        size: int,
        batch: int,
        augmentation: Augmentation,
        normalisation: Normalisation,
        seed: int,
        frame: int | None = None,
        rotation: Rotation | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if batch % world:
            raise UserError(
                f"a batch of {batch} cannot be shared equally by {world} processes: choose a multiple of it"
            )
        if len(data) < batch:
            raise UserError(
                f"there are {len(data)} training images, fewer than one batch of {batch}: set a smaller batch"
            )
        self.images, self.labels = resized(data.images, frame or size), torch.from_numpy(data.labels)
        self.window, self.rotation = size if frame else None, rotation
        self.batch, self.augmentation, self.normalisation, self.seed = batch, augmentation, normalisation, seed
        self.share = slice(rank * batch // world, (rank + 1) * batch // world)

    def __len__(self) -> int:
        return len(self.labels) // self.batch

    def epoch(self, number: int) -> Iterator[Batch]:
        """Give the batches of epoch `number`."""
        generator = torch.Generator().manual_seed(self.seed * 100_003 + number)
        order = torch.randperm(len(self.labels), generator=generator)
        for step in range(len(self)):
            rows = order[step * self.batch : (step + 1) * self.batch][self.share]
            draws = self.augmentation.draw(self.batch, generator).rows(self.share.start, self.share.stop)
            changed = self.augmentation(self.images[rows], draws, window=self.window)
            turns = torch.zeros_like(rows)
            if self.rotation is not None:
                turns = self.rotation.draw(self.batch, generator)[self.share]
                changed = self.rotation.turn(changed, turns)
            yield Batch(self.normalisation(changed), self.labels[rows], rows, turns)
