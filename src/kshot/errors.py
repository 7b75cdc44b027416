"""What the library says when the user's input is at fault: one sentence that names the thing and the way out."""

from __future__ import annotations

__all__ = ["FileFormatError", "MissingExtraError", "UserError"]


class UserError(ValueError):
    """A sentence meant for the user: the command line prints it without a traceback and exits with status 2."""


class FileFormatError(UserError):
    """A file that is damaged, of another kind, or of a newer format than this version reads."""


class MissingExtraError(ImportError):
    """A part of the library whose optional dependencies are not installed.

    >>> raise MissingExtraError("training", "torch", extra="train")
    Traceback (most recent call last):
        ...
    kshot.errors.MissingExtraError: training needs torch: pip install "kshot[train]"
    """

    def __init__(self, what: str, package: str, *, extra: str) -> None:
        super().__init__(f'{what} needs {package}: pip install "kshot[{extra}]"')
