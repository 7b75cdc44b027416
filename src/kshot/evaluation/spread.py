"""Work on many tasks in portions, on all cores, or wherever the user's joblib backend puts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["spread"]


def spread(function: Callable[..., NDArray[Any]], *arrays: NDArray[Any], portion: int) -> NDArray[Any]:
    """Call `function` with portions of `arrays` along their first axis, the tasks, and join what it gives.

    All cores work, or what `joblib.parallel_config` says: a user's Dask or Ray backend spreads the portions over
    machines. The portions, and so the results, do not depend on who does the work.

    >>> spread(lambda a, b: a + b, np.arange(5), np.ones(5), portion=10)
    array([1., 2., 3., 4., 5.])
    """
    import joblib

    count = max(1, len(arrays[0]) // portion)
    portions = zip(*(np.array_split(array, count) for array in arrays), strict=True)
    jobs = joblib.parallel.get_active_backend()[1]
    if count == 1 and jobs is None:  # not worth starting processes for
        return function(*next(portions))
    parallel = joblib.Parallel(n_jobs=-1 if jobs is None else None)
    return np.concatenate(parallel(joblib.delayed(function)(*each) for each in portions))
