"""An old class that is the same thing as one of the user's is found, and no other."""

from __future__ import annotations

import numpy as np

from kshot.photos.twins import find_twins, old_logits, softmax

BASE = 4 * np.eye(5, 8)


def test_photographs_of_an_old_class_have_it_as_their_twin() -> None:
    rng = np.random.default_rng(0)
    X = 2 * np.eye(5, 8)[[3, 3, 3]] + 0.1 * rng.standard_normal((3, 8))
    assert find_twins(X, np.zeros(3, np.int64), BASE) == {3: 0}


def test_photographs_unlike_any_old_class_have_none() -> None:
    X = np.eye(8)[[5, 6, 7]]
    assert find_twins(X, np.zeros(3, np.int64), BASE) == {}


def test_one_photograph_that_looks_like_an_old_class_is_not_enough() -> None:
    X = np.concatenate([2 * np.eye(5, 8)[[1]], np.tile(np.eye(8)[7], (4, 1))])
    shares = softmax(old_logits(X, BASE))[:, 1]
    assert shares[0] > 0.9 and shares.mean() < 0.4
    assert find_twins(X, np.zeros(5, np.int64), BASE, share=0.4) == {}


def test_the_bias_counts() -> None:
    X = np.zeros((2, 8))
    assert find_twins(X, np.array([0, 1]), BASE, np.array([9.0, 0, 0, 0, 0])) == {0: 0}
