"""Sums of squares, of numbers or of deviations from the mean, by the loop in ``moment_loops.py``.

The references are in ops/reduce/norms.py and variance.py. Sums use double precision and are rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ... import SEVERAL, USEFUL, compiled, loop, or_reference
from ...runtime.threads import launch

BLOCK = 1 << 14  # number of elements in a block if a whole array is summed


@or_reference
def squares(x: Array, dim: tuple[int, ...] | None, keepdim: bool, centred: bool) -> Any:
    """Return ``sum(x^2)`` or ``sum((x - mean)^2)``, over all or the last dimension; None to use the reference."""
    # The reference for sums of squares, which needs only x * x, is fast for arrays below USEFUL.
    least = SEVERAL if centred else USEFUL
    if type(x) is not ndarray or x.size < least or x.dtype.char not in "fd" or not x.flags.c_contiguous:
        return None
    whole = dim is None or len(dim) == x.ndim
    length = BLOCK if whole else x.shape[-1]
    if not whole and (dim != (x.ndim - 1,) or length < SEVERAL and x.size >= USEFUL) or compiled() is None:
        return None
    rows = -(-x.size // length)
    means, sums = np.empty(rows), np.empty(rows)
    least = max(1, USEFUL // length)
    launch(loop("loops.statistics.moment_loops", "moments"), rows, least, x.ravel(), length, centred, means, sums)
    if whole:
        total = sums.sum() if rows > 1 else sums[0]
        if centred and rows > 1:
            counts = np.full(len(sums), float(length))
            counts[-1] = x.size - length * (len(sums) - 1)
            total += (counts * np.square(means - np.average(means, weights=counts))).sum()
        out = np.array(total, x.dtype)
        return out.reshape((1,) * x.ndim) if keepdim else out
    return sums.astype(x.dtype).reshape(x.shape[:-1] + ((1,) if keepdim else ()))
