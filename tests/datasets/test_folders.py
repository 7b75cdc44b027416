"""Class folders: what counts as a class and an image, and how the rest is named."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kshot.datasets import folders, miniimagenet
from kshot.datasets.splits import open_data


def photograph(path: Path, colour: str = "red", size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    root = tmp_path / "pets"
    for number in range(3):
        photograph(root / "cat" / f"{number}.jpg", "red")
        photograph(root / "dog" / "holiday" / f"{number}.PNG", "blue")
    (root / "dog" / ".DS_Store").write_bytes(b"x")
    (root / "dog" / "notes.txt").write_text("good dog")
    photograph(root / "stray.jpg")
    (root / "empty").mkdir()
    return root


def test_a_class_is_a_subfolder_and_its_images_lie_at_any_depth(pets: Path) -> None:
    listing = folders.scan(pets)
    assert listing.names == ("cat", "dog")
    assert listing.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert [path.name for path in listing.paths] == ["0.jpg", "1.jpg", "2.jpg", "0.PNG", "1.PNG", "2.PNG"]


def test_what_is_passed_over_is_named_with_its_reason(pets: Path) -> None:
    reasons = {skipped.path.name: skipped.reason for skipped in folders.scan(pets).skipped}
    assert reasons == {"notes.txt": folders.NOT_NAMED, "stray.jpg": "not in a class folder", "empty": "no images in it"}


def test_links_are_followed_and_loops_end(pets: Path) -> None:
    (pets / "kitten").symlink_to(pets / "cat", target_is_directory=True)
    (pets / "dog" / "again").symlink_to(pets / "dog", target_is_directory=True)
    listing = folders.scan(pets)
    assert listing.names == ("cat", "dog", "kitten")
    assert np.bincount(listing.labels).tolist() == [3, 3, 3]


def test_whatever_lies_in_a_class_folder_is_listed_or_named_and_nothing_is_waited_for(pets: Path) -> None:
    cats = pets / "cat"
    os.mkfifo(cats / "pipe.jpg")
    (cats / "loop.jpg").symlink_to(cats / "loop.jpg")
    (cats / "gone.jpg").symlink_to(pets / "nowhere.jpg")
    deep = cats
    for _ in range(1200):  # deeper than Python's functions may call each other
        deep = deep / "d"
    subprocess.run(["mkdir", "-p", "/".join(["d"] * 1200)], cwd=cats, check=True)
    photograph(deep / "deep.jpg", "green")
    try:
        listing = folders.scan(pets)
    finally:  # Python's own rmtree, with which pytest cleans up, does not reach so deep
        subprocess.run(["rm", "-r", "d"], cwd=cats, check=True)
    reasons = {skipped.path.name: skipped.reason for skipped in listing.skipped}
    assert reasons["pipe.jpg"] == "not a file"
    assert reasons["loop.jpg"] == reasons["gone.jpg"] == "a link to nothing"
    assert deep / "deep.jpg" in listing.paths


def test_a_folder_that_may_not_be_opened_is_named(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = pets / "cat" / "locked"
    photograph(locked / "4.jpg")
    original = Path.iterdir

    def refuse(self: Path) -> Iterator[Path]:
        if self == locked:  # root may open everything, so the system's answer is given for it
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return original(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    reasons = {skipped.path: skipped.reason for skipped in folders.scan(pets).skipped}
    assert reasons[locked] == "it cannot be opened (Permission denied)"


def test_one_name_in_two_spellings_is_one_class_and_any_bytes_make_a_name(tmp_path: Path) -> None:
    photograph(tmp_path / "caf\u00e9" / "1.jpg")
    photograph(tmp_path / "cafe\u0301" / "2.jpg")
    photograph(tmp_path / os.fsdecode(b"caf\xe9") / "3.jpg")
    listing = folders.scan(tmp_path)
    assert sorted(listing.names) == ["caf\\xe9", "caf\u00e9"]
    assert sorted(np.bincount(listing.labels).tolist()) == [1, 2]


def test_damaged_images_are_skipped_by_name_or_refused(pets: Path) -> None:
    whole = (pets / "cat" / "0.jpg").read_bytes()
    (pets / "cat" / "0.jpg").write_bytes(whole[: len(whole) // 2])
    images, skipped = folders.load(pets, size=8)
    assert len(images) == 5 and images.images.shape == (5, 8, 8, 3)
    assert "0.jpg" in {entry.path.name for entry in skipped}
    with pytest.raises(ValueError, match=r"0\.jpg"):
        folders.load(pets, size=8, on_error="refuse")


def test_what_a_data_set_skipped_is_kept_with_it(pets: Path) -> None:
    (pets / "dog" / "holiday" / "1.PNG").write_bytes(b"no image")
    split = open_data(pets, size=8)
    assert {"1.PNG", "notes.txt"} <= {entry.path.name for entry in split.skipped}
    with pytest.raises(ValueError, match=r"1\.PNG"):
        open_data(pets, size=8, on_error="refuse")


def test_pixels_and_ids_belong_together(pets: Path) -> None:
    images, _ = folders.load(pets, size=8)
    for pixels, label, name in zip(images.images, images.labels, images.ids, strict=True):
        assert name.startswith(images.names[label])
        assert (pixels[..., 0].mean() > 200) == (images.names[label] == "cat")


def test_a_folder_without_classes_says_what_to_do(tmp_path: Path) -> None:
    photograph(tmp_path / "1.jpg")
    with pytest.raises(ValueError, match="a folder of its own"):
        folders.scan(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere$"):
        folders.scan(tmp_path / "nowhere")


def test_any_folder_can_be_opened_as_data_with_classes_left_out(pets: Path) -> None:
    split = open_data(pets, size=8, leave_out=1)
    assert split.left_out is not None
    assert split.base.names == ("cat",) and split.left_out.names == ("dog",)
    with pytest.raises(ValueError, match="cannot be left out"):
        open_data(pets, size=8, leave_out=2)


def test_miniimagenet_is_built_from_an_imagenet_tree_as_the_paper_says(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(miniimagenet, "IMAGES_PER_CLASS", 2)
    for split in miniimagenet.SPLITS:
        for wnid in miniimagenet.classes(split):
            for number in range(3):
                photograph(tmp_path / "imagenet" / wnid / f"{number}.jpg", size=(200, 100))
    broken = tmp_path / "imagenet" / miniimagenet.classes("train")[0] / "0.jpg"
    broken.write_bytes(b"no image")
    skipped = miniimagenet.build(tmp_path / "imagenet", tmp_path / "mini")
    assert [entry.path for entry in skipped] == [broken]
    images, _ = miniimagenet.load(tmp_path / "mini", ("val", "test"))
    assert images.images.shape == (72, 84, 84, 3) and len(images.names) == 36
    assert "golden retriever" in images.names
    split = open_data(tmp_path / "mini", leave_out=16)
    assert split.left_out is not None and split.new is not None
    assert [len(part.names) for part in (split.base, split.left_out, split.new)] == [64, 16, 20]


def test_an_incomplete_imagenet_tree_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lacks 100 of miniImageNet's classes"):
        miniimagenet.build(tmp_path, tmp_path / "mini")
