"""Phase 1, learning the network; the only room in which torch is imported (extra `train`)."""

from __future__ import annotations

from kshot.errors import MissingExtraError

__all__ = ["require_torch"]


def require_torch() -> None:
    """Say in a sentence what to install where torch or Lightning Fabric is missing."""
    try:
        import lightning_fabric  # noqa: F401
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("training", "torch", extra="train") from None
