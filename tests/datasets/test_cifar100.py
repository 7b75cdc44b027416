"""CIFAR-100's files: read to the byte, and never trusted."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from kshot.datasets import cifar100
from kshot.datasets.cifar100_classes import BASE_CLASSES, FINE_CLASSES, HELD_OUT_CLASSES
from kshot.datasets.splits import CIFAR_FS_TEST, CIFAR_FS_VALIDATION, open_data

PER_CLASS = {"train": 3, "test": 2}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write files of CIFAR-100's layout with a few random images of each class."""
    folder = tmp_path_factory.mktemp("data") / "cifar-100-python"
    folder.mkdir()
    random = np.random.default_rng(0)
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": list(FINE_CLASSES)}, protocol=2))
    for part, count in PER_CLASS.items():
        labels = random.permutation(np.repeat(np.arange(100), count)).tolist()
        data = random.integers(0, 256, (len(labels), 3072)).astype(np.uint8)
        (folder / part).write_bytes(pickle.dumps({"data": data, "fine_labels": labels}, protocol=2))
    return folder.parent


def test_images_are_read_channel_last(small: Path) -> None:
    train, test = cifar100.load(small)
    raw = pickle.loads((small / "cifar-100-python" / "train").read_bytes())
    assert train.images.shape == (300, 32, 32, 3) and len(test) == 200
    assert (train.images[7, :, :, 1].ravel() == raw["data"][7, 1024:2048]).all()
    assert train.labels.tolist() == raw["fine_labels"]
    assert train.ids[41] == "train/41"


def test_the_papers_split_has_80_base_and_20_new_classes(small: Path) -> None:
    split = open_data(small)
    assert split.base.names == tuple(FINE_CLASSES[index] for index in BASE_CLASSES)
    assert split.new is not None and split.base_test is not None
    assert split.new.names == tuple(FINE_CLASSES[index] for index in HELD_OUT_CLASSES)
    assert (len(split.base), len(split.base_test), len(split.new)) == (240, 160, 100)
    assert not set(split.base.names) & set(split.new.names)


def test_classes_can_be_left_out_of_the_base_classes(small: Path) -> None:
    split = open_data(small, leave_out=16)
    assert split.left_out is not None and split.new is not None
    parts = [set(split.base.names), set(split.left_out.names), set(split.new.names)]
    assert [len(part) for part in parts] == [64, 16, 20]
    assert len(set().union(*parts)) == 100
    assert len(split.left_out) == 16 * 5


def test_cifar_fs_is_64_16_20(small: Path) -> None:
    split = open_data(small, split="cifar-fs")
    assert split.left_out is not None and split.new is not None
    assert len(split.base.names) == 64
    assert set(split.left_out.names) == set(CIFAR_FS_VALIDATION) and set(split.new.names) == set(CIFAR_FS_TEST)
    assert len(CIFAR_FS_VALIDATION) == 16 and len(CIFAR_FS_TEST) == 20


def test_images_per_class_keeps_the_rest_for_testing(small: Path) -> None:
    split = open_data(small, images_per_class=2)
    assert len(split.base) == 160 and split.base_test is not None
    assert len(split.base_test) == 80 + 160


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch /tmp/kshot-was-here",)


@pytest.mark.parametrize(
    "content",
    [pickle.dumps({"fine_label_names": Evil()}), b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({"data": 1})],
    ids=["runs code", "empty", "text", "list", "other keys"],
)
def test_a_file_that_is_not_cifar_is_refused_and_runs_nothing(content: bytes, tmp_path: Path) -> None:
    for part in ("train", "test", "meta"):
        (tmp_path / part).write_bytes(content)
    with pytest.raises(ValueError, match="is not a CIFAR-100 file"):
        cifar100.load(tmp_path)
    assert not Path("/tmp/kshot-was-here").exists()


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        cifar100.load(tmp_path)


@pytest.mark.data
def test_the_real_files_have_500_and_100_images_a_class(image_data: Path) -> None:
    train, test = cifar100.load(image_data)
    assert train.names == FINE_CLASSES
    assert set(np.bincount(train.labels)) == {500} and set(np.bincount(test.labels)) == {100}
