"""Images of one size in memory, with labels, class names and where each image came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError

__all__ = ["ImageSet"]


@dataclass(frozen=True)
class ImageSet:
    """Images (n, h, w, 3) uint8, labels (n,) in 0..C-1, C class names, n image ids.

    >>> images = np.zeros((4, 2, 2, 3), np.uint8)
    >>> cats = ImageSet(images, np.array([0, 0, 1, 1]), ("cat", "dog"), ("a", "b", "c", "d"))
    >>> cats.select(["dog"]).ids
    ('c', 'd')
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[3] != 3:
            raise UserError(f"images must be uint8 of shape (n, h, w, 3), not {self.images.dtype} {self.images.shape}")
        if not len(self.images) == len(self.labels) == len(self.ids):
            raise UserError(
                f"images, labels and ids must be equally many: {len(self.images)}, {len(self.labels)}, {len(self.ids)}"
            )
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.names):
            raise UserError(f"labels must lie in 0..{len(self.names) - 1}, one for each of the class names")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def last_ids(self) -> tuple[str, ...]:
        """The id of the last image of each class that has any.

        >>> images = np.zeros((4, 2, 2, 3), np.uint8)
        >>> ImageSet(images, np.array([0, 1, 0, 1]), ("cat", "dog"), ("a", "b", "c", "d")).last_ids
        ('c', 'd')
        """
        last = dict(zip(self.labels.tolist(), self.ids, strict=True))
        return tuple(last[label] for label in sorted(last))

    def rows(self, index: NDArray[np.bool_] | NDArray[np.int64]) -> ImageSet:
        """Keep the rows of `index`, a mask or an index array, with the same classes."""
        kept = np.arange(len(self))[index]
        return ImageSet(self.images[kept], self.labels[kept], self.names, tuple(self.ids[row] for row in kept))

    def select(self, classes: Sequence[str]) -> ImageSet:
        """Keep the images of `classes`, relabelled 0.. in the order given."""
        unknown = sorted(set(classes) - set(self.names))
        if unknown:
            raise UserError(f"there is no class {unknown[0]!r} in this data set of {len(self.names)} classes")
        new_label = np.full(len(self.names), -1)
        new_label[[self.names.index(name) for name in classes]] = np.arange(len(classes))
        kept = self.rows(new_label[self.labels] >= 0)
        return ImageSet(kept.images, new_label[kept.labels], tuple(classes), kept.ids)

    def first_per_class(self, count: int) -> tuple[ImageSet, ImageSet]:
        """Split into the first `count` images of each class and the rest, each in the present order."""
        mask = np.zeros(len(self), bool)
        for label, name in enumerate(self.names):
            rows = np.flatnonzero(self.labels == label)
            if len(rows) < count:
                raise UserError(f"class {name!r} has {len(rows)} images, fewer than the {count} asked for")
            mask[rows[:count]] = True
        return self.rows(mask), self.rows(~mask)

    def spread(self, count: int) -> ImageSet:
        """Give so many images (or all there are) from all over the set, at equal distances.

        >>> images = np.zeros((4, 2, 2, 3), np.uint8)
        >>> ImageSet(images, np.array([0, 0, 1, 1]), ("cat", "dog"), ("a", "b", "c", "d")).spread(2).ids
        ('a', 'd')
        """
        return self.rows(np.linspace(0, len(self) - 1, min(len(self), count)).astype(np.int64))

    def __add__(self, other: ImageSet) -> ImageSet:
        """Join two sets of the same classes."""
        if self.names != other.names:
            raise UserError("only sets of the same classes, in the same order, can be joined")
        return ImageSet(
            np.concatenate([self.images, other.images]),
            np.concatenate([self.labels, other.labels]),
            self.names,
            self.ids + other.ids,
        )
