"""One BLAS thread for small matrices: several mostly wait for each other."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["one_thread"]

_SMALL = 256  # rows; above this several threads pay
_TINY = 64  # rows; up to this BLAS itself uses one


def one_thread(matrices: int, rows: int) -> AbstractContextManager[Any]:
    """Give a context in which products use one thread, where the matrices are small and many, or not tiny."""
    if rows > _SMALL or (matrices == 1 and rows <= _TINY):
        return nullcontext()
    context: AbstractContextManager[Any] = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
    return context


@cache
def _controller(_with_scipy: bool) -> Any:
    # Looking for the loaded libraries takes milliseconds, setting their number of threads microseconds: look once, and
    # once more when SciPy has brought a BLAS of its own.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
