"""One BLAS thread for small matrices: several mostly wait for each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

__all__ = ["one_thread"]

_SMALL = 256  # rows; above this several threads pay
_TINY = 64  # rows; up to this BLAS itself uses one

_lock = threading.Lock()
_inside = 0  # how many contexts are open, in all threads
_limit: Any = None  # the first one's, with the number of threads to go back to


def one_thread(matrices: int, rows: int) -> AbstractContextManager[Any]:
    """Give a context in which products use one thread, where the matrices are small and many, or not tiny."""
    if rows > _SMALL or (matrices == 1 and rows <= _TINY):
        return nullcontext()
    return _limited()


@contextmanager
def _limited() -> Iterator[None]:
    # BLAS has one number of threads for the whole process. Contexts of several threads overlap without one being inside
    # the other, so the first to enter sets the limit and the last to leave takes it back.
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
            _release()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _release()


def _release() -> None:
    # From 3.8 on threadpoolctl passes over what a thread sets while another one that has set a number is alive. Here
    # the last to leave is often not the one that entered first, so none keeps that right.
    from threadpoolctl import OpenBLASController

    getattr(OpenBLASController, "clear_controlling_thread", lambda: None)()


@cache
def _controller(_with_scipy: bool) -> Any:
    # Looking for the loaded libraries takes milliseconds, setting their number of threads microseconds: look once, and
    # once more when SciPy has brought a BLAS of its own.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
