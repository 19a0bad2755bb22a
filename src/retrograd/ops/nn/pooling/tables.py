"""Pooling of small arrays by cached tables of positions: one ``take`` reads the elements of all windows."""

from __future__ import annotations

from functools import lru_cache
from math import isnan, prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.summation import accurate_sum, small_sum
from ....kernels.loops.images.pooling import TABLED
from ..spatial.sliding_windows import Ints, Window, axis_taps


def table(x: Array, window: Window) -> Any:
    """Return the positions read by windows in a flattened ``(N, C, *size)``: ``(prod(kernel), N * C * prod(out))``.

    Return None if a window is not entirely inside x, or if tables are not used for arrays of x's type and size.
    """
    if type(x) is not ndarray or not 0 < x.shape[0] * x.shape[1] * window.reads <= TABLED:
        return None
    return _table(x.shape[0] * x.shape[1], window)


@lru_cache(maxsize=256)
def _table(planes: int, window: Window) -> Array | None:
    reads = []
    for axis, count in enumerate(window.out):
        found = axis_taps(window, axis)
        if len(found) < window.kernel[axis] or any(places != slice(0, count) for _, places, _ in found):
            return None
        reads.append(np.array([range(read.start, read.stop, read.step) for _, _, read in found]))
    return in_planes(flat(reads, window.size), planes, window.size)


def flat(reads: list[Any], size: Ints) -> Array:
    """Return the positions of boxes in a flattened plane, from positions (offsets, windows) along each axis."""
    axes = len(size)
    places: Any = 0
    for axis, read in enumerate(reads):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = read.shape
        places = places * size[axis] + read.reshape(shape)
    return places.reshape(prod([len(read) for read in reads]), -1)


def in_planes(places: Array, planes: int, size: Ints) -> Array:
    """Repeat positions in one plane for several planes; the cached array must not be written."""
    starts = np.arange(planes) * prod(size)
    whole = (starts[:, None] + places[:, None, :]).reshape(len(places), -1)
    whole.flags.writeable = False
    return whole


def maxima(x: Array, places: Array) -> tuple[Array, Array] | None:
    """Return the maximum of each window and its elements ``(prod(kernel), windows)``; None if there may be NaN."""
    read = x.ravel().take(places)
    best = np.maximum.reduce(read, 0)
    return None if isnan(accurate_sum(best)) else (best, read)


def sums(x: Array, places: Array) -> Array:
    """Return the sum of each window."""
    read = x.ravel().take(places)
    return small_sum(read, (0,), False) if read.dtype.char in "fd" else accurate_sum(read, (0,))


def place_at(g: Array, winners: Array, places: Array, window: Window) -> Array:
    """Add each window's element at the position of its winner."""
    out = np.zeros((*g.shape[:2], *window.size), g.dtype)
    chosen = places[winners.ravel(), _numbers(winners.size)]
    if window.is_partition:
        out.ravel()[chosen] = g.ravel()
    else:
        np.add.at(out.ravel(), chosen, g.ravel())
    return out


def spread(g: Array, places: Array, window: Window) -> Array:
    """Add each window's element at all positions that the window reads."""
    out = np.zeros((*g.shape[:2], *window.size), g.dtype)
    if window.is_partition:
        out.ravel()[places] = g.ravel()
    else:
        shares = np.empty(places.shape, g.dtype)
        shares[:] = g.ravel()
        np.add.at(out.ravel(), places.ravel(), shares.ravel())  # add.at of NumPy 2.4 would broadcast g wrongly
    return out


@lru_cache(maxsize=64)
def _numbers(count: int) -> Array:
    return np.arange(count)
