"""Arrays that are adjacent slices of one array, such as query, key and value in attention.

Gradients that are allocated as adjacent slices can be joined without a copy: the joined array is a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from ..opaque_calls import computing, whole
from . import Array
from .layout import dense, place_of


def like_slices(xs: Sequence[Array], empty: Callable[[tuple[int, ...], Any], Any]) -> list[Any] | None:
    """Return new arrays in the same relative layout as ``xs``, adjacent slices of one array allocated by ``empty``.

    Return None if ``xs`` are not adjacent slices of one array.
    """
    apart = _distance(xs)
    if apart is None:
        return None
    first = xs[0]
    order = _order((*first.shape, len(xs)), (*first.strides, apart), first.itemsize)
    if order is None:
        return None
    shape, axes = order
    one = empty(shape, first.dtype).transpose(axes)
    return [one[..., number] for number in range(len(xs))]


@lru_cache(maxsize=64)
def _order(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the axis lengths by descending stride and the position of each axis among them.

    Return None if the elements do not fill a contiguous range of memory.
    """
    if not dense(shape, strides, itemsize):
        return None
    order = sorted(range(len(shape)), key=strides.__getitem__, reverse=True)
    return tuple([shape[axis] for axis in order]), tuple(map(order.index, range(len(order))))


def _distance(xs: Sequence[Array]) -> int | None:
    """Return the distance in bytes from one array to the next, or None.

    It is None unless the arrays have one base, equal shapes, strides and dtypes, and equal distances.
    """
    first = xs[0]
    if type(first) is not ndarray or first.base is None or len(xs) < 2 or not first.size:
        return None
    base, kind = first.base, (first.shape, first.strides, first.dtype)
    places = []
    for x in xs:
        if type(x) is not ndarray or x.base is not base or (x.shape, x.strides, x.dtype) != kind:
            return None
        places.append(place_of(x))
    apart: int = places[1] - places[0]
    even = apart > 0 and places == list(range(places[0], places[0] + apart * len(xs), apart))
    return apart if even else None


def joined(xs: tuple[Array, ...], dim: int, join: Callable[..., object], new: bool) -> Any:
    """Return ``join(*xs, dim=dim)``, a stack if ``new``, else a concatenation; a view if xs are adjacent slices."""
    bare = [getattr(x, "numbers", x) for x in xs]  # a traced array wraps a NumPy array
    return join(*xs, dim=dim) if _layout(bare, dim, new) is None else _as_one(*xs, dim=dim, new=new)


def _layout(xs: Sequence[Array], dim: int, new: bool) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return shape and strides of the contiguous array whose slices along ``dim`` are ``xs``; None if there is none."""
    apart = _distance(xs)
    if apart is None or type(xs[0].base) is not ndarray or not xs[0].base.flags.c_contiguous:
        return None
    first = xs[0]
    shape, strides = first.shape, first.strides
    if new:
        shape, strides = (*shape[:dim], len(xs), *shape[dim:]), (*strides[:dim], apart, *strides[dim:])
    elif strides[dim] * shape[dim] == apart:
        shape = (*shape[:dim], shape[dim] * len(xs), *shape[dim + 1 :])
    else:
        return None
    return (shape, strides) if dense(shape, strides, first.itemsize) else None


@whole
@computing("join")
def _as_one(*xs: Array, dim: int, new: bool) -> Array:
    layout = _layout(xs, dim, new)
    if layout is None:  # a replay may get arrays of another layout than the trace
        return (np.stack if new else np.concatenate)(xs, axis=dim)
    first, (shape, strides) = xs[0], layout
    return ndarray(shape, first.dtype, first.base, place_of(first) - place_of(first.base), strides)
