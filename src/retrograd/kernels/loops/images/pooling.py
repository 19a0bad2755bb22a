"""Maxima and means of windows over ``(N, C, *size)`` by compiled loops.

The references stand in ops/nn/pooling/maximum.py and ops/nn/pooling/average.py.
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
from .windows import Window3, in_three_axes

TABLED = 1 << 12  # elements that windows read, up to which tables of places are the fastest way to their sums


def takes(x: Array, window: Any, least: int = SEVERAL) -> bool:
    """Whether the loops are to be used, which go along rows of windows and read at least so many elements."""
    return (
        type(x) is np.ndarray
        and x.dtype.char in "fd"
        and len(x) * x.shape[1] * window.reads >= least
        and compiled() is not None
    )


def reads(x: Array, elements: int) -> bool:
    """Whether a loop is to be used on this array that reads so many elements."""
    return type(x) is np.ndarray and x.dtype.char in "fd" and elements >= SEVERAL and compiled() is not None


def max_at(x: Array, corner: Array, offsets: Array) -> Array:
    """Where in its plane the maximum is of what each window reads: some offsets from its corner."""
    planes = x.shape[0] * x.shape[1]
    index = np.empty_like(corner)
    least = max(1, WORTH_SHARING // (corner.shape[2] * len(offsets)))
    arrays = np.ascontiguousarray(x).reshape(planes, -1), corner.reshape(planes, -1), offsets
    launch(loop("loops.images.pooling_loops", "max_at"), planes, least, *arrays, index.reshape(planes, -1))
    return index


def max_among(x: Array, places: Any) -> Any:
    """Where in its plane the maximum is of what each window reads: places ``(windows, reads)``, in all planes alike."""
    planes = x.shape[0] * x.shape[1]
    index = np.empty((planes, len(places)), np.int64)
    arrays = np.ascontiguousarray(x).reshape(planes, -1), places, index
    launch(loop("loops.images.pooling_loops", "max_among"), planes, max(1, WORTH_SHARING // places.size), *arrays)
    return index


class _Layout(NamedTuple):
    """How the loops see windows over ``(N, C, *size)``: shapes of the results, and of all arrays as planes."""

    outer: tuple[int, ...]  # of one element per window
    inner: tuple[int, ...]  # of what windows read
    windows: tuple[int, ...]
    places: tuple[int, ...]
    work: int  # steps of one plane
    axes: Window3


@lru_cache(maxsize=1024)
def _layout(images: int, channels: int, window: Any) -> _Layout:
    count, missing = images * channels, (1,) * (3 - len(window.size))
    outer, inner = (images, channels, *window.out), (images, channels, *window.size)
    windows, places = (count, *missing, *window.out), (count, *missing, *window.size)
    work = max(prod(window.out) * prod(window.kernel), prod(window.size))
    return _Layout(outer, inner, windows, places, work, in_three_axes(window))


def _run(name: str, layout: _Layout, *args: Any) -> None:
    """A loop over planes."""
    least = max(1, WORTH_SHARING // layout.work)
    launch(loop("loops.images.pooling_loops", name), layout.windows[0], least, *args)


def _laid_out(x: Array, shape: tuple[int, ...]) -> Array:
    return (x if x.flags.c_contiguous else np.ascontiguousarray(x)).reshape(shape)


def max_pool(x: Array, window: object) -> tuple[Array, Array]:
    """The maximum of each window, and the number of its element in the kernel, which has at most 256."""
    layout = _layout(len(x), x.shape[1], window)
    out, winners = empty(layout.outer, x.dtype), empty(layout.outer, np.uint8)
    planes = _laid_out(x, layout.places), out.reshape(layout.windows), winners.reshape(layout.windows)
    _run("max_pool", layout, *planes, layout.axes)
    return out, winners


def max_pool_backward(g: Array, winners: Array, window: object) -> Array:
    """Each window's element added at the place of its winner."""
    layout = _layout(len(g), g.shape[1], window)
    dx = empty(layout.inner, g.dtype)
    planes = _laid_out(g, layout.windows), _laid_out(winners, layout.windows), dx.reshape(layout.places)
    _run("max_pool_backward", layout, *planes, layout.axes)
    return dx


def average_pool(x: Array, window: object, divisor: Array) -> Array:
    """The sum of each window, divided."""
    layout = _layout(len(x), x.shape[1], window)
    out = empty(layout.outer, x.dtype)
    planes = _laid_out(x, layout.places), out.reshape(layout.windows)
    _run("average_pool", layout, *planes, layout.axes, _divisors(divisor, layout.axes[4], x.dtype))
    return out


def average_pool_backward(g: Array, window: object, divisor: Array) -> Array:
    """Each window's element, divided, added to all that it was the mean of."""
    layout = _layout(len(g), g.shape[1], window)
    dx = empty(layout.inner, g.dtype)
    planes = _laid_out(g, layout.windows), dx.reshape(layout.places)
    _run("average_pool_backward", layout, *planes, layout.axes, _divisors(divisor, layout.axes[4], g.dtype))
    return dx


def _divisors(divisor: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """One for each window of a plane."""
    if not isinstance(divisor, np.ndarray):
        return _equal_divisors(divisor, shape, dtype)
    return np.ascontiguousarray(np.broadcast_to(divisor.astype(dtype), shape))


@lru_cache(maxsize=256)
def _equal_divisors(divisor: float, shape: tuple[int, ...], dtype: Any) -> Any:
    divisors = np.full(shape, divisor, dtype)
    divisors.flags.writeable = False
    return divisors
