"""Features of very many pictures, in shards: what is done is kept after a break, and other machines can help."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kshot import files
from kshot.backbones.backbone import Backbone
from kshot.backbones.stream import Picture
from kshot.errors import FileFormatError

__all__ = ["Extracted", "extract_in_shards", "remove_shards"]

KIND = "feature-shard"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Extracted:
    """Features (m, p), the rows (m,) of the pictures they belong to, and the rows left out, each with its reason."""

    features: NDArray[np.float32]
    rows: NDArray[np.int64]
    skipped: tuple[tuple[int, str], ...]


def extract_in_shards(
    backbone: Backbone,
    pictures: Sequence[Path] | NDArray[np.uint8],
    ids: Sequence[str],
    *,
    folder: Path,
    shard_size: int = 1024,
    batch_size: int = 16,
    jobs: int | None = None,
    on_error: Literal["refuse", "skip"] = "skip",
    report: Callable[[int], None] = lambda done: None,
) -> Extracted:
    """Compute features shard by shard through joblib, so that `joblib.parallel_config` may spread them over machines.

    Args:
        backbone: the network; it travels to the workers as a whole.
        pictures: files that every worker can read, or an array (n, h, w, 3).
        ids: a name for each picture that does not depend on where the files lie.
        folder: where finished shards are kept; those found there for the same pictures and network are not repeated.
        shard_size: pictures per shard, one task of joblib's.
        batch_size: pictures that the network takes at once.
        jobs: processes on this machine; None leaves it to `joblib.parallel_config`, and else takes one.
        on_error: skip damaged photographs and name them, or stop at the first.
        report: called with the number of pictures in each shard when it is done.

    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = [slice(start, start + shard_size) for start in range(0, len(ids), shard_size)]
    keys = [_key(backbone, pictures[part], ids[part], batch_size=batch_size, on_error=on_error) for part in parts]
    shards = [folder / f"shard-{number:06d}.safetensors" for number in range(len(parts))]
    finished = [_is_finished(path, key) for path, key in zip(shards, keys, strict=True)]
    for part, done in zip(parts, finished, strict=True):
        if done:
            report(len(ids[part]))
    waiting = [number for number, done in enumerate(finished) if not done]
    tasks = [(number, backbone, pictures[parts[number]], batch_size, on_error) for number in waiting]
    for number, found in _in_parallel(tasks, jobs=jobs):
        arrays: files.Arrays = {"features": found.features, "rows": found.rows}
        metadata = {"key": keys[number], "skipped": found.skipped}
        files.write(shards[number], arrays, kind=KIND, version=VERSION, metadata=metadata)
        report(len(ids[parts[number]]))
    return _collect(backbone, shards, parts)


def remove_shards(*folders: Path) -> None:
    """Remove the shards in folders, inner ones first, and each folder that then is empty: what else is there stays."""
    for folder in folders:
        for shard in folder.glob("shard-*.safetensors"):
            shard.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _in_parallel(tasks: list[tuple[Any, ...]], *, jobs: int | None) -> Iterator[tuple[int, Extracted]]:
    import joblib

    try:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    except ValueError:  # Ray's backend cannot hand over results one by one: a few at a time, then
        parallel = joblib.Parallel(n_jobs=jobs)
        width = 4 * joblib.effective_n_jobs(jobs if jobs is not None else -1)
        for start in range(0, len(tasks), width):
            yield from parallel(joblib.delayed(_compute)(*task) for task in tasks[start : start + width])
    else:
        yield from parallel(joblib.delayed(_compute)(*task) for task in tasks)


def _compute(
    number: int,
    backbone: Backbone,
    pictures: Sequence[Picture] | NDArray[np.uint8],
    batch_size: int,
    on_error: Literal["refuse", "skip"],
) -> tuple[int, Extracted]:
    features, rows, skipped = [np.empty((0, backbone.dim), np.float32)], [np.empty(0, np.int64)], []
    for batch in backbone.stream(pictures, batch_size=batch_size, on_error=on_error):
        if len(batch.rows):
            features.append(batch.features)
            rows.append(batch.rows)
        skipped += [(row, error.reason) for row, error in batch.skipped]
    return number, Extracted(np.concatenate(features), np.concatenate(rows), tuple(skipped))


def _key(backbone: Backbone, pictures: Any, ids: Sequence[str], *, batch_size: int, on_error: str) -> str:
    """Say what a shard's content depends on; with another batch size the last digits differ."""
    digest = hashlib.sha256(f"{VERSION} {backbone.hash} {backbone.device} {batch_size} {on_error}".encode())
    digest.update(json.dumps(list(ids)).encode())
    if isinstance(pictures, np.ndarray):
        digest.update(np.ascontiguousarray(pictures).tobytes())
    else:
        for path in pictures:
            try:
                status = path.stat()
                digest.update(f"{status.st_size} {status.st_mtime_ns};".encode())
            except OSError:
                digest.update(b"gone;")
    return digest.hexdigest()


def _is_finished(path: Path, key: str) -> bool:
    try:
        _, metadata = files.read(path, kind=KIND, version=VERSION)
    except (FileNotFoundError, FileFormatError):
        return False
    return bool(metadata.get("key") == key)


def _collect(backbone: Backbone, shards: list[Path], parts: list[slice]) -> Extracted:
    features, rows, skipped = [np.empty((0, backbone.dim), np.float32)], [np.empty(0, np.int64)], []
    for path, part in zip(shards, parts, strict=True):
        arrays, metadata = files.read(path, kind=KIND, version=VERSION)
        features.append(arrays["features"])
        rows.append(arrays["rows"] + part.start)
        skipped += [(row + part.start, str(reason)) for row, reason in metadata["skipped"]]
    return Extracted(np.concatenate(features), np.concatenate(rows), tuple(skipped))
