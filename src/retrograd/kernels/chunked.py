"""Functions that work element by element, or along dimensions, on large arrays part by part, by all threads.

The function itself is called with parts of its arrays that fit in a core's cache, so that what it computes on the way
does not go to memory; the results are those of the whole bit for bit. Derivative rules of elementwise primitives are
such functions, and so are their forwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy import ndarray

from ..core.arrays.fp_warnings import silent
from ..core.arrays.layout import broadcast_shapes, memory_order
from ..core.arrays.summation import LARGE
from ..core.graph.modes import modes, watchers
from ..core.graph.plan import Params
from . import suits
from .runtime.cores import count
from .runtime.result_arrays import empty
from .runtime.threads import in_shares

P = ParamSpec("P")
R = TypeVar("R")

MANY = 1 << 20  # elements from which parts pay: each is copied to its place, and threads wait for Python's lock
PART = 1 << 20  # bytes of a part of an array: fewer cost more calls, and more are more than the cache holds
LINE = 16  # neighbours that should stay together


def by_parts(function: Callable[P, R], compiled: str = "") -> Callable[P, R]:
    """The function of arrays, of what else it takes, and of tuples of both.

    Where it is a loop that is ``compiled`` for these dtypes, arrays that suit one are given whole.
    """

    @wraps(function)
    def apply_chunked(*args: P.args, **params: P.kwargs) -> R:
        for x in args:
            if type(x) is ndarray and x.size >= MANY and not suits(x, compiled):
                out = _by_parts(function, args, params)
                return function(*args, **params) if out is None else out
        return function(*args, **params)

    return apply_chunked


def writing(write: Callable[..., None], function: Callable[..., object], compiled: str = "") -> Callable[..., None]:
    """What writes the function's result to an array, which may be among what the function is given."""

    @wraps(write)
    def write_chunked(out: Any, *args: object, **params: object) -> None:
        large = type(out) is ndarray and out.size >= MANY and not suits(out, compiled)
        if not large or _by_parts(function, args, params, out) is None:
            write(out, *args, **params)

    return write_chunked


def by_lanes(function: Callable[..., object]) -> Callable[..., Any]:
    """The function of arrays of one shape along ``dim``, one or several, that treats what lies along it by itself."""

    @wraps(function)
    def apply_along_lanes(*arrays: object, dim: object = None, **params: object) -> Any:
        x, out = arrays[0], None
        if type(x) is ndarray and x.size >= LARGE and dim is not None:
            out = _by_lanes(function, arrays, dim, params)
        return function(*arrays, dim=dim, **params) if out is None else out

    return apply_along_lanes


def _by_lanes(function: Callable[..., Any], arrays: tuple[Any, ...], dim: Any, params: Params) -> Any:
    """The function's result, or None for what is not to be shared."""
    x = arrays[0]
    gone = (dim,) if isinstance(dim, int) else dim
    kept = [axis for axis in range(x.ndim) if axis not in gone]
    if not kept or watchers and modes.tracer is not None:
        return None
    parts = max(count(), -(-x.nbytes // PART))
    axis = next((axis for axis in kept if x.shape[axis] >= parts), max(kept, key=x.shape.__getitem__))
    total = x.shape[axis]
    step = max(1 if axis < x.ndim - 1 else LINE, total // parts)

    def of_part(start: int, stop: int) -> Any:
        place = (*[slice(None)] * axis, slice(start, stop))
        return function(*[array[place] for array in arrays], dim=dim, **params)

    with silent():
        one = of_part(0, 1)
    at = axis if one.ndim == x.ndim else axis - sum(each < axis for each in gone)
    out = empty((*one.shape[:at], total, *one.shape[at + 1 :]), one.dtype)

    def write(start: int, stop: int) -> None:
        out[(*[slice(None)] * at, slice(start, stop))] = of_part(start, stop)

    _work_off(write, total, step)
    return out


def _work_off(work: Callable[[int, int], None], total: int, step: int) -> None:
    """``work(start, stop)`` for parts of ``range(total)``, by all threads."""
    starts = iter(range(0, total, step))

    def take_parts(*_: int) -> None:
        with silent():
            for start in starts:
                work(start, start + step)

    in_shares(take_parts, min(count(), -(-total // step)), 1)


def _by_parts(function: Callable[..., object], args: tuple[object, ...], params: Params, out: Any = None) -> Any:
    """The function's result, written to ``out`` where that is given; or None for what is not to be shared."""
    values = (*args, *params.values())
    arrays = _arrays(values)
    if arrays is None or watchers and modes.tracer is not None:
        return None
    try:
        shape = broadcast_shapes(*[x.shape for x in arrays])
    except ValueError:
        return None
    flat = all(x.size == 1 or x.shape == shape and (x.flags.c_contiguous or not any(x.strides)) for x in arrays)
    if not flat and not all(len(shape) > 1 and memory_order(x) == list(range(x.ndim)) for x in arrays):
        return None
    total = prod(shape) if flat else shape[0]

    def part(value: Any, start: int, stop: int) -> Any:
        kind = type(value)
        if kind is tuple:
            return tuple([part(each, start, stop) for each in value])
        if kind is not ndarray:
            return value
        if flat:
            return value.reshape(1) if value.size == 1 else value.reshape(-1)[start:stop]
        return value[start:stop] if value.ndim == len(shape) and len(value) > 1 else value

    def of_part(start: int, stop: int) -> Any:
        found = [part(value, start, stop) for value in values]
        return function(*found[: len(args)], **dict(zip(params, found[len(args) :], strict=True)))

    with silent():
        one = of_part(0, 1)
    if type(one) is not ndarray or one.shape != ((1,) if flat else (1, *shape[1:])):
        return None
    if out is None:
        if any(np.may_share_memory(one, x) for x in arrays):  # as the cotangent that a sum hands on
            return None
        out = empty(shape, one.dtype)
    elif (
        not out.flags.carray or out.shape != shape or any(x is not out and np.may_share_memory(out, x) for x in arrays)
    ):
        return None
    step = max(1, PART * total // max(x.nbytes for x in (out, *arrays)))

    def write(start: int, stop: int) -> None:
        part(out, start, stop)[...] = of_part(start, stop)

    _work_off(write, total, step)
    return out


def _arrays(values: tuple[object, ...]) -> list[Any] | None:
    """NumPy's arrays among the values, also within tuples; None where there are others."""
    found = []
    for value in values:
        if type(value) is ndarray:
            found.append(value)
        elif type(value) is tuple:
            inner = _arrays(value)
            if inner is None:
                return None
            found += inner
        elif hasattr(value, "shape") and not isinstance(value, np.generic):
            return None
    return found
