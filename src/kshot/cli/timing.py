"""Where the time went (`--profile`): the phases of a command, from the start of the process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

__all__ = ["Stopwatch"]


class Stopwatch:
    """Collect the time of each phase; `phase(name)` ends the one before."""

    def __init__(self) -> None:
        self._phases: list[tuple[str, float]] = []
        self._name = ""
        self._since = time.perf_counter()
        self.start = self._since
        before = _since_process_start()
        if before is not None:
            self._phases.append(("starting Python, imports", before))

    def phase(self, name: str) -> None:
        """Begin a phase."""
        now = time.perf_counter()
        if self._name:
            self._phases.append((self._name, now - self._since))
        self._name, self._since = name, now

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.perf_counter() - self.start

    def print(self) -> None:
        """Write the phases to standard error, with their sum."""
        self.phase("")
        for name, seconds in self._phases:
            print(f"  {name:<32}{seconds:7.3f} s", file=sys.stderr)
        print(f"  {'in all':<32}{sum(seconds for _, seconds in self._phases):7.3f} s", file=sys.stderr)


def _since_process_start() -> float | None:
    """Give the age of this process, where the system tells."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, AttributeError, IndexError, ValueError):
        return None
