"""Tensors filled with a number."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.devices import Device, Wrapping, all_examples, array_module
from ...core.arrays.dtypes import DType, as_dtype, scalar_dtype
from ...core.arrays.layout import order_like
from ...core.arrays.python_numbers import converted
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.layout import copies
from ..table.arguments import integer
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike, Number, Operand, Size
from .creation import create, dtype_or_default, python_number, shape_of, with_grad

# Holds a function that returns the fill value of new memory by dtype, or nothing unless deterministic algorithms are
# on.
memory_fills: list[Callable[[DType], Number | None]] = []


def memory_fill(dtype: DType) -> Number | None:
    """Return the number that fills memory which ``empty`` allocates; None if the memory stays as it is."""
    return memory_fills[0](dtype) if memory_fills else None


def _filled(
    shape: tuple[int, ...], fill: Number | None, dtype: DType, device: DeviceLike | None, requires_grad: bool
) -> Tensor:
    if fill is None and memory_fills:
        fill = memory_fill(dtype)
    if fill is None:
        return create(lambda xp: xp.empty(shape, dtype), device, requires_grad)
    if type(fill) is int and fill == 0:
        return create(lambda xp: xp.zeros(shape, dtype), device, requires_grad, True)
    value = converted(fill, dtype)
    return create(lambda xp: _full(xp, shape, value, dtype), device, requires_grad, True)


def _full(xp: Any, shape: tuple[int, ...], fill: Number, dtype: DType) -> Any:
    if xp is not np or prod(shape) < copies.LARGE:
        return xp.full(shape, fill, dtype)
    out = np.empty(shape, dtype)
    copies.write(out, fill)
    return out


def _filled_like(
    x: Tensor,
    shape: tuple[int, ...],
    fill: Number | None,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    requires_grad: bool,
) -> Tensor:
    """Return a filled Tensor, by default with x's dtype and device; if the shape is x's, also with x's memory order."""
    kind = x.array.dtype if dtype is None else as_dtype(dtype)
    if fill is None and memory_fills:
        fill = memory_fill(kind)
    if fill is not None:
        fill = converted(fill, kind)
    if isinstance(x.array, Wrapping) and (device is None or x.device == Device(device)):
        mapped: Any = np.empty_like(x.array, kind, shape=shape)
        if fill is not None:
            all_examples(mapped)[...] = fill
        return with_grad(new_tensor(mapped), requires_grad)
    if shape == x.array.shape and not x.array.flags.c_contiguous and device is None:
        array = array_module(x).empty_like(x.array, kind, order=order_like(x.array))
        if fill is not None:
            array[...] = fill
        return with_grad(new_tensor(array), requires_grad)
    return _filled(shape, fill, kind, x.device if device is None else device, requires_grad)


# Of a given size


