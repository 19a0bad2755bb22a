"""Where kernels put results: in new memory, or in what the caller has set aside.

A replayed program knows beforehand how large its arrays are and when they are last read, and keeps memory for all of
them (``compiler/run/arenas.py``). For that a kernel asks ``empty`` and ``empty_like`` for the arrays that it returns,
and for large ones that it needs meanwhile; it hands on none of these otherwise, nor keeps them. Tracing notes what a
call asks for, and a replay offers arrays of just these shapes in that order. What is not offered is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from threading import local
from typing import Any

import numpy as np

from ...core.arrays.devices import array_module
from ...core.arrays.layout import empty_lines, memory_order, order_like
from ...core.arrays.summation import LARGE


class _Here(local):
    offers: Callable[[tuple[int, ...], Any], Any] | None = None  # what a thread's kernels take arrays from


_here = _Here()


def empty(shape: tuple[int, ...], dtype: Any, like: Any = None) -> Any:
    """``empty`` of NumPy, or of the array module of ``like``."""
    if like is not None and type(like) is not np.ndarray:
        return array_module(like).empty(shape, dtype)
    offers = _here.offers
    if offers is not None:
        return offers(shape, np.dtype(dtype))
    return np.empty(shape, dtype) if prod(shape) < LARGE else empty_lines(shape, dtype)


def empty_like(x: Any) -> Any:
    """``empty_like`` of NumPy or CuPy; in row-major order where elements of ``x`` share memory."""
    if _here.offers is None or type(x) is not np.ndarray:
        return array_module(x).empty_like(x, order=order_like(x))
    order = memory_order(x) if order_like(x) == "K" else list(range(x.ndim))
    return empty(tuple([x.shape[axis] for axis in order]), x.dtype).transpose(np.argsort(order))


def _offered(offers: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    before, _here.offers = _here.offers, offers
    try:
        return function(*args, **kwargs)
    finally:
        _here.offers = before


def into(slots: Sequence[Any], function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """The function's result, where the arrays that it asks for are these, in order; None stands for a new one."""
    left = iter(slots)

    def offers(shape: tuple[int, ...], dtype: Any) -> Any:
        slot = next(left, None)
        return slot if slot is not None and slot.shape == shape and slot.dtype == dtype else np.empty(shape, dtype)

    return _offered(offers, function, args, kwargs)


def noted(function: Callable[..., Any], *args: object, **kwargs: object) -> tuple[Any, list[Any]]:
    """The function's result, and the arrays that it asked for."""
    asked: list[Any] = []

    def offers(shape: tuple[int, ...], dtype: Any) -> Any:
        asked.append(np.empty(shape, dtype))
        return asked[-1]

    return _offered(offers, function, args, kwargs), asked
