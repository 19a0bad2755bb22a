"""Lookups by compiled loops: rows of a table, and the classes of logits.

The references stand in ops/indexing/indexing.py and, of the same signatures, in ops/nn/losses/classes.py.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from ...core.devices import extent
from ...core.dtypes import int64
from .. import SEVERAL, USEFUL, compiled, loop, shaped
from ..machine.threads import launch
from ..results import empty

LINE = 16  # columns that a thread takes at once, lest two write to one line of the cache


def takes_table(x: Any, index: Any, values: int, least: int) -> bool:
    """Whether the loops are to be used for so many values at rows of x, or added to them: for at least so many."""
    if not (type(x) is type(index) is np.ndarray and values >= least and x.ndim > 1 and _dense(x)):
        return False
    if index.dtype.kind not in "iu" or not index.size:
        return False
    low, high = extent(index)
    return low >= 0 and high < len(x) and compiled() is not None


def take_rows(x: Any, index: Any) -> Any:
    """``x[index]`` for non-negative numbers of rows."""
    rows = x.reshape(len(x), -1)
    out = empty((index.size, rows.shape[1]), x.dtype)
    launch(loop("sequences.lookup_loops", "take_rows"), len(out), _least(rows), rows, _numbers(index), out)
    return out.reshape(index.shape + x.shape[1:])


def add_rows(out: Any, index: Any, values: Any) -> None:
    """``out[index] += values``, in which repeated numbers of rows add up, in their order."""
    rows = out.reshape(len(out), -1)
    values = np.ascontiguousarray(values, out.dtype).reshape(index.size, rows.shape[1])
    least = max(1, USEFUL // (LINE * index.size), 64 // LINE)
    launch(loop("sequences.lookup_loops", "add_rows"), -(-rows.shape[1] // LINE), least, rows, _numbers(index), values)


def takes_logits(x: Any, index: Any) -> bool:
    """Whether the loops are to be used: for enough logits (N, C), of float32 or float64 in NumPy's memory."""
    return (
        type(x) is type(index) is np.ndarray
        and x.ndim == 2
        and x.size >= SEVERAL
        and _dense(x)
        and compiled() is not None
    )


def cross_entropy(x: Any, index: Any, class_weight: Any, smoothing: float) -> tuple[Any, Any, Any, Any]:
    """The losses without and, with smoothing, for even targets, and the rows' maxima and sums of exponentials."""
    n, classes = x.shape
    rows = empty((2 if smoothing else 1, n), x.dtype)
    top, total = empty((n, 1), x.dtype), empty((n, 1), x.dtype)
    whole = float(classes if class_weight is None else class_weight.sum())
    arguments = x, _numbers(index), _vector(class_weight, x), whole, smoothing > 0, rows, top, total
    launch(loop("sequences.lookup_loops", "cross_entropy"), n, _least(x), *arguments)
    return rows[0], rows[1] if smoothing else None, top, total


def cross_entropy_backward(
    x: Any, top: Any, total: Any, index: Any, factor: Any, picked: Any, spread: Any, class_weight: Any
) -> Any:
    """``softmax(x) * factor``, less ``picked`` at the class, and ``spread * class_weight``."""
    dx = empty(x.shape, x.dtype)
    top, total = _vector(top, x), _vector(total, x)
    vectors = [_vector(vector, x) for vector in (factor, picked, spread, class_weight)]
    launch(
        loop("sequences.lookup_loops", "cross_entropy_backward"),
        len(x),
        _least(x),
        x,
        top,
        total,
        _numbers(index),
        *vectors,
        dx,
    )
    return dx


def _dense(x: Any) -> bool:
    return bool(x.dtype.char in "fd" and x.flags.c_contiguous and x.flags.aligned)


def _is_dense(values: Any, dtype: Any) -> bool:
    return type(values) is np.ndarray and values.dtype is dtype and values.ndim > 0 and values.flags.c_contiguous


def _numbers(index: Any) -> Any:
    flat = shaped(index, (index.size,))
    return flat if _is_dense(flat, int64) else np.ascontiguousarray(flat, np.int64)


_no_numbers = cache(partial(np.empty, 0))  # of a dtype


def _vector(values: Any, x: Any) -> Any:
    if values is None:
        return _no_numbers(x.dtype)
    return values if _is_dense(values, x.dtype) else np.ascontiguousarray(values, x.dtype)


def _least(rows: Any) -> int:
    return USEFUL // (rows.shape[1] or 1) or 1
