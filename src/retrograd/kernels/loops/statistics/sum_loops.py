"""The compiled loops of sums and products."""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _sum

_BLOCK = 256  # number of elements in a block, whose order of summation is left to LLVM


@shared()
def sums(x: np.ndarray, length: int, out: np.ndarray, start: int, stop: int) -> None:
    """Sum the parts of ``length`` elements of each row; the last part may be shorter."""
    parts = out.shape[1]
    for at in range(start, stop):
        row, first = at // parts, at % parts * length
        part = x[row, first : min(x.shape[1], first + length)]
        total = 0.0
        for begin in range(0, part.size, _BLOCK):
            total += _sum(part[begin : begin + _BLOCK])
        out[row, at % parts] = total


@njit(fastmath={"reassoc"}, error_model="numpy")
def _product(row: np.ndarray) -> float:
    total = 1.0
    for j in range(row.size):
        total *= row[j]
    return total


@shared()
def products(x: np.ndarray, length: int, out: np.ndarray, start: int, stop: int) -> None:
    """Multiply the elements of each part, for parts as in ``sums``."""
    parts = out.shape[1]
    for at in range(start, stop):
        row, first = at // parts, at % parts * length
        out[row, at % parts] = _product(x[row, first : min(x.shape[1], first + length)])
