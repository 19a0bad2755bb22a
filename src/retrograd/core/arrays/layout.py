"""The memory layout of arrays: order, strides and alignment."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from operator import index as as_integer
from typing import Any, Literal, ParamSpec, Self, SupportsIndex, overload

import numpy as np

from . import Array

P = ParamSpec("P")

LINE = 64  # bytes of a cache line, to which large arrays are aligned


# Cached, since NumPy's function takes as long as several small operators.
broadcast_shapes: Callable[..., tuple[int, ...]] = lru_cache(maxsize=1024)(np.broadcast_shapes)


# A multi-threaded copy of large arrays; empty if NumPy copies.
copying: list[Callable[[Any], Any]] = []
LARGE = 1 << 17  # elements from which several threads copy faster than one


def copied(array: Array) -> Array:
    """Return ``array.copy(order="C")``; several threads copy large arrays."""
    many = copying and type(array) is np.ndarray and array.size >= LARGE
    return copying[0](array) if many else array.copy(order="C")


def row_major(array: Array) -> Array:
    """Return the array in row-major order: the array itself if it is C-contiguous, otherwise a copy."""
    return array if array.flags.c_contiguous else copied(array)


def in_row_major(forward: Callable[P, Any], residuals: bool = False) -> Callable[P, Any]:
    """Wrap a forward so that each result (with ``residuals`` only the first) is in row-major order."""

    def with_row_major_result(*arrays: P.args, **params: P.kwargs) -> Any:
        out = forward(*arrays, **params)
        if type(out) is not tuple:
            return out if out.flags.c_contiguous else copied(out)
        if residuals:
            return (row_major(out[0]), *out[1:])
        return tuple(map(row_major, out))

    return with_row_major_result


def order_like(array: Any) -> Literal["C", "K"]:
    """Return the order of a copy in PyTorch: the array's order, or row-major if elements of the array share memory."""
    if array.flags.c_contiguous:
        return "K"
    if 0 in array.strides and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)):
        return "C"
    return "K"


casts: list[Callable[[Array, np.dtype], Array]] = []  # the function of the operator ``cast``, once it is loaded


def cast(x: Array, dtype: np.dtype) -> Array:
    """Return ``x.astype(dtype)``; large arrays are cast by compiled loops or several threads."""
    return casts[0](x, dtype) if casts and type(x) is np.ndarray else x.astype(dtype)


def memory_order(array: Array) -> list[int]:
    """Return the dimensions by descending stride."""
    return sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)


def dense(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return whether the elements fill a contiguous range of memory, with the dimensions in any order."""
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length > 1 and stride != itemsize:
            return False
        itemsize *= length
    return True


def _address_by_interface(array: Any) -> int:
    """Return the address of a NumPy array's first element by ``__array_interface__``, which builds a dictionary."""
    return array.__array_interface__["data"][0]


def _address_by_field(array: Array) -> int:
    """Return the same address from the first field of the array object, in a tenth of the time of the dictionary."""
    return _word(id(array) + object.__basicsize__).value


_word = ctypes.c_size_t.from_address


def _is_the_first_field() -> bool:
    if sys.implementation.name != "cpython":
        return False
    whole = np.zeros(6)
    arrays = (whole, whole[2:], whole.reshape(2, 3).T[1:])
    return all(_address_by_field(array) == _address_by_interface(array) for array in arrays)


place_of: Callable[[Any], int] = _address_by_field if _is_the_first_field() else _address_by_interface


class Lines:
    """Memory for one array, aligned to a cache line; a loop whose stores cross cache lines takes 1.5 times as long.

    The array's base is this object and not an array, so it is recognized as the owner of its memory (``is_view``).
    """

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, memory: Array | None = None) -> None:
        self.memory = np.empty(prod(shape) * dtype.itemsize + LINE, np.uint8) if memory is None else memory
        place = place_of(self.memory)
        data = place + -place % LINE, False
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": data}


def empty_lines(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return ``np.empty(shape, dtype)`` aligned to a cache line. No other array has the same base."""
    dtype = np.dtype(dtype)
    return np.asarray(Lines(tuple(shape), dtype)) if dtype.kind in "biufc" else np.empty(shape, dtype)


def is_view(array: Any) -> bool:
    """Return whether an array is a view of another's memory."""
    base = array.base
    return base is not None and type(base) is not Lines


class Flags:
    """The flags of an array-like object that has a shape and strides, but no memory."""

    def __init__(self, array: Any, writeable: bool) -> None:
        self.writeable = writeable
        self.c_contiguous = _in_order(array.shape, array.strides, array.itemsize)
        self.f_contiguous = _in_order(array.shape[::-1], array.strides[::-1], array.itemsize)


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Return whether elements with these strides are contiguous in row-major order."""
    if 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


class Size(tuple[int, ...]):
    """The shape of a Tensor: a tuple with the method ``numel``. Slices and sums of sizes are sizes.

    >>> Size((2, 3)).numel()
    6
    >>> (Size((2, 3, 4))[1:] + (5,)).numel()
    60
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[SupportsIndex] = ()) -> Self:
        lengths = tuple(lengths)
        try:
            return tuple.__new__(cls, map(as_integer, lengths))
        except TypeError:
            wrong = next((place for place, length in enumerate(lengths) if not hasattr(length, "__index__")), 0)
            kind = type(lengths[wrong]).__name__
            raise TypeError(f"Size takes integers, got a {kind} as element {wrong}") from None

    def numel(self) -> int:
        """The number of elements of a Tensor of this shape."""
        return prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        found = _item(self, index)
        return Size(found) if found.__class__ is tuple else found

    def __add__(self, other: tuple[Any, ...]) -> Size:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(other.__add__(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__


_item: Any = tuple.__getitem__
