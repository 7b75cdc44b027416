"""A budget of memory that threads share: who needs more than is left waits until another gives back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Budget"]


class Budget:
    """So many bytes for all threads together.

    >>> with Budget(100).take(60):
    ...     pass
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def take(self, count: int) -> Iterator[None]:
        """Hold `count` bytes inside this block; one that asks for more than all there is gets its turn alone."""
        count = min(count, self.total)
        with self._changed:
            self._changed.wait_for(lambda: self._taken + count <= self.total)
            self._taken += count
        try:
            yield
        finally:
            with self._changed:
                self._taken -= count
                self._changed.notify_all()
