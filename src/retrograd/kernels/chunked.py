"""Apply elementwise functions, and functions along dimensions, to large arrays in chunks, on all threads.

The chunks fit in a core's cache, so intermediate results are not written to memory. The results are bitwise equal to
the results of one call with the whole arrays. The forward functions and derivative rules of elementwise primitives are
applied in this way.
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

# Smaller arrays are not chunked: each chunk's result is copied into place, and the threads contend for the GIL.
MIN_CHUNKED_SIZE = 1 << 20
# Bytes of a chunk of the largest array: smaller chunks take more calls, larger chunks exceed the cache.
CHUNK_BYTES = 1 << 20
MIN_LAST_AXIS = 16  # a chunk along the last axis has at least this length, since cache lines are loaded whole


def chunked(function: Callable[P, R], compiled: str = "") -> Callable[P, R]:
    """Decorate an elementwise function so that it is applied to large arrays in chunks.

    The arguments are arrays, other objects, and tuples of both. ``compiled`` are the letters of the dtypes for which
    the function is a compiled loop: arrays that such a loop accepts are passed whole, as the loop is multi-threaded.
    """

    @wraps(function)
    def apply_chunked(*args: P.args, **params: P.kwargs) -> R:
        for x in args:
            if type(x) is ndarray and x.size >= MIN_CHUNKED_SIZE and not suits(x, compiled):
                out = _chunked(function, args, params)
                return function(*args, **params) if out is None else out
        return function(*args, **params)

    return apply_chunked


def writing(write: Callable[..., None], function: Callable[..., object], compiled: str = "") -> Callable[..., None]:
    """Return a version of ``write(out, ...)`` that writes ``function(...)`` into a large ``out`` in chunks.

    ``out`` may be one of the inputs. ``compiled`` has the same meaning as in ``chunked``.
    """

    @wraps(write)
    def write_chunked(out: Any, *args: object, **params: object) -> None:
        large = type(out) is ndarray and out.size >= MIN_CHUNKED_SIZE and not suits(out, compiled)
        if not large or _chunked(function, args, params, out) is None:
            write(out, *args, **params)

    return write_chunked


def by_lanes(function: Callable[..., object]) -> Callable[..., Any]:
    """Decorate a function along dimensions so that it is applied to chunks of the other dimensions of large arrays.

    The arrays have one shape. ``dim`` is one dimension or several, and the result at an index of the other dimensions
    must depend only on the elements at this index.
    """

    @wraps(function)
    def apply_along_lanes(*arrays: object, dim: object = None, **params: object) -> Any:
        x, out = arrays[0], None
        if type(x) is ndarray and x.size >= LARGE and dim is not None:
            out = _by_lanes(function, arrays, dim, params)
        return function(*arrays, dim=dim, **params) if out is None else out

    return apply_along_lanes


def _by_lanes(function: Callable[..., Any], arrays: tuple[Any, ...], dim: Any, params: Params) -> Any:
    """Return the function's result, or None if the call cannot be chunked."""
    x = arrays[0]
    reduced = (dim,) if isinstance(dim, int) else dim
    kept = [axis for axis in range(x.ndim) if axis not in reduced]
    if not kept or watchers and modes.tracer is not None:
        return None
    chunks = max(count(), -(-x.nbytes // CHUNK_BYTES))
    axis = next((axis for axis in kept if x.shape[axis] >= chunks), max(kept, key=x.shape.__getitem__))
    total = x.shape[axis]
    step = max(1 if axis < x.ndim - 1 else MIN_LAST_AXIS, total // chunks)

    def result_of_chunk(start: int, stop: int) -> Any:
        place = (*[slice(None)] * axis, slice(start, stop))
        return function(*[array[place] for array in arrays], dim=dim, **params)

    with silent():
        first = result_of_chunk(0, 1)
    at = axis if first.ndim == x.ndim else axis - sum(each < axis for each in reduced)
    out = empty((*first.shape[:at], total, *first.shape[at + 1 :]), first.dtype)

    def write(start: int, stop: int) -> None:
        out[(*[slice(None)] * at, slice(start, stop))] = result_of_chunk(start, stop)

    _run_chunks(write, total, step)
    return out


def _run_chunks(work: Callable[[int, int], None], total: int, step: int) -> None:
    """Call ``work(start, stop)`` for chunks of ``range(total)``, on all threads."""
    starts = iter(range(0, total, step))

    def take_chunks(*_: int) -> None:
        with silent():
            for start in starts:
                work(start, start + step)

    in_shares(take_chunks, min(count(), -(-total // step)), 1)


def _chunked(function: Callable[..., object], args: tuple[object, ...], params: Params, out: Any = None) -> Any:
    """Return the function's result, written to ``out`` if given, or None if the call cannot be chunked."""
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

    def chunk(value: Any, start: int, stop: int) -> Any:
        kind = type(value)
        if kind is tuple:
            return tuple([chunk(each, start, stop) for each in value])
        if kind is not ndarray:
            return value
        if flat:
            return value.reshape(1) if value.size == 1 else value.reshape(-1)[start:stop]
        return value[start:stop] if value.ndim == len(shape) and len(value) > 1 else value

    def result_of_chunk(start: int, stop: int) -> Any:
        found = [chunk(value, start, stop) for value in values]
        return function(*found[: len(args)], **dict(zip(params, found[len(args) :], strict=True)))

    with silent():
        first = result_of_chunk(0, 1)
    if type(first) is not ndarray or first.shape != ((1,) if flat else (1, *shape[1:])):
        return None
    if out is None:
        if any(np.may_share_memory(first, x) for x in arrays):  # a rule may return the cotangent itself, as add's does
            return None
        out = empty(shape, first.dtype)
    elif (
        not out.flags.carray or out.shape != shape or any(x is not out and np.may_share_memory(out, x) for x in arrays)
    ):
        return None
    step = max(1, CHUNK_BYTES * total // max(x.nbytes for x in (out, *arrays)))

    def write(start: int, stop: int) -> None:
        chunk(out, start, stop)[...] = result_of_chunk(start, stop)

    _run_chunks(write, total, step)
    return out


def _arrays(values: tuple[object, ...]) -> list[Any] | None:
    """Return the NumPy arrays among the values and in tuples, or None if there are arrays of other libraries."""
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
