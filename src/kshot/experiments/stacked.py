"""Tables of several networks, one below the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["stacked"]


def stacked(tables: Mapping[str, pd.DataFrame], *, column: str = "network") -> pd.DataFrame:
    """Put tables below each other, with the key of each in the first column.

    >>> import pandas as pd
    >>> stacked({"vgg-500": pd.DataFrame({"shots": [1]}), "resnet34": pd.DataFrame({"shots": [1]})})
        network  shots
    0   vgg-500      1
    1  resnet34      1
    """
    import pandas as pd

    frames = []
    for key, table in tables.items():
        frame = table.copy()
        frame.insert(0, column, key)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
