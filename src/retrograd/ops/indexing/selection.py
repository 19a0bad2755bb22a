"""Elementwise selection by masks."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType, result_type
from ...core.arrays.fp_warnings import silenced
from ...core.arrays.python_numbers import converted
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ...kernels import USEFUL
from ...kernels.loops.elements.elementwise import chosen, filled
from ...kernels.loops.layout import copies
from ..shape.conversion import CAST
from ..table.elementwise_primitives import KEEP, WHERE
from ..table.registry import inplace_method, operator
from ..table.types import Number, Operand
from .writing import byte_mask, check_range_of_value


def _check_mask(argument: str, mask: Operand) -> Tensor:
    mask = operand(mask, argument)
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"expected a bool Tensor for {argument}, got {mask.dtype}")
    return mask


@overload
def where(condition: Operand) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Operand, input: Operand, other: Operand) -> Tensor: ...
@operator(method=False)
def where(
    condition: Operand, input: Operand | None = None, other: Operand | None = None
) -> Tensor | tuple[Tensor, ...]:
    """``input if condition else other``, elementwise; with the condition alone, the positions where it is True.

    Derivative: input: ``g`` where the condition is True, else 0. other: ``g`` where it is False, else 0. Elements
    that are not selected get 0, NaN included.
    Dtype: any; the result has PyTorch's result type of input and other.

    Args:
        condition: bools; as the only argument also numbers, of which all but 0 count as True.
        input: a Tensor or a number.

    Returns: a Tensor; without ``input`` and ``other`` a tuple of positions, one Tensor per dimension.

    Raises:
        RuntimeError: the condition does not hold bools, or the shapes do not broadcast.
        TypeError: only one of input and other is given.

    >>> x = rg.tensor([-1.0, 2.0])
    >>> rg.where(x > 0, x, 0.0)
    tensor([0., 2.])
    >>> rg.where(x > 0)
    (tensor([1]),)
    """
    if input is None and other is None:
        array = operand(condition, "condition").array
        if array.ndim == 0:
            array = array.reshape(1)
        return tuple([new_tensor(index) for index in array.nonzero()])
    condition = operand(condition, "condition")
    if condition.array.dtype == np.uint8:
        condition = new_tensor(byte_mask(condition.array))
    condition = _check_mask("condition", condition)
    if input is None or other is None:
        raise TypeError("expected where(condition) or where(condition, input, other)")
    if isinstance(input, Tensor) and isinstance(other, Tensor) and input.array.dtype is other.array.dtype:
        return apply(WHERE, (condition, input, other), {})
    x, y = (value if isinstance(value, (Tensor, int, float, complex)) else operand(value) for value in (input, other))
    dtype = result_type(*(value.array if isinstance(value, Tensor) else value for value in (x, y)))
    return apply(WHERE, (condition, _in_dtype(x, dtype), _in_dtype(y, dtype)), {})


def _in_dtype(value: object, dtype: DType) -> Any:
    if not isinstance(value, Tensor):
        if dtype.kind in "iu" or dtype.char in "fF":
            value = converted(value, dtype)
        return silenced(dtype.type, value)
    return value if value.array.dtype == dtype else apply(CAST, (value,), {"dtype": dtype})


@operator(namespace="Tensor", name="where")
def _where_method(self: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """``self if condition else other``, elementwise: ``where`` with this Tensor as its second argument.

    Derivative: self: ``g`` where the condition is True, else 0. other: ``g`` where it is False, else 0.
    Dtype: any; the result has PyTorch's result type of self and other.

    Args:
        condition: bools.

    Raises:
        RuntimeError: the condition does not hold bools, or the shapes do not broadcast.

    >>> x = rg.tensor([-1.0, 2.0])
    >>> x.where(x > 0, 0.0)
    tensor([0., 2.])
    """
    return where(condition, self, other)


def _filled_where(x: Array, mask: Array, value: Array) -> Array:
    out = chosen(mask, value, x) if type(x) is np.ndarray and x.size >= USEFUL else None
    return np.where(mask, value, x) if out is None else out


def _fill_where(out: Array, x: Array, mask: Array, value: Array) -> None:
    if out is not x:
        copies.write(out, x)
    if out.size < USEFUL or not filled(out, mask, value):
        np.copyto(out, value, where=mask)


MASKED_FILL = Primitive(
    "masked_fill",
    _filled_where,
    "x mask value",
    [lambda g, mask: KEEP(g, ~mask), None, lambda g, mask: KEEP(g, mask)],
    elementwise=True,
    write=_fill_where,
    contiguous=True,
)


def _fill_value(input: Tensor, value: Number | Tensor) -> Any:
    dtype = input.array.dtype
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise RuntimeError(f"expected a number or a 0-d Tensor for value, got {value.dtype}{value.shape}")
    else:
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (int, float, complex)):
            raise TypeError(f"expected a number or a 0-d Tensor for value, got {type(value).__name__}")
        value = converted(value, dtype)
    if isinstance(value, Tensor) and value.array.dtype is not dtype:
        check_range_of_value(value, dtype)
    return _in_dtype(value, dtype)


@operator(inplace=MASKED_FILL, args="value number")
def masked_fill(input: Operand, mask: Tensor, value: Number | Tensor) -> Tensor:
    """``value if mask else input``, elementwise.

    Derivative: input: ``g`` where the mask is False, else 0. value: the sum of ``g`` where the mask is True.
    Shape: input and mask broadcast.
    Dtype: any; the result has the input's dtype.

    Raises:
        RuntimeError: the mask does not hold bools, the value has dimensions, is beyond the input's range, or is complex
            and the input is not.
        TypeError: the value is not a number.

    >>> rg.masked_fill(rg.tensor([1.0, 2.0]), rg.tensor([True, False]), -1.0)
    tensor([-1.,  2.])
    """
    input = operand(input)
    mask = _check_mask("mask", mask)
    return apply(MASKED_FILL, (input, mask, _fill_value(input, value)), {})


def _masked_fill_(self: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    mask = _check_mask("mask", mask)
    return apply_inplace(MASKED_FILL, self, mask, _fill_value(self, value))


tensor_method(inplace_method("masked_fill", _masked_fill_), "masked_fill_")
