"""Every file kshot writes: safetensors arrays with JSON metadata, a kind and a format number.

No pickle: reading a file from elsewhere runs no code. A write goes to a temporary file beside the target and is then
moved over it, so that a kill or a full disk at any moment leaves the old file whole. What is read, changed and written
back is compared once more before it is replaced, so that no program undoes another's change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kshot.errors import FileFormatError, UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["atomic_path", "behind_links", "content_hash", "kind_of", "read", "unchanged", "write"]

Arrays = dict[str, NDArray[Any]]


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success move it over `path`, on any failure remove it.

    A relative link is followed, so that the file behind a link is replaced and not the link. What is no ordinary file
    (a device, a pipe) is never replaced.
    """
    target = behind_links(path)
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "no ordinary file"
        raise UserError(f"{path} is {what} and cannot be replaced: give the name of a file")
    # Cut: a name may be as long as the system allows, and the temporary one is longer.
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".partial", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp gives 0600; a file that replaces another keeps its mode, a new one follows the umask.
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        else:
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def behind_links(path: Path) -> Path:
    """Give the file or folder that a path leads to."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop is a RuntimeError until Python 3.13
        raise UserError(f"{path} is a link that leads back to itself: give the name of a file") from None


def content_hash(path: Path) -> str | None:
    """Give what the content of a file is known by; None where there is no file (a pipe would be waited for)."""
    if not path.is_file():
        return None
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextlib.contextmanager
def unchanged(path: Path, content: str | None) -> Iterator[None]:
    """Let `path` be replaced inside, one program after the other, if its content is still that of `content_hash`.

    The folder is locked, not the file, because the file is another one after each replacement. Where a system has no
    such lock (Windows, some network disks), the comparison alone leaves a gap of milliseconds.
    """
    with _locked(behind_links(path).parent):
        if content_hash(path) != content:
            raise UserError(f"{path} was changed by another program meanwhile: run the command again")
        yield


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                handle = os.open(folder, os.O_RDONLY)
                held.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write(
    path: str | Path, arrays: Mapping[str, NDArray[Any]], *, kind: str, version: int, metadata: Mapping[str, Any]
) -> None:
    """Write `arrays` and JSON-able `metadata` to `path`, atomically.

    `kind` says what the file is ("features", "prior", ...) and `version` is the format's number, raised whenever an
    older kshot could not read the file any more.
    """
    from safetensors.numpy import save

    from kshot import __version__

    header = {"kind": kind, "format": version, "kshot": __version__, **metadata}
    content = save(
        {name: np.asarray(array, order="C") for name, array in arrays.items()},
        metadata={"kshot": json.dumps(header)},  # in ASCII: a file name may hold bytes that are no UTF-8
    )
    with atomic_path(Path(path)) as temporary:
        temporary.write_bytes(content)


def read(path: str | Path, *, kind: str, version: int) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write` wrote: the arrays and the metadata.

    Raises `FileNotFoundError` for a missing file and `FileFormatError` for one that is damaged, of another kind, or of
    a newer format than `version`.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb"):  # safe_open says of a file that may not be read that there is none
        pass
    try:
        with safe_open(str(path), framework="numpy") as opened:
            metadata = opened.metadata() or {}
            header = _header(path, metadata, kind=kind, version=version)
            # .copy() because safe_open's arrays are views of a mapping that ends with this block.
            arrays = {name: np.array(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
    # The last two for kinds of numbers that NumPy has not, such as BF16 and F8_E4M3.
    except (SafetensorError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path} is not a kshot file, or it is damaged ({error})") from None
    return arrays, header


def kind_of(path: str | Path) -> str | None:
    """Give the kind of a file that `write` wrote, of whatever format; None for any other file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as opened:
            return str(json.loads((opened.metadata() or {})["kshot"])["kind"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _header(path: Path, metadata: Mapping[str, str], *, kind: str, version: int) -> dict[str, Any]:
    try:
        header = json.loads(metadata["kshot"])
        found_kind, found_version, writer = header["kind"], int(header["format"]), str(header["kshot"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise FileFormatError(f"{path} was not written by kshot: it has no kshot metadata") from None
    if found_kind != kind:
        raise FileFormatError(f"{path} is a kshot {found_kind} file, and a {kind} file is needed here")
    if found_version > version:
        from kshot import __version__

        raise FileFormatError(
            f"{path} was written by kshot {writer} (format {found_version}); this is {__version__} (format {version}). "
            "Upgrade: pip install -U kshot"
        )
    return dict(header)
