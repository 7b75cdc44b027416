"""Which classes are base classes and which are new: the splits of each data set, and classes left out for choosing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from kshot.datasets import cifar100, folders, miniimagenet
from kshot.datasets.cifar100_classes import BASE_CLASSES, FINE_CLASSES, HELD_OUT_CLASSES
from kshot.datasets.folders import Skipped
from kshot.datasets.imageset import ImageSet
from kshot.datasets.locate import data_set
from kshot.errors import UserError

__all__ = ["CIFAR_FS_TEST", "CIFAR_FS_VALIDATION", "Split", "open_data"]

# CIFAR-FS (Bertinetto et al. 2019): 64 classes to train on (all others), 16 to validate, 20 to test.
CIFAR_FS_VALIDATION = (
    "beaver", "beetle", "butterfly", "camel", "cattle", "crab", "crocodile", "flatfish", "lamp", "maple_tree",
    "motorcycle", "otter", "sea", "shark", "television", "tractor",
)  # fmt: skip
CIFAR_FS_TEST = (
    "baby", "bed", "bicycle", "chimpanzee", "fox", "leopard", "man", "pickup_truck", "plain", "poppy", "rocket",
    "rose", "snail", "sweet_pepper", "table", "telephone", "wardrobe", "whale", "woman", "worm",
)  # fmt: skip


@dataclass(frozen=True)
class Split:
    """A data set divided for the four phases.

    Args:
        base: training images of the base classes (phase 1).
        base_test: other images of the base classes, or None.
        left_out: images of base classes that were left out of training, to choose and calibrate on, or None.
        new: images of the new classes, all of them (phases 3 and 4), or None.
        source: name of the data set and of the split, for the record.
        skipped: files that were passed over, with the reason.

    """

    base: ImageSet
    base_test: ImageSet | None
    left_out: ImageSet | None
    new: ImageSet | None
    source: str
    skipped: tuple[Skipped, ...] = ()


def open_data(
    data: str | Path,
    *,
    split: Literal["paper", "cifar-fs"] = "paper",
    leave_out: int = 0,
    images_per_class: int | None = None,
    size: int = 84,
    on_error: Literal["skip", "refuse"] = "skip",
) -> Split:
    """Read CIFAR-100, miniImageNet or a folder of class folders, whichever is at `data`, and divide it.

    Args:
        data: the folder.
        split: for CIFAR-100, the paper's 80 base and 20 new classes (D.2), or CIFAR-FS' 64, 16 and 20.
        leave_out: take that many base classes out of training: evenly spaced ones of CIFAR-100's or a folder's, and
            of miniImageNet the 16 validation classes (the only number allowed there).
        images_per_class: train on the first so many images of each base class and keep the rest as `base_test`.
        size: side to which a folder's photographs are scaled.
        on_error: what to do with a damaged file of a folder.

    """
    root = Path(data)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}")
    known = data_set(root)
    if known == "cifar100":
        whole = _cifar100(root, split, leave_out)
    elif known == "miniimagenet":
        whole = _miniimagenet(root, leave_out, on_error)
    else:
        images, skipped = folders.load(root, size=size, on_error=on_error)
        base, left_out = _leave_out(images, leave_out)
        whole = Split(base, None, left_out, None, f"folder {root.name}", skipped)
    if images_per_class is None:
        return whole
    base, aside = whole.base.first_per_class(images_per_class)
    if whole.base_test is not None:
        aside = aside + whole.base_test
    return replace(whole, base=base, base_test=aside if len(aside) else None)


def _cifar100(root: Path, split: str, leave_out: int) -> Split:
    train, test = cifar100.load(root)
    if split == "paper":
        base_names = [FINE_CLASSES[index] for index in BASE_CLASSES]
        new_names: Sequence[str] = [FINE_CLASSES[index] for index in HELD_OUT_CLASSES]
    else:
        base_names = [name for name in FINE_CLASSES if name not in CIFAR_FS_TEST]
        new_names = CIFAR_FS_TEST
    if split == "cifar-fs" and leave_out in (0, 16):
        out = list(CIFAR_FS_VALIDATION)  # fixed by that split
    else:
        out = _evenly(base_names, leave_out)
    kept = [name for name in base_names if name not in out]
    left_out = train.select(out) + test.select(out) if out else None
    new = train.select(new_names) + test.select(new_names)
    return Split(train.select(kept), test.select(kept), left_out, new, f"cifar100 {split}")


def _miniimagenet(root: Path, leave_out: int, on_error: str) -> Split:
    if leave_out not in (0, 16):
        raise UserError(f"miniImageNet has 16 validation classes to leave out, not {leave_out}: use 16 or 0")
    base, skipped = miniimagenet.load(root, ("train",) if leave_out else ("train", "val"), on_error=on_error)
    new, skipped_new = miniimagenet.load(root, ("test",), on_error=on_error)
    if not leave_out:
        return Split(base, None, None, new, "miniimagenet", skipped + skipped_new)
    left_out, skipped_out = miniimagenet.load(root, ("val",), on_error=on_error)
    return Split(base, None, left_out, new, "miniimagenet", skipped + skipped_out + skipped_new)


def _leave_out(images: ImageSet, count: int) -> tuple[ImageSet, ImageSet | None]:
    out = _evenly(images.names, count)
    kept = [name for name in images.names if name not in out]
    return (images.select(kept), images.select(out)) if out else (images, None)


def _evenly(names: Sequence[str], count: int) -> list[str]:
    """Choose `count` of the names, evenly spaced: no seed to remember, and every superclass has its share."""
    if not 0 <= count < len(names):
        raise UserError(f"{count} classes cannot be left out of {len(names)}")
    rows = np.floor((np.arange(count) + 0.5) * len(names) / max(count, 1)).astype(int)
    return [names[row] for row in rows]
