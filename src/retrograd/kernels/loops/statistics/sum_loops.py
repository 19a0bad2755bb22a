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


@shared("reassoc", noalias=True)
def row_sums(x: np.ndarray, length: int, out: np.ndarray, start: int, stop: int) -> None:
    """Sum parts of ``length`` rows of each matrix; the last part of a matrix may be shorter."""
    parts = out.shape[1]
    for at in range(start, stop):
        matrix, first = x[at // parts], at % parts * length
        rows, total = matrix[first : min(len(matrix), first + length)], out[at // parts, at % parts]
        whole = len(rows) // 4 * 4
        for j in range(total.size):
            total[j] = 0
        for i in range(0, whole, 4):
            a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for j in range(total.size):
                total[j] += (np.float64(a[j]) + b[j]) + (np.float64(c[j]) + d[j])
        for i in range(whole, len(rows)):
            row = rows[i]
            for j in range(total.size):
                total[j] += row[j]


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
