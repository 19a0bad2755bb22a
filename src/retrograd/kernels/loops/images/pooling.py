"""Maxima and means of windows over ``(N, C, *size)`` by compiled loops.

The references are in ops/nn/pooling/maximum.py and ops/nn/pooling/average.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.named_tuples import NamedTuple
from ... import SEVERAL, WORTH_SHARING, compiled, loop
from ...runtime.result_arrays import empty
from ...runtime.threads import launch
from .three_axes import Window3, in_three_axes

TABLED = 1 << 12  # maximum number of elements read by all windows for which tables of positions are fastest for sums


def takes(x: Array, window: Any, least: int = SEVERAL) -> bool:
    """Return whether to use the loops along rows of windows, which must read at least ``least`` elements.

    Maxima of bfloat16 are computed for adjacent windows of 2 x 2 elements.
    """
    return (
        type(x) is np.ndarray
        and x.dtype.char in ("fdE" if window.kernel == window.stride == (2, 2) and window.is_partition else "fd")
        and len(x) * x.shape[1] * window.reads >= least
        and compiled() is not None
    )


def reads(x: Array, elements: int) -> bool:
    """Return whether to use a loop on this array that reads this number of elements."""
    return type(x) is np.ndarray and x.dtype.char in "fd" and elements >= SEVERAL and compiled() is not None


def max_at(x: Array, corner: Array, offsets: Array) -> Array:
    """Return the position in its plane of each window's maximum, over elements at ``offsets`` from its corner."""
    planes = x.shape[0] * x.shape[1]
    index = np.empty_like(corner)
    least = max(1, WORTH_SHARING // (corner.shape[2] * len(offsets)))
    arrays = np.ascontiguousarray(x).reshape(planes, -1), corner.reshape(planes, -1), offsets
    launch(loop("loops.images.pooling_loops", "max_at"), planes, least, *arrays, index.reshape(planes, -1))
    return index


def max_among(x: Array, places: Any) -> Any:
    """Return the position in its plane of each window's maximum, over elements at ``places (windows, reads)``."""
    planes = x.shape[0] * x.shape[1]
    index = np.empty((planes, len(places)), np.int64)
    arrays = np.ascontiguousarray(x).reshape(planes, -1), places, index
    launch(loop("loops.images.pooling_loops", "max_among"), planes, max(1, WORTH_SHARING // places.size), *arrays)
    return index


class _Layout(NamedTuple):
    """The shapes of results, and of all arrays as planes, for windows over ``(N, C, *size)``."""

    outer: tuple[int, ...]  # the shape with one element per window
    # the shape of the array that windows read
    inner: tuple[int, ...]
    windows: tuple[int, ...]
    places: tuple[int, ...]
    work: int  # operations per plane
    axes: Window3


@lru_cache(maxsize=1024)
def _layout(images: int, channels: int, window: Any) -> _Layout:
    count, missing = images * channels, (1,) * (3 - len(window.size))
    outer, inner = (images, channels, *window.out), (images, channels, *window.size)
    windows, places = (count, *missing, *window.out), (count, *missing, *window.size)
    work = max(prod(window.out) * prod(window.kernel), prod(window.size))
    return _Layout(outer, inner, windows, places, work, in_three_axes(window))


def _run(name: str, layout: _Layout, *args: object) -> None:
    """Launch a loop over planes."""
    least = max(1, WORTH_SHARING // layout.work)
    launch(loop("loops.images.pooling_loops", name), layout.windows[0], least, *args)


def _laid_out(x: Array, shape: tuple[int, ...]) -> Array:
    x = (x if x.flags.c_contiguous else np.ascontiguousarray(x)).reshape(shape)
    return x.view(np.uint16) if x.dtype.char == "E" else x


def max_pool(x: Array, window: object) -> tuple[Array, Array]:
    """Return the maximum of each window, and its index in the kernel, which has at most 256 elements."""
    layout = _layout(len(x), x.shape[1], window)
    out, winners = empty(layout.outer, x.dtype), empty(layout.outer, np.uint8)
    planes = _laid_out(x, layout.places), _laid_out(out, layout.windows), winners.reshape(layout.windows)
    _run("max_pool", layout, *planes, layout.axes)
    return out, winners


def max_pool_backward(g: Array, winners: Array, window: object) -> Array:
    """Add each window's element of g at the position of the window's maximum."""
    layout = _layout(len(g), g.shape[1], window)
    dx = empty(layout.inner, g.dtype)
    planes = _laid_out(g, layout.windows), _laid_out(winners, layout.windows), _laid_out(dx, layout.places)
    _run("max_pool_backward", layout, *planes, layout.axes)
    return dx


def average_pool(x: Array, window: object, divisor: Array) -> Array:
    """Return the sum of each window divided by the divisor."""
    layout = _layout(len(x), x.shape[1], window)
    out = empty(layout.outer, x.dtype)
    planes = _laid_out(x, layout.places), out.reshape(layout.windows)
    _run("average_pool", layout, *planes, layout.axes, _divisors(divisor, layout.axes[4], x.dtype))
    return out


def average_pool_backward(g: Array, window: object, divisor: Array) -> Array:
    """Add each window's element of g, divided by the divisor, to all elements of the window."""
    layout = _layout(len(g), g.shape[1], window)
    dx = empty(layout.inner, g.dtype)
    planes = _laid_out(g, layout.windows), dx.reshape(layout.places)
    _run("average_pool_backward", layout, *planes, layout.axes, _divisors(divisor, layout.axes[4], g.dtype))
    return dx


def _divisors(divisor: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return one divisor for each window of a plane."""
    if not isinstance(divisor, np.ndarray):
        return _equal_divisors(divisor, shape, dtype)
    return np.ascontiguousarray(np.broadcast_to(divisor.astype(dtype), shape))


@lru_cache(maxsize=256)
def _equal_divisors(divisor: float, shape: tuple[int, ...], dtype: Any) -> Any:
    divisors = np.full(shape, divisor, dtype)
    divisors.flags.writeable = False
    return divisors
