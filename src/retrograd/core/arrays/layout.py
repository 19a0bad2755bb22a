"""How arrays lie in memory."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from operator import index as as_integer
from typing import Any, Literal, Self, SupportsIndex, overload

import numpy as np

from . import Array

LINE = 64  # bytes that processors read and write at once, which large arrays begin with one of


# Of shapes, which are asked for again and again; NumPy's own takes as long as several operators.
broadcast_shapes: Callable[..., tuple[int, ...]] = lru_cache(maxsize=1024)(np.broadcast_shapes)


# ``copied`` of large arrays by several threads, or nothing where NumPy is to copy.
copying: list[Callable[[Any], Any]] = []
LARGE = 1 << 17  # elements from which threads pay


def copied(array: Array) -> Array:
    """``array.copy(order="C")``, by all threads where that pays."""
    many = copying and type(array) is np.ndarray and array.size >= LARGE
    return copying[0](array) if many else array.copy(order="C")


def row_major(array: Array) -> Array:
    """The array with its elements in row-major order: itself where they are so already, else a copy."""
    return array if array.flags.c_contiguous else copied(array)


def in_row_major(forward: Callable[..., Any], residuals: bool = False) -> Callable[..., Any]:
    """The forward with each result (of ``(result, *residuals)`` the first) in row-major order."""

    def with_row_major_result(*arrays: Any, **params: Any) -> Any:
        out = forward(*arrays, **params)
        if type(out) is not tuple:
            return out if out.flags.c_contiguous else copied(out)
        if residuals:
            return (row_major(out[0]), *out[1:])
        return tuple(map(row_major, out))

    return with_row_major_result


def order_like(array: Any) -> Literal["C", "K"]:
    """The order of a copy as PyTorch makes it: the array's own, but row-major where its elements share memory."""
    if array.flags.c_contiguous:
        return "K"
    if 0 in array.strides and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)):
        return "C"
    return "K"


def memory_order(array: Array) -> list[int]:
    """The dimensions from the one whose neighbours lie farthest apart to the one where they lie closest."""
    return sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)


def dense(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether the elements fill their memory, in whatever order of dimensions."""
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length > 1 and stride != itemsize:
            return False
        itemsize *= length
    return True


def _asked(array: Any) -> int:
    """Where a NumPy array's first element lies, as NumPy says, which also describes the array for that."""
    place: int = array.__array_interface__["data"][0]
    return place


def _read(array: Array) -> int:
    """The same, from the first field of the object, in a tenth of the time."""
    return _word(id(array) + object.__basicsize__).value


_word = ctypes.c_size_t.from_address


def _is_the_first_field() -> bool:
    if sys.implementation.name != "cpython":
        return False
    whole = np.zeros(6)
    return all(_read(array) == _asked(array) for array in (whole, whole[2:], whole.reshape(2, 3).T[1:]))


place_of: Callable[[Any], int] = _read if _is_the_first_field() else _asked


class Lines:
    """Memory in which one array begins with a line: where its stores cross lines, a loop takes half as long again.

    To NumPy it is something foreign, so that the array counts as the owner of its memory.
    """

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.memory = np.empty(prod(shape) * dtype.itemsize + LINE, np.uint8)
        place = place_of(self.memory)
        data = place + -place % LINE, False
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": data}


def empty_lines(shape: tuple[int, ...], dtype: Any) -> Any:
    """``np.empty`` of a large array, in memory that begins with a line. It is the only array with just this base."""
    dtype = np.dtype(dtype)
    return np.asarray(Lines(tuple(shape), dtype)) if dtype.kind in "biufc" else np.empty(shape, dtype)


def is_view(array: Any) -> bool:
    """Whether an array's memory belongs to another."""
    base = array.base
    return base is not None and type(base) is not Lines


class Flags:
    """What is asked of the flags of an array that has a shape and strides, but no memory of its own."""

    def __init__(self, array: Any, writeable: bool) -> None:
        self.writeable = writeable
        self.c_contiguous = _in_order(array.shape, array.strides, array.itemsize)
        self.f_contiguous = _in_order(array.shape[::-1], array.strides[::-1], array.itemsize)


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Whether the elements lie one behind the other, those along the last dimension closest."""
    if 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


class Size(tuple[int, ...]):
    """The shape of a Tensor: a tuple of lengths that can count its elements; its parts and sums are sizes, too.

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

    def __add__(self, other: tuple[Any, ...]) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(other.__add__(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__


_item: Any = tuple.__getitem__
