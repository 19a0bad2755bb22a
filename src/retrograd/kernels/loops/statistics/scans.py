"""Scans along a dimension, by the loops in ``scan_loops.py``; the references are in ops/reduce/scans.py.

The running value has double precision and is rounded for each result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.opaque_calls import whole
from ... import SEVERAL, USEFUL, compiled, loop, or_reference
from ...runtime.result_arrays import empty
from ...runtime.threads import launch

LEAST = 1 << 10  # minimum number of elements for which a loop is faster than one NumPy call
LEADING = 64  # maximum ``count`` of ``leading``: the position of a new element is found by linear search


def _takes(kinds: str, *arrays: Array, least: int = LEAST) -> bool:
    x = arrays[0]
    if type(x) is not ndarray or x.size < least or x.dtype.char not in kinds:
        return False
    for y in arrays[1:]:
        if type(y) is not ndarray or y.shape != x.shape or y.dtype is not x.dtype:
            return False
    return compiled() is not None


def _launch(name: str, out: Array, dim: int, arrays: tuple[Array, ...], *more: object) -> Array:
    x = arrays[0]
    length, after = x.shape[dim], prod(x.shape[dim + 1 :])
    flat = [each.ravel() for each in (*arrays, out)]
    lanes, least = x.size // length, USEFUL // length or 1
    launch(loop("loops.statistics.scan_loops", name), lanes, least, *flat, length, after, *more)
    return out


def scanning(name: str, kinds: str = "fd") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a scan of arrays of one shape along ``dim``, from the last element on if ``backward``.

    The first of two arrays has the factors; a factor between two elements has the index of the later element.
    """

    def enter(reference: Callable[..., object]) -> Callable[..., Any]:
        @whole
        @wraps(reference)
        def run_scan(*arrays: Any, dim: int, backward: bool = False) -> Any:
            least = LEAST if len(arrays) == 1 and not backward else SEVERAL
            if not _takes(kinds, *arrays, least=least):
                return reference(*arrays, dim=dim, backward=backward)
            x, y = arrays[0], arrays[-1]
            zero = 0 if y.dtype.kind == "i" else np.float64(0)
            lag = int(backward and len(arrays) == 2)
            return _launch(name, empty(y.shape, y.dtype), dim, (x, y), zero, backward, lag)

        return run_scan

    return enter


def of_others(reference: Callable[..., object]) -> Callable[..., Any]:
    """Decorate the function that returns the products of all other elements along ``dim``."""

    @whole
    @wraps(reference)
    def products_of_others(x: Any, dim: int) -> Any:
        if not _takes("fd", x, least=SEVERAL):
            return reference(x, dim)
        return _launch("products_of_others", empty(x.shape, x.dtype), dim, (x,))

    return products_of_others


@or_reference
def foremost(x: Array, dim: int, largest: bool) -> Any:
    """Return ``x.argmax(dim)`` or ``x.argmin(dim)``, or None to use the reference, as for the last dimension."""
    if dim == x.ndim - 1 or not _takes("fdbhilBH", x):
        return None
    out = np.empty(x.shape[:dim] + x.shape[dim + 1 :], np.int64)
    return _launch("foremost", out, dim, (x,), largest)


@or_reference
def latest(x: Array, dim: int, largest: bool) -> Any:
    """Return the running argmax or argmin along the dimension, or None to use the reference."""
    if not _takes("fdbhilBH", x):
        return None
    return _launch("extremes", np.empty(x.shape, np.int64), dim, (x,), largest)


@or_reference
def leading(x: Array, dim: int, count: int, largest: bool) -> Any:
    """Return the first ``count`` indices of a stable sort, NaN as the largest; None to use the reference.

    For elements in random order, the insertion moves ``count^2 / 4`` elements whenever the length doubles.
    """
    if not 0 < count <= LEADING or not _takes("fdbhilBH", x, least=SEVERAL) or count * count > 2 * x.shape[dim]:
        return None
    out = np.empty((*x.shape[:dim], count, *x.shape[dim + 1 :]), np.int64)
    return _launch("leading", out, dim, (x,), count, largest)
