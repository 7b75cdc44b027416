"""Where a data set is: by its name in the folder of image data ($KSHOT_DATA), or a folder of one's own."""

from __future__ import annotations

import os
from pathlib import Path

from kshot.datasets import cifar100, miniimagenet
from kshot.errors import UserError

__all__ = ["DATA_SETS", "data_set", "locate"]

_FINDERS = {"cifar100": cifar100.find, "miniimagenet": miniimagenet.find}
DATA_SETS = tuple(_FINDERS)


def data_set(folder: Path) -> str | None:
    """Give the name of the data set that a folder holds, seen from what is in it; None for any other folder."""
    return next((name for name, find in _FINDERS.items() if find(folder) is not None), None)


def locate(source: str | Path, *, data: str | Path | None = None) -> Path:
    """Give the folder of `source`: a data set's name, looked for in `data` or else $KSHOT_DATA, or a folder itself.

    Of a name the folder that holds the very data set is given, `cifar-100-python` or `mini-imagenet`.
    """
    folder = Path(source)
    finder = _FINDERS.get(str(source))
    if folder.is_dir() or finder is None:
        return folder
    root = data or os.environ.get("KSHOT_DATA")
    if not root:
        raise UserError(f"set KSHOT_DATA to the folder that holds {source}, or give that folder itself")
    found = finder(Path(root))
    if found is None:
        raise FileNotFoundError(f"there is no {source} in the folder {root}")
    return found
