"""Meta arrays: NumPy arrays on reserved memory that reads as zeros and is never written."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from ..arrays.devices import Backend, Device
from ..arrays.dtypes import DType

# Arguments and results of NumPy functions: arrays, numbers, dtypes and containers of them.
Value: TypeAlias = Any

NO_DATA = "Cannot copy out of meta tensor; no data! Move a module by to_empty() instead of to()"

# Bytes from which memory is reserved by mmap; smaller arrays are allocated.
RESERVED = 1 << 16
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)

# NumPy functions whose results have data-dependent shapes.
DATA_DEPENDENT = {
    np.argwhere, np.bincount, np.compress, np.extract, np.flatnonzero, np.nonzero, np.trim_zeros, np.unique,
}  # fmt: skip
_LIKE = {np.empty_like, np.full_like, np.ones_like, np.zeros_like}
_ANSWERS = {np.can_cast, np.may_share_memory, np.min_scalar_type, np.ndim, np.result_type, np.shape, np.shares_memory,
            np.size}  # fmt: skip


def _memory(size: int) -> Value:
    """Return ``size`` zero bytes, which use no physical memory unless they are written."""
    if size < RESERVED:
        return bytearray(size)
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)


class MetaArray(np.ndarray[Value, Value]):
    """An array without elements. Views of it are views of its memory, so NumPy computes their layouts.

    Reading an element raises RuntimeError. NumPy functions return meta arrays with the shape and dtype of their result
    for zeros.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **kwargs: Value) -> Value:
        out = kwargs.get("out")
        if out is not None:
            if not all(x is None or isinstance(x, MetaArray) for x in out):
                raise NotImplementedError(NO_DATA)
            return out[0] if len(out) == 1 else out
        if method == "at":
            return None
        if method == "__call__" and "where" not in kwargs and ufunc.signature is None:
            return elementwise(lambda *arrays: ufunc(*arrays, **kwargs), inputs)
        return without_numbers(getattr(ufunc, method)(*plain(inputs), **plain(kwargs)), inputs)

    def __array_function__(
        self, func: Callable[..., Value], types: Value, args: Iterable[Value], kwargs: Mapping[str, Value]
    ) -> Value:
        args, kwargs = tuple(args), dict(kwargs)
        if func in DATA_DEPENDENT or func is np.where and len(args) == 1:
            raise data_dependent(func.__name__)
        if func is np.copyto:
            if not isinstance(args[0], MetaArray):
                raise NotImplementedError(NO_DATA)
            return None
        if func in _LIKE and isinstance(args[0], MetaArray):
            names = ("dtype", "order", "shape")
            like = np.empty_like(plain(args[0]), **{name: kwargs[name] for name in names if name in kwargs})
            return without_numbers(like)
        out = kwargs.pop("out", None)
        result = func(*plain(args), **plain(kwargs))
        if out is not None:
            return out
        return result if func in _ANSWERS else without_numbers(result, args)

    @property
    def examples(self) -> np.ndarray[Value, Value]:
        """Zeros to check values on, at most one along each axis."""
        return np.zeros([min(length, 1) for length in self.shape], self.dtype)

    def __setitem__(self, index: Value, value: Value) -> None:
        np.broadcast_shapes(np.shape(value), self[index].shape)

    def item(self, *args: Value) -> NoReturn:
        """Raise RuntimeError: a meta array has no elements."""
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")

    def tolist(self) -> NoReturn:
        """Raise NotImplementedError: a meta array has no elements."""
        raise NotImplementedError(NO_DATA)

    def nonzero(self) -> NoReturn:
        """Raise NotImplementedError: the shape of the result depends on the elements."""
        raise data_dependent("nonzero")

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def copy(self, order: Value = "C") -> Value:
        """Return a meta array on new memory."""
        return reserved(self.shape, self.dtype, None if order == "C" else self)

    if not TYPE_CHECKING:  # type checkers use NumPy's signature

        def astype(self, dtype: Value, order: Value = "K", *args: Value, copy: bool = True, **kwargs: Value) -> Value:
            """Return a meta array of the dtype."""
            dtype = np.dtype(dtype)
            if not copy and dtype == self.dtype:
                return self
            return reserved(self.shape, dtype, None if order == "C" else self)

    def fill(self, value: Value) -> None:
        """Do nothing: a meta array has no elements."""

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, dtype={self.dtype})"

    def __reduce_ex__(self, protocol: Value) -> NoReturn:
        raise NotImplementedError(NO_DATA)

    def __deepcopy__(self, memo: Value) -> Value:
        return self.copy("K")


def data_dependent(name: str) -> NotImplementedError:
    """Return the error of a function whose result has a data-dependent shape."""
    return NotImplementedError(
        f"{name}: the shape of the result depends on the elements, which meta tensors do not have; run it on the CPU"
    )


