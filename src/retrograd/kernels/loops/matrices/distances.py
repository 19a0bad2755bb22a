"""Distances of all pairs of rows, by the loops in ``distance_loops.py``; the reference: ops/nn/similarity.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ... import USEFUL, compiled, loop
from ...runtime.threads import launch


def takes(x: Array) -> bool:
    """Return whether to use the loops: float32 or float64, with enough elements in the differences of all pairs."""
    return type(x) is ndarray and x.dtype.char in "fd" and len(x) * x.size >= USEFUL and compiled() is not None


def _least(x: Array) -> int:
    """Return the minimum number of rows per thread."""
    return max(1, USEFUL // x.size)


def pdist(x: Array) -> Any:
    """Return the distances of rows i < j."""
    out = np.empty(len(x) * (len(x) - 1) // 2, x.dtype)
    launch(loop("loops.matrices.distance_loops", "pdist"), len(x), _least(x), np.ascontiguousarray(x), out)
    return out


def pdist_backward(w: Array, x: Array) -> Any:
    """``out_i = sum_j w_ij (x_i - x_j)``."""
    out = np.empty(x.shape, x.dtype)
    arrays = np.ascontiguousarray(w), np.ascontiguousarray(x), out
    launch(loop("loops.matrices.distance_loops", "pdist_backward"), len(x), _least(x), *arrays)
    return out
