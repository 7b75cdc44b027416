"""A line per photograph: its name, the answer, a bar, and what else it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshot.cli.printing import bar, cut, pad, paint, per_cent, terminal_width, visible, width

if TYPE_CHECKING:
    from kshot.photos.answers import Answer

__all__ = ["AnswerTable"]

_LIKELY = 0.05  # what is less probable is not worth a word
_NOTE = 30  # cells for what follows the bar
_COLOURS = {"class": "bold", "something else": "yellow", "unsure": "dim"}


class AnswerTable:
    """Columns that fit the terminal: the bar shrinks first, then the photographs' names.

    Arguments:
        photographs: all names that will come.
        classes: all classes.
        top: how many of the most probable to show; by default the first, and a second that is worth a word.
    """

    def __init__(self, photographs: Sequence[str], classes: Sequence[str], *, top: int | None = None) -> None:
        self._top = top
        self._name = max((width(visible(name)) for name in photographs), default=0)
        self._answer = max(width(visible(name)) for name in (*classes, "something else"))
        self._bar = 20
        room = terminal_width()
        if room is not None:
            spare = room - (self._name + self._answer + self._bar + 12 + _NOTE)
            if spare < 0:
                self._bar = max(6, self._bar + spare)
                spare = room - (self._name + self._answer + self._bar + 12 + _NOTE)
                self._name = max(12, self._name + min(spare, 0))
                self._answer = min(self._answer, max(14, room - self._name - self._bar - 12))

    def line(self, photograph: str, answer: Answer) -> str:
        """Lay out one answer."""
        name = pad(cut(visible(photograph), self._name), self._name)
        said = paint(pad(cut(visible(answer.name), self._answer), self._answer), _COLOURS[answer.kind])
        drawn = pad(bar(answer.probability, self._bar), self._bar)
        return f"{name}   {said}   {drawn}   {self._words(answer)}".rstrip()

    def _words(self, answer: Answer) -> str:
        ranked = [(visible(name) if name is not None else "something else", p) for name, p in answer.ranking]
        if answer.kind == "unsure":
            return ", ".join(f"{name} {per_cent(p)}" for name, p in ranked[: self._top or 2])
        first = f"{per_cent(answer.probability):>5}"
        if self._top is not None:
            others = ranked[1 : self._top]
        else:
            others = [one for one in ranked[1:2] if one[1] >= _LIKELY]
        notes = [f"{name} {per_cent(p)}" for name, p in others]
        if answer.kind == "something else" and answer.most_like is not None:
            notes.insert(0, f"most like: {visible(answer.most_like)}")
        return f"{first}   {', '.join(notes)}"
