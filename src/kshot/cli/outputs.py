"""Where results go: found out before the work that a place cannot be written to, or holds what would be lost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from kshot.errors import UserError
from kshot.files import behind_links, kind_of

__all__ = ["check_folder_writable", "check_writable"]

Kind = Literal["photos", "features", "onnx"]
_KINDS = {"photos": "a model of kshot", "features": "a feature file of kshot", "onnx": "an ONNX file of kshot"}


def check_writable(
    path: Path, option: str = "-o", *, kind: Kind | None = None, reads: Iterable[str | Path | None] = ()
) -> None:
    """Refuse a file that cannot be written, or that holds what would be lost.

    Arguments:
        path: what is to be written.
        option: what it was given by.
        kind: a file that is there is replaced only if it is of the kind that is to be written, or empty.
        reads: what the command itself reads.
    """
    if path.is_dir():
        raise UserError(f"{option} {path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {path} is no ordinary file and cannot be replaced: give the name of a file")
    for read in reads:
        if read is not None and path.exists() and Path(read).exists() and path.samefile(read):
            raise UserError(f"{option} {path} is the file that is read: give the result another name")
    parent = behind_links(path).parent
    if not parent.is_dir():
        raise UserError(f"{option} {path} cannot be written: there is no folder {path.parent}")
    other = f"Choose another place by {option}" if option.startswith("-") else "Copy it to a folder of your own"
    if not os.access(parent, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {parent} is read-only for you. {other}")
    if not path.exists():
        return
    if not os.access(path, os.W_OK):
        raise UserError(
            f"{path} cannot be replaced: it is write-protected. Make it writable, or work with another file"
        )
    if kind is not None and path.stat().st_size and not _is(path, kind):
        raise UserError(
            f"{option} {path} is there already and is not {_KINDS[kind]}, so it is not replaced: give another name, or "
            "remove it first"
        )


def check_folder_writable(path: Path, option: str) -> None:
    """Refuse a folder, which need not be there yet, that cannot be written to."""
    there = behind_links(path)
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UserError(f"{option} {path} cannot be a folder, because {there} is a file: give another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{option} {path} cannot be written: the folder {there} is read-only for you. Give another one")


def _is(path: Path, kind: Kind) -> bool:
    if kind == "onnx":
        from kshot.photos.export import is_exported

        return is_exported(path)
    return kind_of(path) == kind
