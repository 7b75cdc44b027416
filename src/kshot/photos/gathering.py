"""From a folder with a subfolder of photographs per class to examples, and what was passed over."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kshot.datasets.folders import Skipped, scan
from kshot.errors import UserError
from kshot.photos.examples import Examples, class_name

if TYPE_CHECKING:
    from kshot.backbones import Backbone

__all__ = ["Gathered", "digest", "gather"]


@dataclass(frozen=True, eq=False)
class Gathered:
    """The examples of a folder, and the files that were passed over, each with the reason."""

    examples: Examples
    skipped: tuple[Skipped, ...]


def gather(folder: str | Path, backbone: Backbone, *, report: Callable[[int, int], None] | None = None) -> Gathered:
    """Read every photograph of a folder of class folders; a damaged one is named, the same one twice counts once.

    Arguments:
        folder: see `kshot.datasets.folders.scan`.
        backbone: what makes the features.
        report: is told how many photographs of how many are done.
    """
    listing = scan(folder)
    classes = [class_name(name) for name in listing.names]
    skipped = list(listing.skipped)
    parts, rows = [], []
    done = 0
    for batch in backbone.stream(listing.paths, on_error="skip"):
        if len(batch.rows):
            parts.append(batch.features)
            rows += batch.rows.tolist()
        skipped += [Skipped(listing.paths[row], error.reason) for row, error in batch.skipped]
        done += len(batch.rows) + len(batch.skipped)
        if report is not None:
            report(done, len(listing.paths))
    if not rows:
        raise UserError(
            f"not one photograph in {folder} can be read: {skipped[0].path.relative_to(folder)} ({skipped[0].reason})"
            + (", ..." if len(skipped) > 1 else "")
        )
    X = np.concatenate(parts)
    odd = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if len(odd):
        raise UserError(
            f"the backbone {backbone.name} gives no finite features for {listing.paths[rows[odd[0]]]}: "
            "is its preprocessing right?"
        )
    paths = [listing.paths[row] for row in rows]
    names = [classes[listing.labels[row]] for row in rows]
    digests = _digests(paths)
    skipped += _repeated(paths, names, digests)
    files = [path.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in paths]
    for name in set(classes) - set(names):
        skipped.append(Skipped(Path(folder) / name, "no photograph in it can be read"))
    return Gathered(Examples.ordered(X, names, files, digests), tuple(skipped))


def digest(path: Path) -> str:
    """Give what a photograph is known by: 128 bits of the SHA-256 of its file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:32]


def _digests(paths: Sequence[Path]) -> list[str]:
    from kshot.backbones.session import available_cores

    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(digest, paths))


def _repeated(paths: Sequence[Path], names: Sequence[str], digests: Sequence[str]) -> list[Skipped]:
    """Name files that hold the same photograph as another one of their class."""
    first: dict[tuple[str, str], Path] = {}
    found = []
    for path, key in zip(paths, zip(names, digests, strict=True), strict=True):
        if key in first:
            found.append(Skipped(path, f"the same photograph as {first[key].name}"))
        first.setdefault(key, path)
    return found
