"""Linear maps along the last axes by a compiled loop. The reference is in ops/nn/spatial/resampling.py."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import SEVERAL, WORTH_SHARING, compiled, loop
from ...runtime.threads import launch

SPATIAL = 3  # maximum number of axes


def takes(x: Array, maps: tuple[object, ...]) -> bool:
    """Return whether to use the loop on this array."""
    return (
        type(x) is np.ndarray
        and x.dtype.char in "fd"
        and x.size >= SEVERAL
        and len(maps) <= SPATIAL
        and compiled() is not None
    )


def resample(x: Array, maps: tuple[object, ...]) -> Array:
    """Apply the maps along the last axes of x by a loop; None leaves an axis unchanged."""
    before, size = x.shape[: x.ndim - len(maps)], x.shape[x.ndim - len(maps) :]
    tables, shape, steps = _tables(maps, size, x.dtype)
    planes = prod(before)
    ones = (1,) * (SPATIAL - len(maps))
    out = np.empty((*before, *shape), x.dtype)
    x = np.ascontiguousarray(x).reshape(planes, *ones, *size)
    least = max(1, WORTH_SHARING // steps)
    launch(
        loop("loops.images.resampling_loops", "resample"), planes, least, x, *tables, out.reshape(planes, *ones, *shape)
    )
    return out


@lru_cache(maxsize=256)
def _tables(maps: tuple[Any, ...], size: tuple[int, ...], dtype: Any) -> tuple[list[Any], tuple[int, ...], int]:
    """Return index and weight of each axis, the spatial size of the result, and the number of steps per plane."""
    tables, shape = [], []
    for linear, length in zip((None,) * (SPATIAL - len(maps)) + maps, (1,) * (SPATIAL - len(maps)) + size):
        index, weight = (np.arange(length)[None], None) if linear is None else linear.terms
        weight = np.empty((0, index.shape[1])) if weight is None else weight
        tables += [np.ascontiguousarray(index, np.int32), np.ascontiguousarray(weight, dtype)]
        shape.append(index.shape[1])
    return tables, tuple(shape[SPATIAL - len(maps) :]), max(prod(shape), prod(size)) * len(tables[4])
