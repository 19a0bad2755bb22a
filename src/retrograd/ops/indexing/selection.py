"""Selection: one of several values at each place, by a mask or by comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import result_type
from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply, apply2, operand
from ...core.tensor import Tensor, new_tensor, tensor_method
from ..math.arithmetic import SIGN
from ..math.comparison import ISFINITE, ISNAN
from ..shape.conversion import CAST
from ..table.elementwise import binary, elementwise
from ..table.masks import KEEP, WHERE, zero_rule
from ..table.registry import inplace_method, operator


def _halved_at_ties(g: Any, chosen: Any, tie: Any) -> Any:
    return WHERE(tie, g * 0.5, KEEP(g, chosen))


# Ties share the gradient in halves; where either is NaN both get it (as PyTorch).
MAXIMUM = binary(
    "maximum",
    np.maximum,
    lambda g, x, y: _halved_at_ties(g, ~(x < y), x == y),
    lambda g, x, y: _halved_at_ties(g, ~(x > y), x == y),
)
MINIMUM = binary(
    "minimum",
    np.minimum,
    lambda g, x, y: _halved_at_ties(g, ~(x > y), x == y),
    lambda g, x, y: _halved_at_ties(g, ~(x < y), x == y),
)
# Ties go to the first (as PyTorch).
FMAX = binary(
    "fmax",
    np.fmax,
    lambda g, x, y: KEEP(g, (x >= y) | ISNAN(y)),
    lambda g, x, y: KEEP(g, ~((x >= y) | ISNAN(y))),
)
FMIN = binary(
    "fmin",
    np.fmin,
    lambda g, x, y: KEEP(g, (x <= y) | ISNAN(y)),
    lambda g, x, y: KEEP(g, ~((x <= y) | ISNAN(y))),
)


@operator(numpy=np.maximum, note="halves at ties", real=True)
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The larger of two, elementwise with broadcasting; NaN where either is.

    >>> rg.maximum(rg.tensor([1.0, 4.0]), rg.tensor([3.0, 2.0]))
    tensor([3., 4.])
    """
    return apply2(MAXIMUM, input, other)


