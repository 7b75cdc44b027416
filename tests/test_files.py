"""The file format that everything is stored in: atomic, versioned, and refused in a sentence where it is not ours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from kshot import files
from kshot.errors import UserError

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], np.uint8)}


def write(path: Path, **changes) -> None:
    files.write(path, ARRAYS, **({"kind": "prior", "version": 2, "metadata": {"note": "ä"}} | changes))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "x")
    arrays, metadata = files.read(tmp_path / "x", kind="prior", version=2)
    assert metadata["note"] == "ä"
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and (arrays[name] == array).all()


@pytest.mark.parametrize(
    ("kind", "version", "sentence"),
    [
        ("features", 2, "is a kshot prior file, and a features file is needed"),
        ("prior", 1, "Upgrade: pip install -U kshot"),
    ],
)
def test_another_kind_and_a_newer_format_are_refused(tmp_path: Path, kind: str, version: int, sentence: str) -> None:
    write(tmp_path / "x")
    with pytest.raises(ValueError, match=sentence):
        files.read(tmp_path / "x", kind=kind, version=version)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(ValueError, match="was not written by kshot"):
        files.read(tmp_path / "foreign", kind="prior", version=1)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        files.read(tmp_path / "nothing", kind="prior", version=1)


@given(position=st.floats(0, 1), value=st.integers(0, 255), cut=st.booleans())
@settings(deadline=None, max_examples=60)
def test_damage_anywhere_gives_a_value_error_or_whole_arrays(
    tmp_path_factory, position: float, value: int, cut: bool
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "x"
    write(path)
    content = bytearray(path.read_bytes())
    place = min(int(position * len(content)), len(content) - 1)
    content[place] = value
    path.write_bytes(content[:place] if cut else content)
    try:
        arrays, _ = files.read(path, kind="prior", version=2)
    except ValueError:
        return
    # A changed byte may be part of a name or a number: then the file is whole, if not the same.
    assert sum(array.nbytes for array in arrays.values()) == sum(array.nbytes for array in ARRAYS.values())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path)
    before = path.read_bytes()

    def fail() -> None:
        with files.atomic_path(path) as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    write(tmp_path / "x", metadata={"note": "old"})
    (tmp_path / "link").symlink_to("x")
    write(tmp_path / "link", metadata={"note": "new"})
    assert (tmp_path / "link").is_symlink()
    assert files.read(tmp_path / "x", kind="prior", version=2)[1]["note"] == "new"


def test_changes_by_several_programs_at_once_are_all_kept_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("0")

    def count_up(times: int) -> None:
        while times:
            content = files.content_hash(path)
            number = int(path.read_text())
            # Refused before anything is written, where another was faster.
            with suppress(UserError), files.unchanged(path, content), files.atomic_path(path) as temporary:
                temporary.write_text(str(number + 1))
                times -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, [20] * 4))
    assert path.read_text() == "80" and [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_without_locks_the_comparison_still_finds_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    path = tmp_path / "x"
    content = files.content_hash(path)
    path.write_text("new")
    with pytest.raises(UserError, match="was changed by another program"), files.unchanged(path, content):
        path.write_text("lost")
    assert path.read_text() == "new"
