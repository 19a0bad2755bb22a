"""The order of large NumPy arrays along a dimension, by all threads: at which places the sorted elements stand.

A number of up to four bytes and its place are one word, the place below. So equal numbers have their order, words are
sorted and partitioned with NumPy's vector instructions, and what they were made of is read off them.
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

LARGE = 1 << 12  # elements from which words pay
BLOCK = 1 << 15  # elements of a block, whose words stay in the cache
PLACES = 0xFFFFFFFF  # the part of a word that is the place

Work = Callable[[Any], Any]  # of rows (r, n): the places wanted of each


def takes(x: Array, dim: int) -> bool:
    """Whether an array's order is to be found here."""
    return type(x) is ndarray and x.size >= LARGE and 1 < x.shape[dim] <= PLACES >> 1 and x.dtype.kind in "biuf"


def order(x: object, dim: int, descending: bool) -> Any:
    """The places of the elements in order, equal elements in theirs, NaN as the largest."""
    words = _words_of(x, descending)
    if words is None:
        return _by_rows(x, dim, partial(_stably, descending=descending))
    return _by_rows(x, dim, lambda rows: np.sort(words(rows), axis=-1) & PLACES)


def first(x: Array, dim: int, k: int, descending: bool) -> Any:
    """The places of the first k elements of that order."""
    words = _words_of(x, descending)
    if words is None or x.shape[dim] > BLOCK:
        return _by_rows(x, dim, partial(_candidates, k=k, descending=descending))

    def work(rows: object) -> Any:
        found = words(rows)
        if 0 < k < found.shape[1]:
            found.partition(k - 1, axis=-1)
        return np.sort(found[:, :k], axis=-1) & PLACES

    return _by_rows(x, dim, work)


def at(x: object, dim: int, k: int) -> Any:
    """The place of the element with the number k in ascending order, with length 1 along the dimension."""
    words = _words_of(x, False)
    if words is None:
        return _by_rows(x, dim, partial(_at, k=k))

    def work(rows: object) -> Any:
        found = words(rows)
        found.partition(k, axis=-1)
        return found[:, k : k + 1] & PLACES

    return _by_rows(x, dim, work)


def _by_rows(x: Any, dim: int, work: Work) -> Any:
    """What ``work`` finds in blocks of rows, the lanes of x along the dimension."""
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
    """The function that makes words of rows, for the numbers in x; None where a number needs more than half a word."""
    if x.dtype.itemsize < 8:
        return partial(_words, low=0, downward=downward)
    if x.dtype.kind == "i":
        low, high = int(x.min()), int(x.max())
        if high - low < 1 << 31:
            return partial(_words, low=low, downward=downward)
    return None


def _words(rows: Any, low: int, downward: bool) -> Any:
    numbers = rows
    if rows.dtype.kind == "f":
        bits = np.dtype(f"i{rows.dtype.itemsize}")
        numbers = (rows + rows.dtype.type(0)).view(bits)  # there is one zero then
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


# Where a number has no room beside its place: NumPy's fastest, which leaves equal elements in any order, and for rows
# that have some its stable sort.


def _stably(rows: Array, descending: bool) -> Any:
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


def _candidates(rows: Array, k: int, descending: bool) -> Any:
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


def _at(rows: Array, k: int) -> Any:
    found = rows.argpartition(k, axis=-1)[:, k : k + 1]
    tied = np.count_nonzero(rows == np.take_along_axis(rows, found, axis=-1), axis=-1) != 1  # so is NaN
    if tied.any():
        found[tied] = rows[tied].argsort(axis=-1, kind="stable")[:, k : k + 1]
    return found
