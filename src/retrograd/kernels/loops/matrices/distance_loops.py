"""The compiled loops over pairs of rows."""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared


@njit(inline="always")
def _before(i: int, n: int) -> int:
    """Return the number of pairs whose first row is before row i."""
    return i * (2 * n - i - 1) // 2


@shared("reassoc", "contract")
def pdist(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    n = len(x)
    for i in range(start, stop):
        at = _before(i, n) - i - 1
        for j in range(i + 1, n):
            total = x.dtype.type(0)
            for k in range(x.shape[1]):
                d = x[i, k] - x[j, k]
                total += d * d
            out[at + j] = np.sqrt(total)


@shared("contract", noalias=True)
def pdist_backward(w: np.ndarray, x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    n = len(x)
    for i in range(start, stop):
        out[i] = 0
        for j in range(n):
            if j != i:
                first, second = min(i, j), max(i, j)
                share = w[_before(first, n) + second - first - 1]
                for k in range(x.shape[1]):
                    out[i, k] += share * (x[i, k] - x[j, k])
