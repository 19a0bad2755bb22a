"""The compiled loops of sums and products."""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _sum

_BLOCK = 256  # elements that are added up in any order


@shared()
def sums(x: np.ndarray, length: int, out: np.ndarray, start: int, stop: int) -> None:
    """Of the parts of so many elements of each row, the last of which may be shorter."""
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
    """The same of products."""
    parts = out.shape[1]
    for at in range(start, stop):
        row, first = at // parts, at % parts * length
        out[row, at % parts] = _product(x[row, first : min(x.shape[1], first + length)])
