"""Maxima and means of windows over ``(N, C, *size)`` by compiled loops.

The references stand in ops/nn/pooling/maximum.py and ops/nn/pooling/average.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import SEVERAL, WORTH_SHARING, compiled, loop
from ..machine.threads import launch
from ..results import empty
from .windows import in_three_axes

TABLED = 1 << 12  # elements that windows read, up to which tables of places are the fastest way to them


def _planes(array: Any) -> Any:
    """``(N * C, D, H, W)``."""
    array = np.ascontiguousarray(array)
    return array.reshape(len(array) * array.shape[1], *(1,) * (5 - array.ndim), *array.shape[2:])


def _run(name: str, planes: tuple[Any, ...], work: int, *args: Any) -> None:
    """A loop over the planes of some arrays, each of which takes so many steps."""
    launch(loop("images.pooling_loops", name), len(planes[0]), max(1, WORTH_SHARING // work), *planes, *args)


def takes(x: Any, window: Any) -> bool:
    """Whether the loops are to be used, which go along rows of windows."""
    return (
        type(x) is np.ndarray
        and x.dtype in (np.float32, np.float64)
        and len(x) * x.shape[1] * prod(window.out) * prod(window.kernel) > TABLED
        and compiled() is not None
    )


def reads(x: Any, elements: int) -> bool:
    """Whether a loop is to be used on this array that reads so many elements."""
    return type(x) is np.ndarray and x.dtype.char in "fd" and elements >= SEVERAL and compiled() is not None


def max_at(x: Any, corner: Any, offsets: Any) -> Any:
    """Where in its plane the maximum is of what each window reads: some offsets from its corner."""
    planes = x.shape[0] * x.shape[1]
    index = np.empty_like(corner)
    least = max(1, WORTH_SHARING // (corner.shape[2] * len(offsets)))
    arrays = np.ascontiguousarray(x).reshape(planes, -1), corner.reshape(planes, -1), offsets
    launch(loop("images.pooling_loops", "max_at"), planes, least, *arrays, index.reshape(planes, -1))
    return index


def max_pool(x: Any, window: Any) -> tuple[Any, Any]:
    """The maximum of each window, and the number of its element in the kernel, which has at most 256."""
    out = empty((*x.shape[:2], *window.out), x.dtype)
    winners = empty(out.shape, np.uint8)
    work = prod(window.out) * prod(window.kernel)
    _run("max_pool", (_planes(x), _planes(out), _planes(winners)), work, in_three_axes(window))
    return out, winners


def max_pool_backward(g: Any, winners: Any, window: Any) -> Any:
    """Each window's element added at the place of its winner."""
    dx = empty((*g.shape[:2], *window.size), g.dtype)
    work = max(prod(window.out), prod(window.size))
    _run("max_pool_backward", (_planes(g), _planes(winners), _planes(dx)), work, in_three_axes(window))
    return dx


def average_pool(x: Any, window: Any, divisor: Any) -> Any:
    """The sum of each window, divided."""
    out = empty((*x.shape[:2], *window.out), x.dtype)
    work = prod(window.out) * prod(window.kernel)
    _run("average_pool", (_planes(x), _planes(out)), work, in_three_axes(window), _divisors(divisor, window, x))
    return out


def average_pool_backward(g: Any, window: Any, divisor: Any) -> Any:
    """Each window's element, divided, added to all that it was the mean of."""
    dx = empty((*g.shape[:2], *window.size), g.dtype)
    work = prod(window.out) * prod(window.kernel)
    divisors = _divisors(divisor, window, g)
    _run("average_pool_backward", (_planes(g), _planes(dx)), work, in_three_axes(window), divisors)
    return dx


def _divisors(divisor: Any, window: Any, x: Any) -> Any:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(divisor, x.dtype), in_three_axes(window)[4]))
