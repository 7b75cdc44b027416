"""Methods that train by episodes: the paper's competitors in Table 1, one page each.

Importing this package or `model_file` does not import torch: reports read committed results where there is none.
"""

from __future__ import annotations

__all__ = ["METHODS", "UNTRAINED"]

METHODS = ("protonet", "matching", "matching-fce", "meta-lstm")
"""What `kshot train --method` takes."""

UNTRAINED = ("nearest-untrained", "nearest-untrained-32")
"""Nearest neighbour on the network before training, 64 filters or 32, which each of the others is measured against."""
