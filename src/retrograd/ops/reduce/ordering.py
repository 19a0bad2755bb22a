"""Sort large NumPy arrays along a dimension on several threads, and return the indices.

A number of up to four bytes and its index are packed into one 64-bit word, with the index in the low bits. Sorting the
words with NumPy's vectorized sort is therefore stable, and the indices can be read from the sorted words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.fp_warnings import silent
from ...kernels.runtime.threads import in_shares

LARGE = 1 << 12  # from this number of elements on, sorting words is faster than a stable argsort
BLOCK = 1 << 15  # the number of elements in a block, whose words fit in the cache
PLACES = 0xFFFFFFFF  # the bits of a word that hold the index

Work = Callable[[Any], Any]  # a function from rows (r, n) to the requested indices of each row


def takes(x: Array, dim: int) -> bool:
    """Return whether to sort an array with the functions of this module."""
    return type(x) is ndarray and x.size >= LARGE and 1 < x.shape[dim] <= PLACES >> 1 and x.dtype.kind in "biuf"


def order(x: object, dim: int, descending: bool) -> Array:
    """Return the indices of a stable sort, with NaN as the largest."""
    words = _words_of(x, descending)
    if words is None:
        return _by_rows(x, dim, partial(_stably, descending=descending))
    return _by_rows(x, dim, lambda rows: np.sort(words(rows), axis=-1) & PLACES)


def first(x: Array, dim: int, k: int, descending: bool) -> Array:
    """Return the first k indices of ``order``."""
    words = _words_of(x, descending)
    if words is None or x.shape[dim] > BLOCK:
        return _by_rows(x, dim, partial(_candidates, k=k, descending=descending))

    def work(rows: object) -> Array:
        found = words(rows)
        if 0 < k < found.shape[1]:
            found.partition(k - 1, axis=-1)
        return np.sort(found[:, :k], axis=-1) & PLACES

    return _by_rows(x, dim, work)


def at(x: object, dim: int, k: int) -> Array:
    """Return the index of the k-th element in ascending order, with length 1 along the dimension."""
    words = _words_of(x, False)
    if words is None:
        return _by_rows(x, dim, partial(_at, k=k))

    def work(rows: object) -> Array:
        found = words(rows)
        found.partition(k, axis=-1)
        return found[:, k : k + 1] & PLACES

    return _by_rows(x, dim, work)


def _by_rows(x: Any, dim: int, work: Work) -> Array:
    """Apply ``work`` to blocks of rows, the slices of x along the dimension."""
    lanes = np.moveaxis(x, dim, -1)
    rows = lanes.reshape(-1, x.shape[dim])
    several = max(1, BLOCK // rows.shape[1])
    found: dict[int, Any] = {}

    def share(start: int, stop: int) -> None:
        with silent():
            for at in range(start, stop, several):
                found[at] = work(np.ascontiguousarray(rows[at : min(stop, at + several)]))

    in_shares(share, len(rows), several)
    places = np.concatenate([found[at] for at in sorted(found)])
    return np.ascontiguousarray(np.moveaxis(places.reshape(*lanes.shape[:-1], -1), -1, dim))


def _words_of(x: Any, downward: bool) -> Work | None:
    """Return a function that packs rows into words; None if the numbers in x have more than 32 bits."""
    if x.dtype.itemsize < 8:
        return partial(_words, low=0, downward=downward)
    if x.dtype.kind == "i":
        low, high = int(x.min()), int(x.max())
        if high - low < 1 << 31:
            return partial(_words, low=low, downward=downward)
    return None


def _words(rows: Array, low: int, downward: bool) -> Array:
    numbers = rows
    if rows.dtype.kind == "f":
        bits = np.dtype(f"i{rows.dtype.itemsize}")
        numbers = (rows + rows.dtype.type(0)).view(bits)  # turns -0 into 0
        missing = rows != rows
        if missing.any():
            numbers[missing] = np.asarray(np.nan, rows.dtype).view(bits)
        top = np.iinfo(bits).max
        numbers ^= (numbers >> (8 * bits.itemsize - 1)) & bits.type(top)
    words = numbers.astype(np.int64)
    if low:
        words -= low
    if downward:
        np.invert(words, out=words)
    words <<= 32
    words |= np.arange(rows.shape[-1])
    return words


# For numbers of more than 32 bits: NumPy's fastest sort, which is not stable, and for rows with equal elements its
# stable sort.


def _stably(rows: Array, descending: bool) -> Array:
    if descending:
        return rows.shape[1] - 1 - _stably(np.ascontiguousarray(rows[:, ::-1]), False)[:, ::-1]
    found = rows.argsort(axis=-1)
    values = np.take_along_axis(rows, found, axis=-1)
    tied = (values[:, 1:] == values[:, :-1]).any(axis=-1)
    if rows.dtype.kind == "f":
        tied |= np.isnan(values[:, -2])
    if tied.any():
        found[tied] = rows[tied].argsort(axis=-1, kind="stable")
    return found


def _candidates(rows: Array, k: int, descending: bool) -> Array:
    n = rows.shape[1]
    if not 0 < 8 * k < n:
        return _stably(rows, descending)[:, :k]
    part = rows.argpartition(n - k if descending else k - 1, axis=-1)
    part = np.sort(part[:, n - k :] if descending else part[:, :k], axis=-1)
    values = np.take_along_axis(rows, part, axis=-1)
    if descending:
        chosen = k - 1 - values[:, ::-1].argsort(axis=-1, kind="stable")[:, ::-1]
    else:
        chosen = values.argsort(axis=-1, kind="stable")
    return np.take_along_axis(part, chosen, axis=-1)


def _at(rows: Array, k: int) -> Array:
    found = rows.argpartition(k, axis=-1)[:, k : k + 1]
    tied = np.count_nonzero(rows == np.take_along_axis(rows, found, axis=-1), axis=-1) != 1  # NaN counts as a tie
    if tied.any():
        found[tied] = rows[tied].argsort(axis=-1, kind="stable")[:, k : k + 1]
    return found
