"""Examples forget the order in which they came, and know a photograph by its content."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshot.errors import UserError
from kshot.photos.examples import Examples, class_name

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "z", "w"]), st.sampled_from("123")),
    min_size=1,
    max_size=12,
)


def examples(rows: list[tuple[str, str, str]]) -> Examples:
    """Make examples of (class, digest, file); the features follow from the digest, as those of a photograph do."""
    X = np.array([[ord(digest), 1.0] for _, digest, _ in rows], np.float32)
    names, digests, files = zip(*rows, strict=True)
    return Examples.ordered(X, names, files, digests)


def same(a: Examples, b: Examples) -> bool:
    return (
        np.array_equal(a.X, b.X)
        and np.array_equal(a.labels, b.labels)
        and (a.classes, a.files, a.digests) == (b.classes, b.files, b.digests)
    )


@settings(deadline=None, max_examples=60)
@given(ROWS, st.randoms())
def test_any_order_of_arrival_gives_the_same_examples(rows, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert same(examples(rows), examples(shuffled))


@settings(deadline=None, max_examples=60)
@given(ROWS, ROWS)
def test_joining_is_the_same_whichever_comes_first(first, second) -> None:
    a, b = examples(first), examples(second)
    assert same(a.joined(b), b.joined(a)) and same(a.joined(b), examples([*first, *second]))


@settings(deadline=None, max_examples=60)
@given(ROWS)
def test_a_photograph_counts_once_in_a_class_and_every_one_counts(rows) -> None:
    found = examples(rows)
    assert sorted(zip(found.names, found.digests, strict=True)) == sorted({(name, digest) for name, digest, _ in rows})
    assert sum(found.counts.values()) == len(found)


def test_a_photograph_in_two_classes_is_named() -> None:
    found = examples([("a", "x", "1"), ("b", "x", "2"), ("b", "y", "3")])
    assert found.in_two_classes() == [[("a", "1"), ("b", "2")]]


def test_without_a_class_the_others_are_as_they_were() -> None:
    rows = [("a", "x", "1"), ("b", "y", "2"), ("c", "z", "3")]
    assert same(examples(rows).without("b"), examples([rows[0], rows[2]]))


def test_renaming_is_the_same_as_having_been_called_so() -> None:
    rows = [("a", "x", "1"), ("b", "y", "2"), ("c", "z", "3")]
    assert same(examples(rows).renamed({"a": "z"}), examples([("z", "x", "1"), *rows[1:]]))


def test_two_spellings_of_an_accent_are_one_class() -> None:
    assert class_name("me\u0301sange") == class_name("m\u00e9sange")


@pytest.mark.parametrize("name", ["", "   ", "something else", "unsure"])
def test_a_class_cannot_be_called_nothing_or_like_an_answer(name: str) -> None:
    with pytest.raises(UserError):
        class_name(name)
