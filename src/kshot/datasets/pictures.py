"""Pictures to extract features of, not yet read: a data set's new and base classes, or a folder of class folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kshot.datasets import cifar100, folders, miniimagenet
from kshot.datasets.folders import Skipped
from kshot.datasets.imageset import ImageSet
from kshot.datasets.locate import DATA_SETS, locate
from kshot.errors import UserError

__all__ = ["DATA_SETS", "PictureSource", "Pictures", "open_pictures"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Files or an array of images (n, h, w, 3), an id and a label for each, the classes' names and identifiers."""

    items: Sequence[Path] | NDArray[np.uint8]
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    class_ids: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def last_of_classes(self, learned: Mapping[int, str | None], count: int) -> Pictures:
        """Keep the last `count` pictures of some classes: the first are those that a network may have learned from.

        Args:
            learned: label -> id of the last picture of that class that it did learn from, if that is known: those
                before it are left out too. The id may begin a folder above this one's, or below.
            count: at most so many of each.

        """
        rows = np.concatenate([self._after(label, learned[label])[-count:] for label in sorted(learned)])
        items = self.items[rows] if isinstance(self.items, np.ndarray) else [self.items[row] for row in rows]
        ids = tuple(self.ids[row] for row in rows)
        return Pictures(items, ids, self.labels[rows], self.names, self.class_ids, self.skipped)

    def _after(self, label: int, learned: str | None) -> NDArray[np.intp]:
        """Give the rows of a class after the picture `learned`, all where it is not among them."""
        rows = np.flatnonzero(self.labels == label)
        same = (place for place, row in enumerate(rows) if learned and _same_picture(self.ids[row], learned))
        return rows[next(same, -1) + 1 :]


def _same_picture(one: str, other: str) -> bool:
    """Say whether two ids are of one picture, seen from the same folder or from one above it.

    >>> _same_picture("train/n01532829/a.jpg", "n01532829/a.jpg"), _same_picture("train/41207", "test/41207")
    (True, False)
    """
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


@dataclass(frozen=True, eq=False)
class PictureSource:
    """A data set's pictures of new classes, its pictures of base classes or None, and its name for the record."""

    new: Pictures
    base: Pictures | None
    name: str


def open_pictures(source: str | Path, *, data: Path | None = None, split: str = "paper") -> PictureSource:
    """Find a data set by its name in the folder `data` (by default $KSHOT_DATA), or see what is in the folder `source`.

    CIFAR-100: the paper's 20 held-out classes, and the test images of its 80 base classes (D.2), or those of another
    `split` (`open_data`). miniImageNet: its 20 test classes, and as base classes the 64 + 16 others (D.1). A folder of
    class folders: all its classes are new.
    """
    root = locate(source, data=data)
    if cifar100.find(root) is not None:
        return _cifar100(root, split)
    found = miniimagenet.find(root) if root.is_dir() else None
    if found is not None:
        return _miniimagenet(found)
    return PictureSource(_folder(root), None, f"folder {root.resolve().name}")


def _cifar100(root: Path, split: str) -> PictureSource:
    from kshot.datasets.splits import open_data

    found = open_data(root, split=split)  # type: ignore[arg-type]
    assert found.new is not None and found.base_test is not None  # CIFAR-100 has both
    return PictureSource(_images(found.new), _images(found.base_test), found.source)


def _images(images: ImageSet) -> Pictures:
    return Pictures(images.images, images.ids, images.labels, images.names, images.names)


def _miniimagenet(root: Path) -> PictureSource:
    return PictureSource(_wnids(root, ("test",)), _wnids(root, ("train", "val")), "miniimagenet")


def _wnids(root: Path, splits: Sequence[str]) -> Pictures:
    paths: list[Path] = []
    labels: list[NDArray[np.int64]] = []
    wnids: list[str] = []
    skipped: list[Skipped] = []
    for split in splits:
        listing = folders.scan(root / split)
        missing = sorted(set(miniimagenet.classes(split)) - set(listing.names))
        if missing:
            raise UserError(f"{root / split} lacks {len(missing)} of miniImageNet's classes, {missing[0]} among them")
        # Folders that are none of its classes are left alone, as in training.
        names = [name for name in listing.names if name in miniimagenet.classes(split)]
        known = {name: len(wnids) + row for row, name in enumerate(names)}
        own = [row for row, label in enumerate(listing.labels) if listing.names[label] in known]
        paths += [listing.paths[row] for row in own]
        labels.append(np.array([known[listing.names[listing.labels[row]]] for row in own], np.int64))
        wnids += known
        skipped += _inside(root, listing.skipped)
    ids = tuple(path.relative_to(root).as_posix() for path in paths)
    return Pictures(paths, ids, np.concatenate(labels), miniimagenet.names_of(wnids), tuple(wnids), tuple(skipped))


def _folder(root: Path) -> Pictures:
    listing = folders.scan(root)
    ids = tuple(path.relative_to(root).as_posix() for path in listing.paths)
    skipped = tuple(_inside(root, listing.skipped))
    return Pictures(listing.paths, ids, listing.labels, listing.names, listing.names, skipped)


def _inside(root: Path, skipped: Sequence[Skipped]) -> list[Skipped]:
    """Name what was passed over as pictures are named: by the path inside the folder."""
    return [Skipped(one.path.relative_to(root), one.reason) for one in skipped]
