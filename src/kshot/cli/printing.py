"""Words, numbers and bars for a terminal or a pipe; names from outside are shown, never obeyed."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

__all__ = [
    "bar",
    "columns",
    "cut",
    "listed",
    "listing",
    "pad",
    "paint",
    "per_cent",
    "progress",
    "say",
    "terminal_width",
    "visible",
    "width",
]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_COLOURS = {"dim": "2", "bold": "1", "yellow": "33", "green": "32"}


def say(text: str = "") -> None:
    """Print a line on standard output; what its encoding cannot show becomes a question mark."""
    try:
        # At once, so that a program at the other end of a pipe need not wait for the last line.
        print(text, flush=True)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), flush=True)
    except BrokenPipeError:
        # The reader has seen enough (`| head`); Python's own last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def visible(text: str) -> str:
    r"""Show control characters and undecodable bytes of a name as escapes, so that no name can move the cursor.

    >>> visible("robin\x1b[2J")
    'robin\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter == " " else letter.encode("unicode_escape").decode() for letter in text
    )


def width(text: str) -> int:
    """Count the cells that a text takes on a terminal: two for a wide letter, none for a combining accent."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def pad(text: str, cells: int) -> str:
    """Fill a text up with spaces."""
    return text + " " * max(0, cells - width(text))


def cut(text: str, cells: int) -> str:
    """Shorten a text from its beginning, where the less telling part of a path is."""
    if width(text) <= cells:
        return text
    while text and width(text) > cells - 1:
        text = text[1:]
    return f"…{text}"


def bar(share: float, cells: int = 20) -> str:
    """Draw a share as a bar, exact to an eighth of a cell.

    >>> bar(0.5, 4), bar(0.53, 4)
    ('██', '██▏')
    """
    whole, eighth = divmod(round(share * cells * 8), 8)
    text = "█" * whole + (_EIGHTHS[eighth] if eighth else "")
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return "#" * round(share * cells)
    return text


def per_cent(share: float) -> str:
    """Give a probability in whole per cent, without claiming 0 or 100.

    >>> per_cent(0.584), per_cent(0.999), per_cent(0.0001)
    ('58 %', '>99 %', '<1 %')
    """
    if 0.995 <= share < 1:
        return ">99 %"
    if 0 < share < 0.005:
        return "<1 %"
    return f"{100 * share:.0f} %"


def paint(text: str, colour: str) -> str:
    """Colour a text on a terminal; leave it alone in a pipe, and where NO_COLOR is set."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt"
    return text if plain or not text else f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def terminal_width() -> int | None:
    """Give the width of the terminal; None for a pipe, which has none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(counts: Mapping[str, int], *, most: int = 60) -> Iterator[str]:
    """Lay out names and numbers side by side, as many as fit; the largest numbers first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    cells = [f"{visible(name)}   {count}" for name, count in ranked[:most]]
    room = min(terminal_width() or 100, 120) - 2
    wide = max(map(width, cells)) + 6
    each = max(1, room // wide)
    for start in range(0, len(cells), each):
        yield "  " + "".join(pad(cell, wide) for cell in cells[start : start + each]).rstrip()
    if len(ranked) > most:
        rest = [count for _, count in ranked[most:]]
        yield f"  and {len(rest)} more with {min(rest)} to {max(rest)} each"


@contextmanager
def progress(words: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many of how many are done; nothing where standard error is piped."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return

    def report(done: int, total: int) -> None:
        print(f"\r{words} {done} of {total}", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def listed(parts: Sequence[str], most: int = 5) -> str:
    """Join some, and say how many more there are."""
    more = f", and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def listing(title: str, parts: Sequence[str], *, most: int = 5) -> Iterator[str]:
    """Name all of them: a few behind the title, more on lines of their own; nothing where there are none.

    >>> list(listing("skipped 2", ["a", "b"])), list(listing("  skipped 2", ["a", "b"], most=1))
    (['skipped 2: a, b'], ['  skipped 2:', '    a', '    b'])
    """
    if 0 < len(parts) <= most:
        yield f"{title}: {', '.join(parts)}"
    elif parts:
        yield f"{title}:"
        inner = " " * (len(title) - len(title.lstrip()) + 2)
        yield from (f"{inner}{part}" for part in parts)
