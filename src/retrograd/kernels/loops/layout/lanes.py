"""Read, write and add elements at positions along a dimension, by the loops in ``lane_loops.py``.

A lane is a slice along the dimension at fixed indices of the other dimensions. The references are NumPy's indexing and
``add.at``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ... import SLOW, USEFUL, compiled, loop
from ...runtime.threads import in_shares, launch

WORDS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}  # the dtypes as which elements are moved, by itemsize


def takes(x: Array, index: Array, dim: int) -> bool:
    """Return whether to read x by loops at an index of equal shape except along ``dim``, which must be in range."""
    return (
        type(x) is type(index) is ndarray
        and index.size >= SLOW
        and x.ndim == index.ndim
        and x.dtype.itemsize in WORDS
        and index.dtype == np.int64
        and x.shape[:dim] == index.shape[:dim]
        and x.shape[dim + 1 :] == index.shape[dim + 1 :]
        and compiled() is not None
    )


def writes(out: Array, index: Array, dim: int) -> bool:
    """Return whether to write to an array by loops, under the conditions of ``takes``."""
    return takes(out, index, dim) and out.flags.carray


def take(x: Any, index: Any, dim: int) -> Any:
    """``out[i, j, k] = x[i, index[i, j, k], k]`` for dimension 1 of three."""
    out = np.empty(index.shape, x.dtype)
    if x.ndim == 1:
        in_shares(lambda start, stop: x.take(index[start:stop], out=out[start:stop], mode="clip"), out.size, USEFUL)
        return out
    _launch("take", dim, _words(x), index, _words(out))
    return out


def put(out: object, index: object, values: object, dim: int) -> None:
    """``out[i, index[i, j, k], k] = values[i, j, k]``; at a repeated position the last value remains."""
    _write("put", _words(out), index, _words(_like(values, index, out)), dim)


def add(out: Array, index: Any, values: Array, dim: int) -> None:
    """``out[i, index[i, j, k], k] += values[i, j, k]``, in the order of j."""
    _write("add", out, index, _like(values, index, out), dim)


def _like(values: Any, index: Any, out: Any) -> Any:
    return np.broadcast_to(np.asarray(values, out.dtype), index.shape)


def _write(name: str, out: Array, index: Any, values: Array, dim: int) -> None:
    read = [array.copy() if np.may_share_memory(array, out) else array for array in (index, values)]
    _launch(name, dim, out, *read)


def _words(x: Any) -> Any:
    return np.ascontiguousarray(x).view(WORDS[x.dtype.itemsize])


def _launch(name: str, dim: int, *arrays: Array) -> None:
    index = arrays[1]
    before, length, after = prod(index.shape[:dim]), index.shape[dim], prod(index.shape[dim + 1 :])
    lanes = [np.ascontiguousarray(array).reshape(before, array.shape[dim], after) for array in arrays]
    launch(loop("loops.layout.lane_loops", name), before * after, max(1, USEFUL // max(1, length)), *lanes)
