"""Lookups by compiled loops: rows of a table, and the classes of logits.

The references are in ops/indexing/indexing.py, ops/nn/losses/classes.py and class_margins.py.
"""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import extent
from ....core.arrays.dtypes import int64
from ... import SEVERAL, SLOW, USEFUL, compiled, launch_planes, loop, shaped
from ...runtime.result_arrays import empty
from ...runtime.threads import launch

LINE = 16  # columns per item, so that two threads do not write to one cache line


def takes_table(x: Array, index: Array, values: int, least: int) -> bool:
    """Return whether to add to rows of x by a loop: for at least ``least`` values."""
    if not (type(x) is type(index) is np.ndarray and values >= least and x.ndim > 1 and _dense(x)):
        return False
    if index.dtype.kind not in "iu" or not index.size:
        return False
    low, high = extent(index)
    return low >= 0 and high < len(x) and compiled() is not None


def add_rows(out: Array, index: Array, values: Array) -> None:
    """Compute ``out[index] += values``; values for repeated rows are added in order."""
    rows = out.reshape(len(out), -1)
    values = np.ascontiguousarray(values, out.dtype).reshape(index.size, rows.shape[1])
    least = max(1, USEFUL // (LINE * index.size), 64 // LINE)
    launch(
        loop("loops.sequences.lookup_loops", "add_rows"),
        -(-rows.shape[1] // LINE),
        least,
        rows,
        _numbers(index),
        values,
    )


def takes_logits(x: Array, index: Array, smoothing: float) -> bool:
    """Return whether to use the loops: for enough logits (N, C), NumPy arrays of float32 or float64.

    Logits (N, C, ...) are also supported if there are enough of them and targets are not smoothed.
    """
    return (
        type(x) is type(index) is np.ndarray
        and x.size >= (SEVERAL if x.ndim == 2 else SLOW)
        and (x.ndim == 2 or not smoothing)
        and _dense(x)
        and compiled() is not None
    )


def cross_entropy(x: Array, index: Any, class_weight: Any, smoothing: float) -> tuple[Any, Any, Any, Any]:
    """Return the losses, the losses for uniform targets (or None), row maxima, and row sums of exponentials."""
    if x.ndim > 2:
        return _cross_entropy_of_planes(x, index)
    n, classes = x.shape
    rows = empty((2 if smoothing else 1, n), x.dtype)
    top, total = empty((n, 1), x.dtype), empty((n, 1), x.dtype)
    # The loop reads ``whole`` only with smoothing.
    whole = float(class_weight.sum() if smoothing and class_weight is not None else classes)
    arguments = x, _numbers(index), _vector(class_weight, x), whole, smoothing > 0, rows, top, total
    launch(loop("loops.sequences.lookup_loops", "cross_entropy"), n, _least(x), *arguments)
    return rows[0], rows[1] if smoothing else None, top, total


def class_margins(
    x: Array, index: Array, weight: Array | None, margin: float, divisor: int
) -> tuple[Array, Array] | None:
    """Return the loss of each row, and its derivatives divided by ``divisor``; None to use the reference.

    ``index`` has the targets of each row; targets below 0 are ignored.
    """
    if not takes_logits(x, index, 0):
        return None
    rows, slopes = empty((len(x),), x.dtype), np.zeros(x.shape, x.dtype)
    arguments = x, np.ascontiguousarray(index, np.int64), x.dtype.type(margin), _vector(weight, x), float(divisor)
    own = np.zeros(x.shape, np.bool_)
    launch(loop("loops.sequences.lookup_loops", "class_margins"), len(x), _least(x), *arguments, own, rows, slopes)
    return rows, slopes


def _lanes(x: Array) -> tuple[int, int, int]:
    return len(x), x.shape[1], prod(x.shape[2:])


def _planes(array: Array, lanes: tuple[int, int, int]) -> Any:
    return array.reshape(lanes[0], 1, lanes[2])


def _cross_entropy_of_planes(x: Array, index: Any) -> tuple[Any, None, Any, Any]:
    shape, lanes = (len(x), *x.shape[2:]), _lanes(x)
    rows, top, total = [empty(shape, x.dtype) for _ in range(3)]
    planes = [_planes(array, lanes) for array in (_numbers(index), rows, top, total)]
    launch_planes("cross_entropy", lanes, x.reshape(lanes), *planes)
    return rows, None, top[:, None], total[:, None]


def cross_entropy_backward(
    x: Array,
    top: Array,
    total: Array,
    index: Array,
    factor: Array,
    picked: Array,
    spread: Array | None,
    class_weight: Array | None,
    in_place: bool = False,
) -> Array:
    """Return ``softmax(x) * factor`` minus ``picked`` at the class and ``spread * class_weight``, or write it to x."""
    dx = x if in_place else empty(x.shape, x.dtype)
    if x.ndim > 2:
        lanes = _lanes(x)
        shares = [np.broadcast_to(array, index.shape).astype(x.dtype) for array in (factor, picked)]
        planes = [_planes(array, lanes) for array in (top, total, _numbers(index), *shares)]
        launch_planes("cross_entropy_backward", lanes, x.reshape(lanes), *planes, dx.reshape(lanes))
        return dx
    vectors = [_vector(vector, x) for vector in (top, total, factor, picked, spread, class_weight)]
    vectors.insert(2, _numbers(index))
    name = "cross_entropy_in_place" if in_place else "cross_entropy_backward"
    launch(loop("loops.sequences.lookup_loops", name), len(x), _least(x), x, *vectors, *(() if in_place else (dx,)))
    return dx


def _dense(x: Array) -> bool:
    return bool(x.dtype.char in "fd" and x.flags.c_contiguous and x.flags.aligned)


def _is_dense(values: Array, dtype: Any) -> bool:
    return type(values) is np.ndarray and values.dtype is dtype and values.ndim > 0 and values.flags.c_contiguous


def _numbers(index: Any) -> Any:
    flat = shaped(index, (index.size,))
    return flat if _is_dense(flat, int64) else np.ascontiguousarray(flat, np.int64)


_no_numbers = cache(partial(np.empty, 0))  # an empty array of a dtype


def _vector(values: Array | None, x: Array) -> Any:
    if values is None:
        return _no_numbers(x.dtype)
    return values if _is_dense(values, x.dtype) else np.ascontiguousarray(values, x.dtype)


def _least(rows: Array) -> int:
    return USEFUL // (rows.shape[1] or 1) or 1
