"""The photographs that a model has learned from: features, class, file name and content of each, in one fixed order."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kshot.errors import UserError

__all__ = ["RESERVED", "Examples", "class_name"]

RESERVED = ("something else", "unsure")
"""Answers of `predict` that no class can be called."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Features of photographs and what is known of each; `ordered` makes one, so that order of arrival is forgotten.

    Arguments:
        X: features, (n, p) float32.
        labels: index of each one's class in `classes`, (n,).
        classes: C names, sorted.
        files: n file names, for messages only.
        digests: n digests of the files' content: a photograph is known by it, not by its name.
    """

    X: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    files: tuple[str, ...]
    digests: tuple[str, ...]

    @classmethod
    def ordered(
        cls, X: NDArray[np.float32], names: Sequence[str], files: Sequence[str], digests: Sequence[str]
    ) -> Examples:
        """Sort examples by class name and digest, each with the `names` of its class; one twice in a class counts once.

        >>> Examples.ordered(np.eye(3, dtype=np.float32), ["b", "a", "b"], ["1", "2", "3"], ["x", "y", "x"]).classes
        ('a', 'b')
        """
        order = sorted(range(len(names)), key=lambda row: (names[row], digests[row], files[row]))
        kept = [
            row
            for place, row in enumerate(order)
            if place == 0 or (names[row], digests[row]) != (names[order[place - 1]], digests[order[place - 1]])
        ]
        classes = tuple(sorted(set(names)))
        index = {name: label for label, name in enumerate(classes)}
        labels = np.array([index[names[row]] for row in kept], np.int64)
        features = np.ascontiguousarray(X[kept], np.float32)
        return cls(features, labels, classes, tuple(files[row] for row in kept), tuple(digests[row] for row in kept))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """The class name of each example."""
        return [self.classes[label] for label in self.labels]

    @property
    def counts(self) -> dict[str, int]:
        """The number of photographs of each class."""
        return dict(
            zip(self.classes, np.bincount(self.labels, minlength=len(self.classes)).astype(int).tolist(), strict=True)
        )

    def joined(self, other: Examples) -> Examples:
        """Give both together: the same whichever came first."""
        return Examples.ordered(
            np.concatenate([self.X, other.X]),
            [*self.names, *other.names],
            [*self.files, *other.files],
            [*self.digests, *other.digests],
        )

    def without(self, name: str) -> Examples:
        """Leave a class out."""
        keep = [row for row, own in enumerate(self.names) if own != name]
        return Examples.ordered(
            self.X[keep],
            [self.names[row] for row in keep],
            [self.files[row] for row in keep],
            [self.digests[row] for row in keep],
        )

    def renamed(self, names: Mapping[str, str]) -> Examples:
        """Give classes new names, those of `names`, old to new."""
        changed = [names.get(name, name) for name in self.names]
        return Examples.ordered(self.X, changed, self.files, self.digests)

    def known_in(self, digest: str) -> list[tuple[str, str]]:
        """Give the class and file name of each example with this content."""
        return [
            (self.classes[label], file)
            for label, file, own in zip(self.labels, self.files, self.digests, strict=True)
            if own == digest
        ]

    def in_two_classes(self) -> list[list[tuple[str, str]]]:
        """Give photographs that are in more than one class, each as its classes and file names."""
        places: dict[str, list[tuple[str, str]]] = {}
        for name, file, digest in zip(self.names, self.files, self.digests, strict=True):
            places.setdefault(digest, []).append((name, file))
        return [found for found in places.values() if len(found) > 1]

    def rows(self, keep: NDArray[np.bool_]) -> Examples:
        """Keep some examples, and all class names."""
        chosen = np.flatnonzero(keep)
        return replace(
            self,
            X=self.X[chosen],
            labels=self.labels[chosen],
            files=tuple(self.files[row] for row in chosen),
            digests=tuple(self.digests[row] for row in chosen),
        )


def class_name(text: str) -> str:
    """Bring a class name to one form, or say why it cannot be one.

    The same letters may be written in two ways in Unicode (é as one sign or as e with an accent), and systems differ.
    """
    name = unicodedata.normalize("NFC", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    if not name.strip():
        raise UserError("a class needs a name that is not empty")
    if name in RESERVED:
        raise UserError(f"a class cannot be called {name!r}: that is one of kshot's answers. Give it another name")
    return name
