"""Allocate results of kernels, in new memory or in memory that a compiled program has planned.

A compiled program knows the sizes and lifetimes of its arrays and reuses memory for them (``compiler/run/arenas.py``).
Kernels therefore allocate their results and large temporaries by ``empty`` and ``empty_like``, and keep no references.
Tracing records the allocations of each call; a replay supplies arrays of the same shapes in the same order.
Without a supplied array, ``empty`` allocates a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from threading import local
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import DType
from ...core.arrays.layout import empty_lines, memory_order, order_like
from ...core.arrays.summation import LARGE


class _Here(local):
    # The allocator of this thread's kernels; it returns None for a new array
    offers: Callable[[tuple[int, ...], DType], Array | None] | None = None


_here = _Here()
offering: list[None] = []  # one item per running call with an allocator, on any thread: cheaper to read than ``_here``


def empty(shape: tuple[int, ...], dtype: Any, like: object = None) -> Any:
    """Return an uninitialized array, of the library of ``like``."""
    if like is not None and type(like) is not np.ndarray:
        return array_module(like).empty(shape, dtype)
    if offering and (offers := _here.offers) is not None and (offered := offers(shape, np.dtype(dtype))) is not None:
        return offered
    return np.empty(shape, dtype) if prod(shape) < LARGE else empty_lines(shape, dtype)


def empty_like(x: Any) -> Any:
    """Return an uninitialized array like x; in row-major order if elements of x share memory."""
    if _here.offers is None or type(x) is not np.ndarray:
        return array_module(x).empty_like(x, order=order_like(x))
    order = memory_order(x) if order_like(x) == "K" else list(range(x.ndim))
    return empty(tuple([x.shape[axis] for axis in order]), x.dtype).transpose(np.argsort(order))


def _offered(
    offers: Callable[[tuple[int, ...], DType], Array | None], function: Callable[..., object], args: Any, kwargs: Any
) -> Any:
    before, _here.offers = _here.offers, offers
    offering.append(None)
    try:
        return function(*args, **kwargs)
    finally:
        offering.pop()
        _here.offers = before


def into(slots: Sequence[Array | None], function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """Call the function so that it allocates the arrays ``slots``, in order; None stands for a new array."""
    left = iter(slots)

    def offers(shape: tuple[int, ...], dtype: DType) -> Array | None:
        slot = next(left, None)
        return slot if slot is not None and slot.shape == shape and slot.dtype == dtype else None

    return _offered(offers, function, args, kwargs)


def noted(function: Callable[..., object], *args: object, **kwargs: object) -> tuple[Any, list[Any]]:
    """Return the function's result and the arrays that it allocated."""
    asked: list[Any] = []

    def offers(shape: tuple[int, ...], dtype: DType) -> Array:
        asked.append(np.empty(shape, dtype))
        return asked[-1]

    return _offered(offers, function, args, kwargs), asked
