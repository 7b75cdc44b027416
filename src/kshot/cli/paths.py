"""Files and folders on the command line: what is there, and what may have been meant."""

from __future__ import annotations

import difflib
import glob
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from kshot.errors import UserError
from kshot.files import behind_links, kind_of

__all__ = ["check_writable", "default_model", "existing_file", "existing_folder", "photographs"]


Kind = Literal["photos", "features", "onnx"]
_KINDS = {"photos": "a model of kshot", "features": "a feature file of kshot", "onnx": "an ONNX file of kshot"}


def existing_folder(given: str, what: str = "folder") -> Path:
    """Give the folder, or say that it is not there and which one may have been meant."""
    path = Path(given)
    if path.is_dir():
        return path
    if path.exists():
        raise UserError(
            f"{given} is a file, and a {what} is needed: one with a subfolder of photographs for each class"
        )
    raise UserError(f"there is no folder {_slash(given)}{_guess(path, folders=True)}")


def existing_file(given: str) -> Path:
    """Give the file, or say that it is not there and which one may have been meant."""
    path = Path(given)
    if path.is_dir():
        raise UserError(f"{given} is a folder, and the file of a model is needed (kshot learn writes one)")
    if not path.exists():
        raise UserError(f"there is no file {given}{_guess(path, folders=False)}")
    return path


def default_model(folder: Path) -> Path:
    """Give the file beside a folder that its model is written to by default: FOLDER.kshot."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.parent / f"{named.name or 'model'}.kshot"


def check_writable(
    path: Path, option: str = "-o", *, kind: Kind | None = None, reads: Iterable[str | Path | None] = ()
) -> None:
    """Find out before the work, not after it, that a file cannot be written, or holds what would be lost.

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


def _is(path: Path, kind: Kind) -> bool:
    if kind == "onnx":
        from kshot.photos.export import is_exported

        return is_exported(path)
    return kind_of(path) == kind


def photographs(given: Iterable[str]) -> list[str]:
    """Give the photographs that arguments stand for: files, folders, patterns, or `-` for a list on standard input."""
    found: list[str] = []
    for argument in given:
        if argument == "-":
            lines = sys.stdin.buffer.read().split(b"\n")
            found += _expanded(os.fsdecode(line.removesuffix(b"\r")) for line in lines if line.strip())
        else:
            found += _expanded([argument])
    if not found:
        raise UserError("standard input names no photographs: give their paths, one a line")
    return found


def _expanded(given: Iterable[str]) -> list[str]:
    from kshot.datasets.folders import images_below

    found: list[str] = []
    for name in given:
        if Path(name).is_dir():
            images = [str(path) for path in images_below(Path(name))]
            if not images:
                raise UserError(f"there are no photographs in {_slash(name)}")
            found += images
        elif not Path(name).exists() and glob.has_magic(name):
            # A pattern that the shell left alone: Windows, or quotes.
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (absolute patterns too)
            if not matches:
                raise UserError(f"no file fits {name}")
            found += _expanded(matches)
        else:
            found.append(name)
    return found


def _slash(name: str) -> str:
    return name if name.endswith(("/", os.sep)) else f"{name}/"


def _guess(path: Path, *, folders: bool) -> str:
    parent = path.parent
    if not parent.is_dir():
        return ""
    try:
        names = [entry.name for entry in parent.iterdir() if entry.is_dir() == folders]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=1)
    if not close:
        return ""
    guess = str(parent / close[0]) if str(parent) != "." else close[0]
    return f". Did you mean {_slash(guess) if folders else guess}?"
