"""NumPy's ufuncs on large arrays by several threads, which call NumPy's own inner loops on parts of the arrays.

Results are therefore bitwise equal to NumPy's for every ufunc and dtype, and only one loop must be compiled. The inner
loops are read from the ufunc's public structure (numpy/ufuncobject.h), after its other fields have been verified.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.arrays.layout import broadcast_shapes, place_of
from ....core.arrays.summation import LARGE
from ... import WORTH_SHARING, compiled, loop, or_reference
from ...runtime.result_arrays import empty
from ...runtime.threads import launch

BLOCK = 1 << 14  # number of elements in a block that is reduced separately if there are few results
LANES = 64  # maximum number of results for which ``BLOCK`` applies
COLUMNS = 512  # number of columns that are reduced together
SHORT = 64  # for rows of at most this many elements, the overhead of one call per row dominates


class _UFunc(ctypes.Structure):
    """The first fields of ``PyUFuncObject``."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__),
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        *[(name, ctypes.c_int) for name in ("ntypes", "reserved")],
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@cache
def inner_loop(ufunc: np.ufunc, kind: str) -> tuple[int, int, Any] | None:
    """Return the address of the inner loop for inputs of one dtype, the address of its data, and the result's dtype."""
    if sys.implementation.name != "cpython" or not 2 <= ufunc.nargs <= 3 or ufunc.nout != 1:
        return None
    found = _UFunc.from_address(id(ufunc))
    counts = found.nin, found.nout, found.nargs, found.ntypes
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or found.name != ufunc.__name__.encode():
        return None
    for number, signature in enumerate(ufunc.types):
        kinds = signature.replace("->", "")
        stored = bytes(found.types[number * ufunc.nargs + at][0] for at in range(ufunc.nargs))
        if stored != bytes(np.dtype(each).num for each in kinds):
            return None
        if kinds[:-1] == kind * ufunc.nin:
            address, data = found.functions[number], (found.data[number] or 0) if found.data else 0
            return (address, data, np.dtype(kinds[-1])) if address else None
    return None


def spread(ufunc: np.ufunc, otherwise: Callable[..., object]) -> Callable[..., Any]:
    """Return a function that runs the ufunc on large arrays by several threads, and ``otherwise`` on other arrays."""
    if ufunc.nin == 1:

        def apply_unary(x: Any) -> Any:
            out = _applied(ufunc, (x,)) if type(x) is ndarray and x.size >= LARGE else None
            return otherwise(x) if out is None else out

        return apply_unary

    def apply_binary(x: object, y: object, *out: object) -> Any:
        found = None
        if type(x) is ndarray and x.size >= LARGE or type(y) is ndarray and y.size >= LARGE:
            found = _applied(ufunc, (x, y), *out)
        return otherwise(x, y, *out) if found is None else found

    return apply_binary


def written(ufunc: np.ufunc, x: object, y: object) -> bool:
    """Write ``ufunc(x, y)`` to a large x and return True; return False if it cannot be multi-threaded."""
    return type(x) is ndarray and _applied(ufunc, (x, y), x) is not None


def applied(ufunc: np.ufunc, inputs: tuple[object, ...], out: object, casting: object = "same_kind") -> None:
    """Return ``ufunc(*inputs, out=out)``, by several threads if possible."""
    large = any(type(x) is ndarray and x.size >= LARGE for x in inputs) and len(inputs) == ufunc.nin
    if not large or _applied(ufunc, inputs, out) is None:
        ufunc(*inputs, out=out, casting=casting)


@or_reference
def _applied(ufunc: np.ufunc, inputs: tuple[object, ...], out: Any = None) -> Any:
    """Return the ufunc's result, written to ``out`` if given; None if it cannot be multi-threaded."""
    like = next(x for x in inputs if type(x) is ndarray and x.size >= LARGE)
    dtype, arrays = like.dtype, []
    for x in inputs:
        if type(x) is float and dtype.kind == "f" or type(x) is int and dtype.kind in "f":
            x = np.array(x, dtype)
        if type(x) is not ndarray or x.dtype is not dtype:
            return None
        arrays.append(x)
    shape = like.shape if len(arrays) == 1 else _shape(arrays)
    # An array that broadcasts a single number, such as the cotangent of a sum, is passed as the number.
    arrays = [x[(slice(1),) * x.ndim] if x.size > 1 and not any(x.strides) else x for x in arrays]
    found = inner_loop(ufunc, dtype.char)
    if found is None or shape is None or compiled() is None:
        return None
    function, data, of_result = found
    laid_out = _laid_out(arrays, shape)
    if laid_out is None:
        return None
    length, steps = laid_out
    if out is None:
        out = empty(shape, of_result)
    elif not _may_be_written(out, shape, of_result, arrays):
        return None
    steps.append((length * out.itemsize, out.itemsize))
    _launch(function, data, length, [*arrays, out], steps, out.size)
    return out


