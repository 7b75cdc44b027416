"""Progress over many tasks: on a terminal, when it takes more than two seconds; nothing when piped."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Count tasks as they finish; `shown` None asks for it only on a terminal and after two seconds."""

    def __init__(self, what: str, total: int, *, shown: bool | None = None) -> None:
        self.what, self.total = what, total
        self._wanted = sys.stderr.isatty() if shown is None else shown
        self._patience = 2.0 if shown is None else 0.0
        self._start, self._done = time.monotonic(), 0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def advance(self) -> None:
        """Say that one more task is done."""
        self._done += 1
        if self._bar is None and self._wanted and time.monotonic() - self._start > self._patience:
            self._open()
        if self._bar is not None:
            self._bar.update(0, completed=self._done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=sys.stderr.isatty())
        self._bar.start()
        self._bar.add_task(self.what, total=self.total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
