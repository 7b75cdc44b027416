"""A folder with a subfolder of images per class: what is in it, what is passed over and why, and its pixels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError

__all__ = ["FolderListing", "Skipped", "load", "scan"]

EXTENSIONS = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".avif", ".heic", ".heif",
    ".ppm", ".pgm", ".pbm", ".jp2",
}  # fmt: skip


@dataclass(frozen=True)
class Skipped:
    """A file that was passed over, and why, in a few words."""

    path: Path
    reason: str


@dataclass(frozen=True)
class FolderListing:
    """Image files with their labels (n,) in 0..C-1, the class names, and what was passed over."""

    paths: tuple[Path, ...]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def scan(folder: str | Path) -> FolderListing:
    """List the images of each class: a class is a subfolder, its images are at any depth inside, links are followed.

    Files that do not look like images by name, files beside the class folders, and classes without images are passed
    over and named; hidden files (such as `.DS_Store`) are passed over silently. Order: by name, so that the same
    folder always gives the same listing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    paths: list[Path] = []
    labels: list[int] = []
    names: list[str] = []
    skipped: list[Skipped] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            skipped.append(Skipped(entry, "not in a class folder" if _looks_like_image(entry) else "not an image"))
            continue
        images = []
        for path in _walk(entry):
            if _looks_like_image(path):
                images.append(path)
            else:
                skipped.append(Skipped(path, "not an image"))
        if not images:
            skipped.append(Skipped(entry, "no images in it"))
            continue
        paths += images
        labels += [len(names)] * len(images)
        names.append(entry.name)
    if not names:
        raise UserError(
            f"{folder} has no subfolder with images in it: put the images of each class in a folder of its own"
        )
    return FolderListing(tuple(paths), np.asarray(labels, np.int64), tuple(names), tuple(skipped))


def load(folder: str | Path, *, size: int, on_error: str = "skip") -> tuple[ImageSet, tuple[Skipped, ...]]:
    """Read every image of `scan(folder)` into memory, the shorter side scaled to `size` and the centre cut out (D.1).

    A damaged file is named among the skipped; with `on_error="refuse"` the first one raises instead.
    """
    from kshot.datasets.photographs import PhotographError, read_photograph, shorter_side_crop

    listing = scan(folder)
    images = np.empty((len(listing.paths), size, size, 3), np.uint8)
    good = np.ones(len(listing.paths), bool)
    skipped = list(listing.skipped)
    for row, path in enumerate(listing.paths):
        try:
            images[row] = np.asarray(shorter_side_crop(read_photograph(path), size))
        except PhotographError as error:
            if on_error == "refuse":
                raise
            good[row] = False
            skipped.append(Skipped(path, error.reason))
    ids = tuple(path.relative_to(folder).as_posix() for path in listing.paths)
    everything = ImageSet(images, listing.labels, listing.names, ids)
    kept = everything if good.all() else everything.rows(good)
    return kept.select([name for label, name in enumerate(kept.names) if (kept.labels == label).any()]), tuple(skipped)


def _looks_like_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def _walk(folder: Path) -> Iterator[Path]:
    """Give the files below `folder` in order, following links but entering no folder twice (links may form loops)."""
    seen: set[tuple[int, int]] = set()

    def enter(directory: Path) -> Iterator[Path]:
        status = directory.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        for entry in sorted(os.scandir(directory), key=lambda found: found.name):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from enter(Path(entry.path))
            else:
                yield Path(entry.path)

    return enter(folder)
