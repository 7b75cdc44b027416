"""What every evaluation asks of its methods and numbers of shots before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kshot.errors import UserError

__all__ = ["listed_methods", "listed_shots"]


def listed_methods(methods: Sequence[Any] | Any) -> list[Any]:
    """Give the methods as a list; a single one may come without its list.

    >>> listed_methods("gauss-iso"), listed_methods(("gauss-iso", "nearest"))
    (['gauss-iso'], ['gauss-iso', 'nearest'])
    """
    # A name can be iterated over, and so can scikit-learn's ensembles.
    is_one = isinstance(methods, str) or hasattr(methods, "predict") or not isinstance(methods, Iterable)
    listed = [methods] if is_one else list(methods)
    if not listed:
        raise UserError("give at least one method: the list is empty")
    return listed


def listed_shots(shots: Sequence[int] | int) -> list[int]:
    """Give the numbers of shots as a list; a single one may come without its list.

    >>> listed_shots(5), listed_shots((1, 5))
    ([5], [1, 5])
    """
    listed = np.atleast_1d(np.asarray(shots))
    if not listed.size:
        raise UserError("give at least one number of shots: the list is empty")
    if listed.ndim != 1 or listed.dtype.kind not in "iu" or listed.min() < 1:
        raise UserError(f"shots must be whole numbers of at least 1, and it is {shots!r}")
    return [int(k) for k in listed]
