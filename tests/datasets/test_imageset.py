"""Images in memory: selecting, splitting, joining, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from kshot.datasets.imageset import ImageSet


def make(labels: list[int], names: tuple[str, ...] = ("cat", "dog", "owl")) -> ImageSet:
    images = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    return ImageSet(images, np.array(labels), names, tuple(f"image{row}" for row in range(len(labels))))


def test_select_keeps_the_images_of_the_classes_and_relabels_them_in_the_order_given() -> None:
    chosen = make([0, 1, 2, 1]).select(["owl", "dog"])
    assert chosen.names == ("owl", "dog")
    assert chosen.labels.tolist() == [1, 0, 1]
    assert chosen.ids == ("image1", "image2", "image3")
    assert chosen.images[:, 0, 0, 0].tolist() == [1, 2, 3]


def test_first_per_class_divides_without_loss_or_overlap() -> None:
    whole = make([0, 1, 2, 1, 0, 2, 0])
    first, rest = whole.first_per_class(2)
    assert first.ids == ("image0", "image1", "image2", "image3", "image4", "image5")
    assert rest.ids == ("image6",)


def test_spread_reaches_from_the_first_to_the_last_and_gives_no_more_than_there_are() -> None:
    whole = make([0, 1, 2, 1, 0])
    assert whole.spread(3).ids == ("image0", "image2", "image4")
    assert whole.spread(9).ids == whole.ids


def test_joining_keeps_both_parts_in_order() -> None:
    assert (make([0, 1]) + make([2])).labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda: make([0]).select(["cow"]), "no class 'cow'"),
        (lambda: make([0, 0, 1, 2]).first_per_class(2), "'dog' has 1 images"),
        (lambda: make([0, 3]), "labels must lie in 0..2"),
        (lambda: make([0]) + make([0], ("a", "b")), "same classes"),
        (lambda: ImageSet(np.zeros((1, 2, 2, 3)), np.array([0]), ("a",), ("x",)), "must be uint8"),  # type: ignore[arg-type]
        (lambda: ImageSet(np.zeros((1, 2, 2, 3), np.uint8), np.array([0, 0]), ("a",), ("x",)), "equally many"),
    ],
)
def test_a_mistake_is_named(mistake, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        mistake()
