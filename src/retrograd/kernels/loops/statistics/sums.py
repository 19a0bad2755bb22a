"""Sums and products of large arrays over all, the last, or other dimensions, by the loops in ``sum_loops.py``.

The references are NumPy's functions. The loops use double precision and round once; results do not depend on the number
of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.summation import LARGE, accurate_sum
from ... import WORTH_SHARING, compiled, loop, or_reference
from ...runtime.threads import launch
from ..elements.ufuncs import reduced

PART = 1 << 14  # number of elements in each part of a row that is summed separately
ROWS, ROW_PART = 32, 1 << 17  # minimum number of rows, and usual number of elements, of each part of a matrix
SHORT = 64  # maximum row length for which the reference is as fast as the loop


@or_reference
def summed(x: Array, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """Return ``x.sum(dim, keepdims=keepdim)`` for float32, float64 or int64, or None to use the reference."""
    if x.dtype == np.int64:
        return reduced(np.add, x, dim, keepdim)
    if type(x) is not ndarray or x.size < LARGE or x.dtype.char not in "fd":
        return None
    gone = set(range(x.ndim) if dim is None else dim)
    if x.ndim - 1 not in gone:
        return _over_rows(x, sorted(gone), keepdim)
    kept = next((axis + 1 for axis in reversed(range(x.ndim)) if axis not in gone), 0)
    length = prod(x.shape[kept:])  # number of elements in a row
    parts = _parts("sums", x, length)
    if parts is None:
        return None
    total = (parts.sum(1) if parts.shape[1] > 1 else parts).reshape(x.shape[:kept])
    others = tuple([axis for axis in range(kept) if axis in gone])
    if others:
        total = accurate_sum(total, others)
    shape = [1 if axis in gone else n for axis, n in enumerate(x.shape) if keepdim or axis not in gone]
    return total.astype(x.dtype).reshape(shape)


@or_reference
def multiplied(x: object, dim: int | None, keepdim: bool) -> Any:
    """Return ``x.prod(dim, keepdims=keepdim)``, or None; along leading dimensions in the array's own precision."""
    if type(x) is not ndarray or x.size < LARGE or x.dtype.char not in "fd" and x.dtype != np.int64:
        return None
    if x.dtype.kind == "i" or dim not in (None, x.ndim - 1):
        return reduced(np.multiply, x, dim, keepdim)
    parts = _parts("products", x, x.size if dim is None else x.shape[-1])
    if parts is None:
        return None
    rest = (1,) * (x.ndim if dim is None else 1) if keepdim else ()
    return parts.prod(1).astype(x.dtype).reshape((() if dim is None else x.shape[:-1]) + rest)


def _over_rows(x: Array, axes: list[int], keepdim: bool) -> Array | None:
    """Return the sum over adjacent dimensions before the last one, by a loop on parts of rows, or None."""
    if not axes or not _is_dense(x):
        return None
    first, last = axes[0], axes[-1] + 1
    before, rows, width = prod(x.shape[:first]), prod(x.shape[first:last]), prod(x.shape[last:])
    if last - first != len(axes) or rows < 2 * ROWS or width < ROWS:
        return None
    each = max(ROWS, ROW_PART // width)
    parts = np.empty((before, -(-rows // each), width))
    least = max(1, WORTH_SHARING // (each * width))
    args = x.reshape(before, rows, width), each, parts
    launch(loop("loops.statistics.sum_loops", "row_sums"), before * parts.shape[1], least, *args)
    between = (1,) * len(axes) if keepdim else ()
    return parts.sum(1).astype(x.dtype).reshape(x.shape[:first] + between + x.shape[last:])


def _is_dense(x: Array) -> bool:
    return x.flags.c_contiguous and x.flags.aligned and compiled() is not None


def _parts(name: str, x: Array, length: int) -> Any:
    """Return the results of a loop on parts of rows, in double precision; None to use the reference."""
    if length <= SHORT or not _is_dense(x):
        return None
    size = min(length, PART)
    parts = np.empty((x.size // length, -(-length // size)))
    least = max(1, WORTH_SHARING // size)
    launch(loop("loops.statistics.sum_loops", name), parts.size, least, x.reshape(-1, length), size, parts)
    return parts
