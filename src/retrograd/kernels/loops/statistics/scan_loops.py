"""The compiled loops of scans along lanes, in flat memory; a range counts lanes.

Several lanes are processed together, to hide the latency of the dependence between steps: adjacent lanes if they are
interleaved in memory (``after`` > 1), otherwise rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.loop_calls import Loop
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from ..elements.scalar_functions import exp_down, log1p_down

_ROWS, _COLUMNS = 4, 512  # number of lanes that are processed together: rows, or adjacent columns


@njit(inline="always")
def _group(lane: int, stop: int, length: int, after: int) -> tuple[int, int, int]:
    """Return the start of the lanes from ``lane`` on that are processed together, their number, and their distance."""
    if after == 1:
        return lane * length, min(_ROWS, stop - lane), length
    return lane // after * length * after + lane % after, min(_COLUMNS, stop - lane, after - lane % after), 1


def _scan(combine: Any) -> Loop:
    """``out[0] = y[0]``, ``out[j] = combine(out[j - 1], x[j], y[j])``, from the last element on if ``backward``.

    The running value has the type of ``zero``; x is read with an offset of ``lag``.
    """

    def body(
        x: np.ndarray,
        y: np.ndarray,
        out: np.ndarray,
        length: int,
        after: int,
        zero: float,
        backward: bool,
        lag: int,
        start: int,
        stop: int,
    ) -> None:
        first, step = ((length - 1) * after, -after) if backward else (0, after)
        totals = np.full(_COLUMNS, zero)
        lane = start
        while lane < stop:
            begin, width, apart = _group(lane, stop, length, after)
            lane += width
            begin += first
            if after == 1 and width == 4:
                p, q, r, s = begin, begin + length, begin + 2 * length, begin + 3 * length
                a, b, c, d = zero + y[p], zero + y[q], zero + y[r], zero + y[s]
                out[p], out[q], out[r], out[s] = a, b, c, d
                for j in range(1, length):
                    at = j * step
                    a = combine(a, x[p + at + lag], y[p + at])
                    b = combine(b, x[q + at + lag], y[q + at])
                    c = combine(c, x[r + at + lag], y[r + at])
                    d = combine(d, x[s + at + lag], y[s + at])
                    out[p + at], out[q + at], out[r + at], out[s + at] = a, b, c, d
                continue
            for j in range(length):
                place = begin + j * step
                late = place + lag * after
                for k in range(width):
                    here = y[place + k * apart]
                    total = combine(totals[k], x[late + k * apart], here) if j > 0 else zero + here
                    totals[k] = total
                    out[place + k * apart] = total

    body.__name__ = combine.py_func.__name__.strip("_")
    return shared(noalias=True)(body)


@_scan
@njit(inline="always")
def sums(total: float, x: float, y: float) -> float:
    return total + y


@_scan
@njit(inline="always")
def products(total: float, x: float, y: float) -> float:
    return total * y


@_scan
@njit(inline="always")
def recurrences(total: float, x: float, y: float) -> float:
    return y + x * total


@_scan
@njit(inline="always")
def log_sums(total: float, x: float, y: float) -> float:
    """log(e^total + e^y), even for equal infinities, whose difference is NaN."""
    away = -abs(total - y)
    return total + y if away != away else (total if total > y else y) + log1p_down(exp_down(away))


@shared(noalias=True)
def products_of_others(x: np.ndarray, out: np.ndarray, length: int, after: int, start: int, stop: int) -> None:
    """Compute the product of the preceding elements, then multiply by the product of the following elements."""
    totals = np.empty(_COLUMNS, np.float64)
    lane = start
    while lane < stop:
        begin, width, apart = _group(lane, stop, length, after)
        lane += width
        totals[:width] = 1.0
        for j in range(length):
            for k in range(width):
                at = begin + j * after + k * apart
                out[at] = totals[k]
                totals[k] *= x[at]
        totals[:width] = 1.0
        for j in range(length - 1, -1, -1):
            for k in range(width):
                at = begin + j * after + k * apart
                out[at] *= totals[k]
                totals[k] *= x[at]


@shared(noalias=True)
def extremes(x: np.ndarray, out: np.ndarray, length: int, after: int, largest: bool, start: int, stop: int) -> None:
    """Find the latest index so far of the largest or smallest element, or of a NaN."""
    if after == 1:
        for row in range(start, stop):
            line, result = x[row * length :][:length], out[row * length :][:length]
            best, place = line[0], 0
            for j in range(length):
                here = line[j]
                if (here >= best if largest else here <= best) | (here != here):
                    best, place = here, j
                result[j] = place
        return
    found, places = np.empty(_COLUMNS, x.dtype), np.empty(_COLUMNS, np.int64)
    lane = start
    while lane < stop:
        begin, width, apart = _group(lane, stop, length, after)
        lane += width
        for j in range(length):
            for k in range(width):
                at = begin + j * after + k * apart
                here = x[at]
                better = (here >= found[k] if largest else here <= found[k]) | (here != here) | (j == 0)
                found[k] = here if better else found[k]
                places[k] = j if better else places[k]
                out[at] = places[k]


@shared(noalias=True)
def foremost(x: np.ndarray, out: np.ndarray, length: int, after: int, largest: bool, start: int, stop: int) -> None:
    """Find the first index of the largest or smallest element, or of a NaN."""
    found, places = np.empty(_COLUMNS, x.dtype), np.empty(_COLUMNS, np.int64)
    lane = start
    while lane < stop:
        begin, width, apart = _group(lane, stop, length, after)
        for k in range(width):
            found[k] = x[begin + k * apart]
            places[k] = 0
        for j in range(1, length):
            for k in range(width):
                here, best = x[begin + j * after + k * apart], found[k]
                better = (here > best if largest else here < best) | ((here != here) & (best == best))
                found[k] = here if better else best
                places[k] = j if better else places[k]
        for k in range(width):
            out[lane + k] = places[k]
        lane += width


@shared(noalias=True)
def leading(
    x: np.ndarray, out: np.ndarray, length: int, after: int, count: int, largest: bool, start: int, stop: int
) -> None:
    """Find the indices of the first elements in order, NaN as the largest, by insertion."""
    found, places = np.empty(count, x.dtype), np.empty(count, np.int64)
    for lane in range(start, stop):
        begin, to = lane // after * length * after + lane % after, lane // after * count * after + lane % after
        for j in range(length):
            here = x[begin + j * after]
            at = min(j, count)
            while at > 0:
                other = found[at - 1]
                if largest:
                    ahead = (here > other) | ((here != here) & (other == other))
                else:
                    ahead = (here < other) | ((here == here) & (other != other))
                if not ahead:
                    break
                at -= 1
                if at < count - 1:
                    found[at + 1], places[at + 1] = other, places[at]
            if at < count:
                found[at], places[at] = here, j
        for j in range(count):
            out[to + j * after] = places[j]