def reserved(shape: tuple[int, ...], dtype: DType, like: Value = None, exactly: bool = False) -> MetaArray:
    """Return a meta array on new memory, in row-major order or with the dimensions in the memory order of ``like``.

    With ``exactly``, the strides are those of ``like``, even if its elements share memory.
    """
    size = max(prod(shape), 1) * dtype.itemsize
    if like is None or like.ndim != len(shape) or like.flags.c_contiguous:
        return np.ndarray.__new__(MetaArray, shape, dtype, _memory(size))
    if exactly and min(like.strides) >= 0:
        steps = like.strides
        size = sum([max(length - 1, 0) * step for length, step in zip(shape, steps, strict=True)]) + dtype.itemsize
        return np.ndarray.__new__(MetaArray, shape, dtype, _memory(size), 0, steps)
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(_order(like)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return np.ndarray.__new__(MetaArray, shape, dtype, _memory(size), 0, strides)


def _order(array: Value) -> list[int]:
    return sorted(range(array.ndim), key=lambda axis: abs(array.strides[axis]), reverse=True)


def plain(value: Value) -> Value:
    """Replace meta arrays, also within tuples, lists and dicts, by plain NumPy views, which read as zeros."""
    if isinstance(value, MetaArray):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    return value


def without_numbers(value: Value, inputs: Value = ()) -> Value:
    """Replace result arrays by meta arrays: a view of an input by a view, any other by reserved memory."""
    if isinstance(value, tuple):
        items = [without_numbers(item, inputs) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [without_numbers(item, inputs) for item in value]
    if isinstance(value, np.generic):
        return reserved((), value.dtype)
    if not isinstance(value, np.ndarray) or isinstance(value, MetaArray):
        return value
    if value.base is not None and any(isinstance(x, np.ndarray) and np.may_share_memory(value, x) for x in inputs):
        return value.view(MetaArray)
    return reserved(value.shape, value.dtype, value, exactly=True)


def elementwise(function: Callable[..., Value], arrays: tuple[Value, ...]) -> Value:
    """Return the meta results of an elementwise function, computed on arrays with at most two elements per axis.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    shape = np.broadcast_shapes(*[x.shape for x in arrays if isinstance(x, np.ndarray)])
    result = function(*map(_small, arrays))

    def large(small: Value) -> MetaArray:
        small = np.asarray(small)
        return reserved(shape, small.dtype, small)

    return tuple(map(large, result)) if isinstance(result, tuple) else large(result)


def _small(array: Value) -> Value:
    """Return an array of ones in the same memory order, with at most two elements along each axis.

    Axes with stride 0 keep stride 0, since they do not affect the memory order of a result.
    """
    if not isinstance(array, np.ndarray):
        return array
    order = _order(array)
    ones = np.ones([min(array.shape[axis], 2 if array.strides[axis] else 1) for axis in order], array.dtype)
    ones = ones.transpose(np.argsort(order)) if order else ones
    return ones if all(array.strides) else np.broadcast_to(ones, [min(length, 2) for length in array.shape])


class _Module:
    """The module NumPy with functions that create meta arrays."""

    def __getattr__(self, name: str) -> Value:
        return getattr(np, name)

    def empty(self, shape: Value, dtype: Value = float, order: str = "C") -> MetaArray:
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        if min(shape, default=0) < 0:
            raise ValueError("negative dimensions are not allowed")
        return reserved(tuple(map(int, shape)), np.dtype(dtype))

    zeros = ones = empty

    def full(self, shape: Value, fill_value: Value, dtype: Value = None) -> MetaArray:
        return self.empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype)

    def arange(self, *args: Value, **kwargs: Value) -> MetaArray:
        if all(isinstance(value, int) for value in args):
            kind = np.arange(1, **kwargs).dtype
            return reserved((len(range(*args)),), kind)
        return without_numbers(np.arange(*args, **kwargs))

    def eye(self, *args: Value, **kwargs: Value) -> MetaArray:
        return without_numbers(np.eye(*args, **kwargs))

    def linspace(self, *args: Value, **kwargs: Value) -> MetaArray:
        return without_numbers(np.linspace(*args, **kwargs))

    def concatenate(self, arrays: Sequence[Value], axis: int = 0) -> MetaArray:
        shape = list(arrays[0].shape)
        shape[axis] = sum([x.shape[axis] for x in arrays])
        return reserved(tuple(shape), np.result_type(*[x.dtype for x in arrays]))

    def asarray(self, data: Value, dtype: Value = None, **options: Value) -> MetaArray:
        return META.asarray(data, dtype)

    array = asarray


class MetaBackend(Backend):
    """The backend of meta arrays."""

    name = "meta"
    xp: Value = _Module()
    array_type = MetaArray

    def device(self, array: Value) -> Device:
        return Device("meta")

    def asarray(self, data: Value, dtype: Value = None, device: Device | None = None) -> Value:
        if isinstance(data, MetaArray):
            return data if dtype is None else data.astype(dtype, copy=False)
        data = np.asarray(data)
        return reserved(data.shape, data.dtype if dtype is None else np.dtype(dtype), data)

    def to_numpy(self, array: Value) -> np.ndarray:
        raise NotImplementedError(NO_DATA)

    def strided(
        self, owner: Value, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Value
    ) -> Value:
        return super().strided(owner, offset, shape, strides, dtype).view(MetaArray)


META = MetaBackend()
