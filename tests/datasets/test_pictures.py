"""Pictures to extract features of: which are new, which are of base classes, and what was passed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kshot.datasets.pictures import open_pictures
from kshot.errors import UserError


def test_all_classes_of_a_folder_are_new(tmp_path: Path) -> None:
    for name in ("b/1.png", "a/2.png", "a/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("notes")
    source = open_pictures(tmp_path)
    assert source.base is None and source.name == f"folder {tmp_path.name}"
    assert source.new.ids == ("a/1.png", "a/2.png", "b/1.png") and source.new.names == ("a", "b")
    assert [skipped.path.name for skipped in source.new.skipped] == ["notes.txt"]
    last = source.new.last_of_classes({1: None, 0: None}, 1)
    assert last.ids == ("a/2.png", "b/1.png")
    np.testing.assert_array_equal(last.labels, [0, 1])
    assert [path.name for path in last.items] == ["2.png", "1.png"]  # type: ignore[union-attr]


@pytest.mark.parametrize("learned", ["a/2.png", "train/a/2.png"])
def test_what_a_network_learned_from_is_left_out(learned: str, tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "a/3.png", "b/2.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    pictures = open_pictures(tmp_path).new
    assert pictures.last_of_classes({0: learned, 1: None}, 10).ids == ("a/3.png", "b/2.png")
    # Another class's last picture has no say here, even where the files have the same name.
    assert pictures.last_of_classes({0: "a/3.png", 1: learned}, 10).ids == ("b/2.png",)


def test_a_data_set_must_be_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSHOT_DATA", raising=False)
    with pytest.raises(UserError, match="set KSHOT_DATA to the folder that holds cifar100"):
        open_pictures("cifar100")
    with pytest.raises(FileNotFoundError, match="there is no miniimagenet in the folder"):
        open_pictures("miniimagenet", data=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        open_pictures(tmp_path / "nowhere")


@pytest.mark.data
def test_a_network_that_learned_another_split_gets_that_splits_new_classes(image_data: Path) -> None:
    from kshot.datasets.splits import CIFAR_FS_TEST

    found = open_pictures("cifar100", data=image_data, split="cifar-fs")
    assert found.base is not None and found.new.names == CIFAR_FS_TEST and len(found.base.names) == 64


@pytest.mark.data
def test_the_papers_data_sets_are_divided_as_it_says(image_data: Path) -> None:
    cifar = open_pictures("cifar100", data=image_data)
    assert cifar.base is not None
    assert (len(cifar.new), len(cifar.new.names), len(cifar.base), len(cifar.base.names)) == (12_000, 20, 8_000, 80)
    mini = open_pictures("miniimagenet", data=image_data)
    assert mini.base is not None
    assert (len(mini.new), len(mini.new.names), len(mini.base), len(mini.base.names)) == (12_000, 20, 48_000, 80)
    assert mini.new.ids[0].startswith("test/n0") and mini.new.names[0] != mini.new.class_ids[0]