@operator(method=False, differentiable=False, raises="length", args="size or shape")
def zeros(
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``0`` everywhere.

    Shape: ``zeros(2, 3)`` and ``zeros((2, 3))`` are of shape (2, 3).
    Dtype: any, by default the default dtype.

    >>> rg.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return _filled(shape_of(size, keywords), 0, dtype_or_default(dtype), device, requires_grad)


@operator(method=False, differentiable=False, like=zeros)
def ones(
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``1`` everywhere.

    Shape: ``ones(2, 3)`` and ``ones((2, 3))`` are of shape (2, 3).

    >>> rg.ones(2, dtype=rg.int64)
    tensor([1, 1])
    """
    return _filled(shape_of(size, keywords), 1, dtype_or_default(dtype), device, requires_grad)


@operator(method=False, differentiable=False, like=zeros)
def empty(
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``out[i]`` is uninitialized.

    Shape: ``empty(2, 3)`` and ``empty((2, 3))`` are of shape (2, 3).

    >>> rg.empty(2, 3).shape
    (2, 3)
    """
    return _filled(shape_of(size, keywords), None, dtype_or_default(dtype), device, requires_grad)


@operator(method=False, differentiable=False, shape="size", raises="length")
def full(
    size: Size,
    fill_value: Operand,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` everywhere.

    Dtype: any, by default that of the number: bool, int64, the default dtype, or its complex one.

    Args:
        dtype: the dtype, by default that of the number.

    Raises:
        TypeError: ``fill_value`` is not a number.

    >>> rg.full((2,), 7)
    tensor([7, 7])
    """
    shape, fill = shape_of((size,)), python_number(fill_value, "fill_value")
    return _filled(shape, fill, scalar_dtype(fill) if dtype is None else as_dtype(dtype), device, requires_grad)


@operator(method=False, differentiable=False, raises="length", like=ones)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1`` on the diagonal, ``0`` elsewhere: the identity matrix.

    Shape: (n, m).

    Args:
        n: the number of rows.
        m: the number of columns, by default n.

    >>> rg.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = shape_of((integer(n, "n"), integer(n if m is None else m, "m")))
    kind = dtype_or_default(dtype)
    return create(lambda xp: xp.eye(rows, columns, dtype=kind), device, requires_grad, True)


# As another Tensor


@operator(method=False, differentiable=False, args="input like, dtype like, device like")
def zeros_like(
    input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """``0`` everywhere, in the shape, dtype and device of ``input``.

    >>> rg.zeros_like(rg.tensor([1, 2]))
    tensor([0, 0])
    """
    x = operand(input)
    return _filled_like(x, x.shape, 0, dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=zeros_like)
def ones_like(
    input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """``1`` everywhere, in the shape, dtype and device of ``input``.

    >>> rg.ones_like(rg.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    x = operand(input)
    return _filled_like(x, x.shape, 1, dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=zeros_like)
def empty_like(
    input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A Tensor with uninitialized elements, in the shape, dtype and device of ``input``.

    >>> rg.empty_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    x = operand(input)
    return _filled_like(x, x.shape, None, dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=zeros_like)
def full_like(
    input: Tensor,
    fill_value: Operand,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` everywhere, in the shape, dtype and device of ``input``.

    >>> rg.full_like(rg.zeros(2), 3)
    tensor([3., 3.])
    """
    x = operand(input)
    return _filled_like(x, x.shape, python_number(fill_value, "fill_value"), dtype, device, requires_grad)


@operator(namespace="Tensor", differentiable=False, shape="size", like=zeros, args="dtype of tensor, device of tensor")
def new_zeros(
    self: Tensor,
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``0`` everywhere, in the dtype and device of this Tensor.

    Dtype: any, by default this Tensor's.

    >>> rg.ones(1, dtype=rg.int64).new_zeros(2)
    tensor([0, 0])
    """
    return _filled_like(self, shape_of(size, keywords), 0, dtype, device, requires_grad)


@operator(namespace="Tensor", differentiable=False, like=new_zeros)
def new_ones(
    self: Tensor,
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``1`` everywhere, in the dtype and device of this Tensor.

    >>> rg.zeros(1).new_ones(2)
    tensor([1., 1.])
    """
    return _filled_like(self, shape_of(size, keywords), 1, dtype, device, requires_grad)


@operator(namespace="Tensor", differentiable=False, like=new_zeros)
def new_empty(
    self: Tensor,
    *size: Size,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``out[i]`` is uninitialized, in the dtype and device of this Tensor.

    >>> rg.zeros(1).new_empty(2, 3).shape
    (2, 3)
    """
    return _filled_like(self, shape_of(size, keywords), None, dtype, device, requires_grad)


@operator(namespace="Tensor", differentiable=False, like=new_zeros)
def new_full(
    self: Tensor,
    size: Size,
    fill_value: Operand,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``fill_value`` everywhere, in the dtype and device of this Tensor.

    Args:
        size: the lengths of the dimensions.

    >>> rg.zeros(1).new_full((2,), 3)
    tensor([3., 3.])
    """
    fill = python_number(fill_value, "fill_value")
    return _filled_like(self, shape_of((size,)), fill, dtype, device, requires_grad)