def _may_be_written(out: object, shape: tuple[int, ...], dtype: object, arrays: list[Any]) -> bool:
    """Return whether ``out`` has the right shape and dtype and overlaps inputs only element by element."""
    if type(out) is not ndarray or out.shape != shape or out.dtype != dtype or not out.flags.carray:
        return False
    return all(x is out or not np.may_share_memory(x, out) for x in arrays)


def _shape(arrays: list[Any]) -> tuple[int, ...] | None:
    x, y = arrays
    if x.shape == y.shape:
        return x.shape
    try:
        return broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return None


def _laid_out(arrays: list[Any], shape: tuple[int, ...]) -> tuple[int, list[tuple[int, int]]] | None:
    """Return a common row length (0 for a single row) and each array's strides between and within rows.

    Return None, so that NumPy computes, if the elements of an array cannot be divided into such rows.
    """
    length, ways = 0, []
    for x in arrays:
        way = _rows(x, shape)
        if way is None:
            return None
        width = way[0]
        if width:
            if length not in (0, width):
                return None
            length = width
        ways.append(way)
    return length, [(by_row if width or not within else length * within, within) for width, by_row, within in ways]


def _rows(x: Any, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the row length of a broadcast array, and its strides in bytes between and within rows.

    The length is 0 if the elements form a single row or are one element.
    """
    flags = x.flags
    if not flags.aligned:
        return None
    if x.size == 1:
        return 0, 0, 0
    if flags.c_contiguous and x.shape == shape:
        return 0, 0, x.itemsize
    rows: list[tuple[int, int]] = []  # (number of elements, stride), from the last axis on
    missing = len(shape) - x.ndim
    for axis in range(len(shape) - 1, -1, -1):
        count = shape[axis]
        if count == 1:
            continue
        step = 0 if axis < missing or x.shape[axis - missing] == 1 else x.strides[axis - missing]
        if rows and step == rows[-1][0] * rows[-1][1]:
            rows[-1] = rows[-1][0] * count, rows[-1][1]
        elif len(rows) == 2:
            return None
        else:
            rows.append((count, step))
    width, within = rows[0]
    if within not in (0, x.itemsize):
        return None
    if len(rows) == 1:
        return 0, 0, within
    return (width, rows[1][1], within) if width >= SHORT else None


def _launch(function: int, data: int, length: int, arrays: list[Any], steps: list[tuple[int, int]], size: int) -> None:
    places = np.zeros((3, 3), np.int64)
    for at, (array, step) in enumerate(zip(arrays, steps, strict=True)):
        places[at] = place_of(array), *step
    total, least = (size // length, max(1, WORTH_SHARING // length)) if length else (size, WORTH_SHARING)
    launch(loop("loops.elements.ufunc_loops", "rows"), total, least, function, data, length, places)


@or_reference
def reduced(ufunc: np.ufunc, x: Any, dim: tuple[int, ...] | int | None, keepdim: bool) -> Any:
    """Return ``ufunc.reduce`` of a large contiguous array over adjacent dimensions; None if NumPy should compute it.

    The order of operations does not depend on the number of threads.
    """
    if type(x) is not ndarray or x.size < LARGE or not x.flags.c_contiguous or not x.flags.aligned:
        return None
    gone = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(sorted(dim))
    if not gone:
        return None
    first, last = gone[0], gone[-1] + 1
    found = inner_loop(ufunc, x.dtype.char)
    if found is None or found[2] != x.dtype or len(gone) != last - first or compiled() is None:
        return None
    shape = prod(x.shape[:first]), prod(x.shape[first:last]), prod(x.shape[last:])
    out = _reduced(ufunc, x.reshape(shape), found)
    if out is None:
        return None
    return out.reshape(x.shape[:first] + (1,) * (len(gone) if keepdim else 0) + x.shape[last:])


def _reduced(ufunc: np.ufunc, x: Any, found: tuple[int, int, object]) -> Any:
    """Reduce over the middle one of three dimensions."""
    (before, length, after), item = x.shape, x.itemsize
    parts = x.size // BLOCK
    # For few results, reduce parts of the dimension first, then the results of the parts.
    if before == 1 and after < LANES and 1 < parts < length:
        size = length // parts
        main = _reduced(ufunc, x[:, : parts * size].reshape(parts, size, after), found)
        if main is None:
            return None
        return ufunc.reduce(np.concatenate([main.reshape(parts, after), x[0, parts * size :]]), axis=0)
    function, data, _ = found
    out = empty((before, after), x.dtype)
    places = [place_of(x), place_of(out)]
    if length > 1 and after >= SHORT:
        width = min(after, COLUMNS)
        total, least = before * -(-after // width), max(1, WORTH_SHARING // (length * width))
        launch(
            loop("loops.elements.ufunc_loops", "columns"),
            total,
            least,
            function,
            data,
            length,
            after,
            width,
            item,
            *places,
        )
    elif length >= SHORT and after == 1:
        least = max(1, WORTH_SHARING // length)
        room = np.empty((before // least + 1, length // 2), x.dtype)
        places.insert(1, place_of(room))
        launch(loop("loops.elements.ufunc_loops", "folds"), before, least, function, data, length, least, item, *places)
    else:
        return None
    return out
