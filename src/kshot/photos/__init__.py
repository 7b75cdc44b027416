"""The practitioner's model: learn from a folder of photographs, predict, add; its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kshot.photos.model import PhotoModel

if TYPE_CHECKING:
    from kshot.photos.learning import Learned, add, learn, remove, rename

__all__ = ["Learned", "PhotoModel", "add", "learn", "remove", "rename"]


def __getattr__(name: str) -> Any:
    # Only when asked for: `kshot predict` needs the model alone.
    if name in __all__:
        from kshot.photos import learning

        return getattr(learning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
