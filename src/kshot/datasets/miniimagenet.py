"""miniImageNet: 64 + 16 + 20 classes of ImageNet with 600 images each at 84 px (Appendix D.1, Tables 2 to 4).

Read from class folders (`train/n01532829/*.jpg`, `val/...`, `test/...`), or built from an ImageNet tree as D.1 says:
600 images a class, the shorter side scaled to 84 px, the centre cut out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from kshot.datasets.folders import Skipped, scan
from kshot.datasets.imageset import ImageSet
from kshot.errors import UserError

__all__ = ["SPLITS", "build", "classes", "find", "load", "names_of"]

SPLITS = ("train", "val", "test")
IMAGES_PER_CLASS, SIDE = 600, 84


@cache
def _table() -> tuple[tuple[str, str, str], ...]:
    text = resources.files("kshot.assets").joinpath("miniimagenet_classes.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple((split, wnid, name) for split, wnid, name in rows)


def classes(split: str) -> tuple[str, ...]:
    """Give the WordNet ids of a split's classes, sorted.

    >>> [len(classes(split)) for split in SPLITS]
    [64, 16, 20]
    """
    return tuple(sorted(wnid for part, wnid, _ in _table() if part == split))


def names_of(wnids: Sequence[str]) -> tuple[str, ...]:
    """Give the first English name of each WordNet id.

    >>> names_of(["n02099601"])
    ('golden retriever',)
    """
    names = {wnid: name.split(",")[0] for _, wnid, name in _table()}
    return tuple(names[wnid] for wnid in wnids)


def find(root: Path) -> Path | None:
    """Give the folder with `train`, `val` and `test` of miniImageNet's classes: `root` or inside it, else None."""
    for folder in (root, root / "mini-imagenet", root / "miniimagenet"):
        if all((folder / split / classes(split)[0]).is_dir() for split in SPLITS):
            return folder
    return None


def load(
    root: str | Path, splits: Sequence[str], *, size: int = SIDE, on_error: str = "refuse"
) -> tuple[ImageSet, tuple[Skipped, ...]]:
    """Read the images of `splits` into memory; class names are English, ids are `split/wnid/file`.

    A damaged file stops the reading with its name, or with `on_error="skip"` is left out and among the skipped.
    """
    from kshot.datasets import folders

    folder = find(Path(root))
    if folder is None:
        raise FileNotFoundError(f"there is no miniImageNet (train, val, test with its classes) in {root}")
    parts: list[tuple[str, ImageSet]] = []
    skipped: list[Skipped] = []
    for split in splits:
        found, passed_over = folders.load(folder / split, size=size, on_error=on_error)
        skipped += passed_over
        missing = sorted(set(classes(split)) - set(found.names))
        if missing:
            raise UserError(f"{folder / split} lacks {len(missing)} of miniImageNet's classes, {missing[0]} among them")
        parts.append((split, found.select(classes(split))))
    wnids = [wnid for split, _ in parts for wnid in classes(split)]
    offsets = np.cumsum([0, *(len(part.names) for _, part in parts)])
    images = ImageSet(
        np.concatenate([part.images for _, part in parts]),
        np.concatenate([part.labels + offset for (_, part), offset in zip(parts, offsets, strict=False)]),
        names_of(wnids),
        tuple(f"{split}/{image}" for split, part in parts for image in part.ids),
    )
    return images, tuple(skipped)


def build(
    imagenet: str | Path, out: str | Path, *, progress: Callable[[str], None] = lambda wnid: None
) -> tuple[Skipped, ...]:
    """Make miniImageNet at `out` from an ImageNet tree with a folder per WordNet id, as D.1 says.

    The first 600 readable images of each class by file name are taken; the damaged files that were passed over are
    returned. (The paper promised its list of files and did not publish it.)
    """
    from kshot.datasets.photographs import PhotographError, read_photograph, shorter_side_crop

    imagenet, out = Path(imagenet), Path(out)
    skipped: list[Skipped] = []
    missing = [wnid for split in SPLITS for wnid in classes(split) if not (imagenet / wnid).is_dir()]
    if missing:
        raise UserError(
            f"{imagenet} lacks {len(missing)} of miniImageNet's classes: there is no folder {missing[0]} in it"
        )
    listing = scan(imagenet)
    for split in SPLITS:
        for wnid in classes(split):
            target = out / split / wnid
            target.mkdir(parents=True, exist_ok=True)
            written = 0
            for path in (listing.paths[row] for row in np.flatnonzero(listing.labels == listing.names.index(wnid))):
                if written == IMAGES_PER_CLASS:
                    break
                try:
                    small = shorter_side_crop(read_photograph(path), SIDE)
                except PhotographError as error:
                    skipped.append(Skipped(path, error.reason))
                    continue
                small.save(target / f"{path.stem}.jpg", quality=95, subsampling=0)
                written += 1
            if written < IMAGES_PER_CLASS:
                raise UserError(
                    f"{imagenet / wnid} has only {written} readable images, and {IMAGES_PER_CLASS} are needed"
                )
            progress(wnid)
    return tuple(skipped)