@operator(numpy=np.minimum, note="halves at ties", real=True)
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two, elementwise with broadcasting; NaN where either is.

    >>> rg.minimum(rg.tensor([1.0, 4.0]), rg.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return apply2(MINIMUM, input, other)


@operator(numpy=np.fmax, note="the first at ties", real=True)
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of two, elementwise with broadcasting; the other one where one is NaN.

    >>> rg.fmax(rg.tensor([1.0, float("nan")]), rg.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """
    return apply2(FMAX, input, other)


@operator(numpy=np.fmin, note="the first at ties", real=True)
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of two, elementwise with broadcasting; the other one where one is NaN.

    >>> rg.fmin(rg.tensor([1.0, float("nan")]), rg.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return apply2(FMIN, input, other)


# Bounds: at a bound the gradient passes to the input (as PyTorch).
CLAMP_MIN = binary("clamp_min", np.maximum, lambda g, x, y: KEEP(g, x >= y), lambda g, x, y: KEEP(g, x < y))
CLAMP_MAX = binary("clamp_max", np.minimum, lambda g, x, y: KEEP(g, x <= y), lambda g, x, y: KEEP(g, x > y))
CLAMP = elementwise(
    "clamp",
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "x low high",
    [
        lambda g, x, low, high: KEEP(g, (x >= low) & (x <= high)),
        lambda g, x, low, high: KEEP(g, (x < low) & (low < high)),
        lambda g, x, low, high: KEEP(g, (x > high) | (low > high)),
    ],
    promote="same",
)


CLAMP_TO_NUMBERS = elementwise(
    "clamp",
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "x",
    [lambda g, x, low, high: KEEP(g, (x >= low) & (x <= high))],
)


def _clamp_call(input: Any, low: Any, high: Any) -> tuple[Primitive, tuple[Any, ...]]:
    if low is None and high is None:
        raise RuntimeError("at least one of min and max must not be None")
    if high is None:
        return CLAMP_MIN, (input, low)
    if low is None:
        return CLAMP_MAX, (input, high)
    return CLAMP, (input, low, high)


@operator(inplace=CLAMP, aliases=("clip",), note="passes to the input at the bounds", real=True)
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The nearest number to ``input`` in [min, max]: min(max(input, min), max).

    Args:
        input: a Tensor.
        min: lower bound, a number or a Tensor; None for none.
        max: upper bound, a number or a Tensor; None for none. Where min > max, the result is max.

    Raises:
        RuntimeError: neither bound is given.

    >>> rg.clamp(rg.tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1. ,  0.5,  1. ])
    """
    input = operand(input)
    if isinstance(min, (int, float)) and isinstance(max, (int, float)) and input.array.dtype.kind == "f":
        return apply(CLAMP_TO_NUMBERS, (input,), {"low": min, "high": max})
    primitive, inputs = _clamp_call(input, min, max)
    return apply(primitive, inputs, {})


def _clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    primitive, inputs = _clamp_call(self, min, max)
    return apply_inplace(primitive, *inputs)


tensor_method(inplace_method("clamp", _clamp_, real=True), "clamp_", "clip_")


@operator(inplace=CLAMP_MIN, note="passes to the input at the bound", real=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """max(input, min), elementwise.

    >>> rg.clamp_min(rg.tensor([-2.0, 0.5]), 0)
    tensor([0. , 0.5])
    """
    return apply2(CLAMP_MIN, input, min)


@operator(inplace=CLAMP_MAX, note="passes to the input at the bound", real=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """min(input, max), elementwise.

    >>> rg.clamp_max(rg.tensor([0.5, 3.0]), 1)
    tensor([0.5, 1. ])
    """
    return apply2(CLAMP_MAX, input, max)


NAN_TO_NUM = elementwise(
    "nan_to_num",
    lambda x, nan, posinf, neginf: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
    "x",
    [lambda g, x: KEEP(g, ISFINITE(x))],
)


@operator(inplace=True, note="0 where a value was replaced")
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced by finite numbers.

    Args:
        input: a Tensor.
        nan: for NaN, by default 0.
        posinf: for +inf, by default the largest number of the dtype.
        neginf: for -inf, by default the smallest number of the dtype.

    >>> rg.nan_to_num(rg.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    values = {"nan": 0.0 if nan is None else nan, "posinf": posinf, "neginf": neginf}
    return apply(NAN_TO_NUM, (operand(input),), values)


COPYSIGN = binary("copysign", np.copysign, lambda g, x, ans: g * (SIGN(x) * SIGN(ans)), zero_rule, promote="float")


@operator(direct=True, inplace=COPYSIGN, numpy=np.copysign, note="0 at 0")
def copysign(input: Tensor, other: Any) -> Tensor:
    """The size of ``input`` with the sign of ``other`` (that of -0 is negative).

    >>> rg.copysign(rg.tensor([1.0, -2.0]), rg.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """
    return apply2(COPYSIGN, input, other)


def _check_mask(argument: str, mask: Any) -> Tensor:
    mask = operand(mask, argument)
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"wanted a bool Tensor for {argument}, got {mask.dtype}")
    return mask


@operator(method=False)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, ``other`` elsewhere; with the condition alone, where it holds.

    The gradient of what was not taken is 0 (whatever its value, NaN included).

    Args:
        condition: a Tensor of bools.
        input: a Tensor or number that broadcasts with the condition.
        other: a Tensor or number that broadcasts with the condition.

    Returns:
        A Tensor; without ``input`` and ``other`` a tuple of index Tensors, one per axis, as ``nonzero(as_tuple=True)``.

    Raises:
        RuntimeError: the condition is not of bools, or the shapes do not broadcast.

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
    condition = _check_mask("condition", condition)
    if input is None or other is None:
        raise TypeError("wanted where(condition) or where(condition, input, other)")
    x, y = (value if isinstance(value, (Tensor, int, float, complex)) else operand(value) for value in (input, other))
    dtype = result_type(*(value.array if isinstance(value, Tensor) else value for value in (x, y)))
    return apply(WHERE, (condition, _in_dtype(x, dtype), _in_dtype(y, dtype)), {})


def _in_dtype(value: Any, dtype: Any) -> Any:
    if not isinstance(value, Tensor):
        return dtype.type(value)
    return value if value.array.dtype == dtype else apply(CAST, (value,), {"dtype": dtype})


@operator(namespace="Tensor", name="where")
def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The Tensor where the condition holds, ``other`` elsewhere.

    >>> x = rg.tensor([-1.0, 2.0])
    >>> x.where(x > 0, 0.0)
    tensor([0., 2.])
    """
    result: Tensor = where(condition, self, other)
    return result


def _fill_where(out: Any, x: Any, mask: Any, value: Any) -> None:
    if out is not x:
        out[...] = x
    np.copyto(out, value, where=mask)


MASKED_FILL = Primitive(
    "masked_fill",
    lambda x, mask, value: np.where(mask, value, x),
    "x mask value",
    [lambda g, mask: KEEP(g, ~mask), None, lambda g, mask: KEEP(g, mask)],
    elementwise=True,
    write=_fill_where,
)


def _fill_value(name: str, input: Tensor, value: Any) -> Any:
    dtype = input.array.dtype
    if isinstance(value, Tensor):
        if value.array.ndim:
            raise RuntimeError(f"wanted a number or a 0-d Tensor for value, got {value.dtype}{value.shape}")
    elif not isinstance(value, (int, float, complex)):
        raise TypeError(f"wanted a number or a 0-d Tensor for value, got {type(value).__name__}")
    elif isinstance(value, complex) and dtype.kind != "c":
        raise RuntimeError(f"value {value!r} cannot be converted to {dtype}")
    return _in_dtype(value, dtype)


@operator(inplace=MASKED_FILL)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask holds, ``input`` elsewhere, in the input's dtype.

    Args:
        input: a Tensor.
        mask: bools that broadcast with it.
        value: a number or a 0-d Tensor.

    Raises:
        RuntimeError: the mask is not of bools, or the value has axes.

    >>> rg.masked_fill(rg.tensor([1.0, 2.0]), rg.tensor([True, False]), -1.0)
    tensor([-1.,  2.])
    """
    input = operand(input)
    mask = _check_mask("mask", mask)
    return apply(MASKED_FILL, (input, mask, _fill_value("masked_fill", input, value)), {})


def _masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    mask = _check_mask("mask", mask)
    return apply_inplace(MASKED_FILL, self, mask, _fill_value("masked_fill_", self, value))


tensor_method(inplace_method("masked_fill", _masked_fill_), "masked_fill_")
