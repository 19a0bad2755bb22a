"""Indices of nonzero elements of large arrays, by the loops in ``search_loops.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ... import USEFUL, compiled, loop, or_reference
from ...runtime.threads import launch

BLOCK = 1 << 13  # number of elements in a block


@or_reference
def coordinates(x: Array) -> Any:
    """Return ``np.argwhere(x)``."""
    if type(x) is not ndarray or x.size < USEFUL or x.dtype.kind not in "fiub" or x.dtype.itemsize == 2:
        return None
    if not x.ndim or not x.flags.c_contiguous or not x.flags.aligned or compiled() is None:
        return None
    flat, blocks = x.ravel(), -(-x.size // BLOCK)
    begins = np.zeros(blocks + 1, np.int64)
    launch(loop("loops.layout.search_loops", "counts"), blocks, 2, flat, BLOCK, begins[1:])
    np.cumsum(begins, out=begins)
    out = np.empty((begins[-1], x.ndim), np.int64)
    launch(loop("loops.layout.search_loops", "coordinates"), blocks, 2, flat, np.array(x.shape), BLOCK, begins, out)
    return out
