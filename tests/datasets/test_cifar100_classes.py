"""The names, superclasses and split of CIFAR-100 are those of the data set and of the paper."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest

from kshot.datasets.cifar100_classes import (
    BASE_CLASSES,
    FINE_CLASSES,
    HELD_OUT_CLASSES,
    MERGED_9,
    SUPERCLASS_OF,
    SUPERCLASSES,
)


def test_a_hundred_classes_fall_into_twenty_superclasses_of_five() -> None:
    assert len(set(FINE_CLASSES)) == 100
    assert set(SUPERCLASS_OF) == set(FINE_CLASSES)
    assert Counter(SUPERCLASS_OF.values()) == dict.fromkeys(SUPERCLASSES, 5)
    assert FINE_CLASSES[0] == "apple"
    assert FINE_CLASSES[99] == "worm"


def test_merge_makes_nine_of_the_twenty_as_in_c2() -> None:
    assert set(MERGED_9) == set(SUPERCLASSES)
    sizes = Counter(MERGED_9.values())
    assert sorted(sizes.values()) == [1, 2, 2, 2, 2, 2, 3, 3, 3]
    assert sizes[MERGED_9["people"]] == 1
    assert MERGED_9["fish"] == MERGED_9["aquatic_mammals"]
    assert MERGED_9["insects"] == MERGED_9["reptiles"] == MERGED_9["non-insect_invertebrates"]


def test_split_is_80_and_20_as_in_d2() -> None:
    assert len(BASE_CLASSES) == 80
    assert len(HELD_OUT_CLASSES) == 20
    assert sorted(BASE_CLASSES + HELD_OUT_CLASSES) == list(range(100))
    assert BASE_CLASSES[:12] == (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14)


@pytest.mark.data
def test_names_and_superclasses_are_the_data_sets(image_data: Path) -> None:
    folder = image_data / "cifar-100-python"
    meta = pickle.loads((folder / "meta").read_bytes())
    test = pickle.loads((folder / "test").read_bytes(), encoding="latin1")
    assert tuple(meta["fine_label_names"]) == FINE_CLASSES
    assert tuple(meta["coarse_label_names"]) == tuple(SUPERCLASSES)
    for fine, coarse in set(zip(test["fine_labels"], test["coarse_labels"], strict=True)):
        assert SUPERCLASS_OF[FINE_CLASSES[fine]] == meta["coarse_label_names"][coarse]
