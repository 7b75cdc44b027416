"""A folder with a subfolder of images per class: what is in it, what is passed over and why, and its pixels."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError

__all__ = ["NOT_NAMED", "FolderListing", "Skipped", "images_below", "load", "scan"]

EXTENSIONS = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".avif", ".heic", ".heif",
    ".ppm", ".pgm", ".pbm", ".jp2",
}  # fmt: skip

NOT_NAMED = "not named as an image"
"""Why a file is passed over whose suffix is none of these; its content is not looked at."""


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
            skipped.append(Skipped(entry, "not in a class folder" if _looks_like_image(entry) else NOT_NAMED))
            continue
        images = list(_images(entry, skipped))
        if not images:
            skipped.append(Skipped(entry, "no images in it"))
            continue
        name = _class_name(entry.name)
        if name not in names:
            names.append(name)
        paths += images
        labels += [names.index(name)] * len(images)
    if not names:
        raise UserError(
            f"{folder} has no subfolder with images in it: put the images of each class in a folder of its own"
        )
    return FolderListing(tuple(paths), np.asarray(labels, np.int64), tuple(names), tuple(skipped))


def _class_name(folder: str) -> str:
    r"""Give the class of a folder's name in one spelling: é is one sign, whether the disk writes one or two.

    Bytes that are no UTF-8 become visible as they are written in Python, because no file of ours could hold them.

    >>> _class_name("caf\udce9"), _class_name("cafe\u0301") == "caf\u00e9"
    ('caf\\xe9', True)
    """
    text = os.fsencode(folder).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", text)


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


def images_below(folder: Path) -> tuple[list[Path], list[Skipped]]:
    """Give the files at any depth that look like images by name, in order, and what else is there."""
    skipped: list[Skipped] = []
    return list(_images(folder, skipped)), skipped


def _looks_like_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def _images(folder: Path, skipped: list[Skipped]) -> Iterator[Path]:
    """Give the image files of one folder; whatever else is there joins the skipped, with its reason."""
    for path, reason in _walk(folder):
        if reason or not _looks_like_image(path):
            skipped.append(Skipped(path, reason or NOT_NAMED))
        else:
            yield path


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """Give the files below `folder` in order, each with the reason why it cannot be used, or an empty one.

    Links are followed, and no folder is entered twice: links may form loops.
    """
    seen: set[tuple[int, int]] = set()
    waiting: list[Path] = [folder]  # not by recursion: folders may lie deeper than Python calls
    while waiting:
        path = waiting.pop()
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    inside = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
                    waiting += sorted(inside, key=lambda entry: entry.name, reverse=True)
            else:
                # A pipe would be waited for without end.
                yield path, "" if stat.S_ISREG(status.st_mode) else "not a file"
        except OSError as error:
            yield path, "a link to nothing" if path.is_symlink() else f"it cannot be opened ({error.strerror})"
