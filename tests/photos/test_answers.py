"""From probabilities to answers: thresholds, shares of classes, and what is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshot.errors import UserError
from kshot.photos.answers import answers, class_shares, reweighted, threshold_for
from kshot.photos.model import Probabilities

SHARES = st.floats(0.0, 1.0)


def joint(*rows: list[float]) -> Probabilities:
    """Probabilities of two classes and something else."""
    table = np.array(rows, float)
    return Probabilities(table[:, :2], table[:, 2], np.zeros(len(table), np.int64))


def test_the_most_probable_is_the_answer_and_unsure_below_the_threshold() -> None:
    found = joint([0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.45, 0.4, 0.15])
    said = answers(found, ["cat", "dog"], threshold=0.5, base_names=["tench"])
    assert [answer.name for answer in said] == ["cat", "something else", "unsure"]
    assert said[1].most_like == "tench"
    assert said[1].ranking == ((None, 0.8), ("cat", 0.1), ("dog", 0.1))


def test_something_else_is_not_an_answer_where_it_was_left_out() -> None:
    (said,) = answers(Probabilities(np.array([[0.6, 0.4]]), np.zeros(1)), ["cat", "dog"], threshold=0.0)
    assert [name for name, _ in said.ranking] == ["cat", "dog"]
    assert set(said.to_json()) == {"answer", "probability", "probabilities"}


@settings(deadline=None, max_examples=100)
@given(st.lists(SHARES, min_size=1, max_size=20), SHARES)
def test_the_threshold_is_the_lowest_that_keeps_the_expected_error(top, max_error) -> None:
    top = np.array(top)
    found = threshold_for(top, max_error)
    # Every threshold that makes a difference, tried one by one.
    fine = [t for t in set(top.tolist()) if (1 - top[top >= t]).mean() <= max_error + 1e-12]
    assert found == pytest.approx(min(fine, default=math.inf))


def test_calibrated_probabilities_keep_the_promise_of_max_error() -> None:
    rng = np.random.default_rng(0)
    top = rng.uniform(0.3, 1.0, 20000)
    right = rng.uniform(size=top.size) < top
    answered = top >= threshold_for(top, 0.05)
    wrong = 1 - right[answered].mean()
    # 0.05 expected; four standard errors of a mean over those answered.
    assert answered.sum() > 1000 and abs(wrong - 0.05) < 4 * math.sqrt(0.05 * 0.95 / answered.sum())


def test_equal_shares_change_nothing() -> None:
    found = joint([0.7, 0.2, 0.1], [0.0, 0.0, 1.0])
    after = reweighted(found, np.array([0.5, 0.5]))
    np.testing.assert_allclose(after.classes, found.classes)
    np.testing.assert_allclose(after.other, found.other)


def test_shares_follow_bayes_rule() -> None:
    # Likelihoods 0.6 and 0.4 under equal priors; with priors 0.1 and 0.9 the odds are (0.6 · 0.1) : (0.4 · 0.9).
    after = reweighted(Probabilities(np.array([[0.6, 0.4]]), np.zeros(1)), np.array([0.1, 0.9]))
    np.testing.assert_allclose(after.classes, [[0.06 / 0.42, 0.36 / 0.42]])


def test_classes_not_named_share_what_is_left() -> None:
    np.testing.assert_allclose(class_shares({"a": 0.7}, ["a", "b", "c"]), [0.7, 0.15, 0.15])
    np.testing.assert_allclose(class_shares({"a": 2, "b": 2}, ["a", "b"]), [0.5, 0.5])


@pytest.mark.parametrize("given_shares", [{"a": 0.8, "b": 0.7}, {"a": -1}, {"a": math.nan}, {"a": 0, "b": 0, "c": 0}])
def test_impossible_shares_are_refused(given_shares) -> None:
    with pytest.raises(UserError):
        class_shares(given_shares, ["a", "b", "c"])
