"""Files and folders on the command line: what is there, and what may have been meant."""

from __future__ import annotations

import difflib
import glob
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kshot.errors import UserError

__all__ = [
    "Asked",
    "default_model",
    "existing_file",
    "existing_folder",
    "photographs",
    "relative",
]


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


def relative(path: Path, folder: str | Path) -> str:
    """Give a path as it is inside a folder, where it is."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


@dataclass
class Asked:
    """The photographs that arguments stand for, what cannot be used with the reason, and how many files are no images.

    Whatever is wrong with one argument, the others are answered.
    """

    names: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    passed_over: int = 0

    def take(self, name: str, *, patterns: bool) -> None:
        """Take a file, all of a folder, or what fits a pattern that the shell left alone (Windows, or quotes)."""
        path = Path(name)
        try:
            folder, there = path.is_dir(), path.exists()
        except (OSError, ValueError):  # too long, in a folder that is closed, or with a zero byte: reading will say so
            folder, there = False, True
        if folder:
            self._take_folder(path, name)
        elif patterns and not there and glob.has_magic(name):
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (absolute patterns too)
            if not matches:
                self.problems.append((name, "no file fits this pattern"))
            for match in matches:
                self.take(match, patterns=False)
        else:
            self.names.append(name)

    def _take_folder(self, path: Path, name: str) -> None:
        from kshot.datasets.folders import NOT_NAMED, images_below

        images, skipped = images_below(path)
        self.names += [str(image) for image in images]
        problems = [(str(one.path), one.reason) for one in skipped if one.reason != NOT_NAMED]
        self.passed_over += len(skipped) - len(problems)
        self.problems += problems
        if not images and not problems:
            self.problems.append((_slash(name), "there are no photographs in it"))


def photographs(given: Iterable[str]) -> Asked:
    """Find the photographs that arguments stand for: files, folders, patterns, or `-` for a list on standard input."""
    asked = Asked()
    for argument in given:
        if argument == "-":
            for line in sys.stdin.buffer.read().split(b"\n"):
                if line.strip():
                    asked.take(os.fsdecode(line.removesuffix(b"\r")), patterns=False)
        else:
            asked.take(argument, patterns=True)
    if not asked.names and not asked.problems:
        raise UserError("standard input names no photographs: give their paths, one a line")
    return asked


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
