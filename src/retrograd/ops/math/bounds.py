"""The operators maximum and minimum, clamp, nan_to_num and copysign."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import FLOATING, DType, result_type
from ...core.arrays.layout import order_like, row_major
from ...core.arrays.python_numbers import bounds, converted
from ...core.graph.primitive import Primitive, apply, apply2, operand
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, tensor_method
from ...kernels.loops.elements.elementwise import in_one_pass
from ..table.elementwise_primitives import ARITHMETIC, KEEP, WHERE, binary, elementwise, zero_rule
from ..table.registry import inplace_method, operator
from ..table.types import Operand
from .arithmetic import SIGN
from .comparison import ISFINITE, ISNAN


def _halved_at_ties(g: Array, chosen: Array, tie: Array) -> Array:
    return WHERE(tie, g * 0.5, KEEP(g, chosen))


# Equal elements get half of the gradient each; if either is NaN, both get the gradient (as in PyTorch).
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
# For equal elements the first gets the gradient (as in PyTorch).
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


@operator(numpy=np.maximum, real=True, dtype="promoted real")
def maximum(input: Operand, other: Operand) -> Tensor:
    """``max(input, other)``, elementwise; NaN where either operand is NaN.

    Derivative: ``g`` to the larger operand; half of it to each at ties; ``g`` to both where either is NaN.

    >>> rg.maximum(rg.tensor([1.0, 4.0]), rg.tensor([3.0, 2.0]))
    tensor([3., 4.])
    """
    return apply2(MAXIMUM, input, other)


@operator(numpy=np.minimum, real=True, dtype="promoted real")
def minimum(input: Operand, other: Operand) -> Tensor:
    """``min(input, other)``, elementwise; NaN where either operand is NaN.

    Derivative: ``g`` to the smaller operand; half of it to each at ties; ``g`` to both where either is NaN.

    >>> rg.minimum(rg.tensor([1.0, 4.0]), rg.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return apply2(MINIMUM, input, other)


@operator(numpy=np.fmax, real=True, dtype="promoted real")
def fmax(input: Operand, other: Operand) -> Tensor:
    """``max(input, other)``, elementwise; where one operand is NaN, the other operand.

    Derivative: ``g`` to the larger; to the input at ties.

    >>> rg.fmax(rg.tensor([1.0, float("nan")]), rg.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """
    return apply2(FMAX, input, other)


@operator(numpy=np.fmin, real=True, dtype="promoted real")
def fmin(input: Operand, other: Operand) -> Tensor:
    """``min(input, other)``, elementwise; where one operand is NaN, the other operand.

    Derivative: ``g`` to the smaller; to the input at ties.

    >>> rg.fmin(rg.tensor([1.0, float("nan")]), rg.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return apply2(FMIN, input, other)


# Bounds: at a bound the gradient goes to the input (as in PyTorch).
CLAMP_MIN = binary("clamp_min", np.maximum, lambda g, x, y: KEEP(g, x >= y), lambda g, x, y: KEEP(g, x < y))
CLAMP_MAX = binary("clamp_max", np.minimum, lambda g, x, y: KEEP(g, x <= y), lambda g, x, y: KEEP(g, x > y))
CLAMP = elementwise(
    "clamp",
    ARITHMETIC["bounded"],
    "x low high",
    [
        lambda g, x, low, high: KEEP(g, (x >= low) & (x <= high)),
        lambda g, x, low, high: KEEP(g, (x < low) & (low < high)),
        lambda g, x, low, high: KEEP(g, (x > high) | (low > high)),
    ],
    promote="same",
)


CLAMP_TO_NUMBERS = elementwise(
    "clamp", in_one_pass(ARITHMETIC["bounded"]), "x", [in_one_pass(ARITHMETIC["clamp_backward"])], compiled="fd"
)


def _of_its_kind(bound: Operand) -> Any:
    """Return a stand-in for the bound in type promotion, where a 0-d Tensor counts as a Python number."""
    if not isinstance(bound, Tensor) or bound.array.ndim:
        return bound.array if isinstance(bound, Tensor) else bound
    kind = bound.array.dtype.kind
    return True if kind == "b" else 1 if kind in "iu" else 1.0


def _in_dtype(bound: Operand | None, dtype: DType) -> Any:
    if isinstance(bound, (int, float)):
        return converted(bound, dtype)
    return bound.to(dtype) if isinstance(bound, Tensor) and not bound.array.ndim else bound


def _clamp_call(input: Operand, low: Operand | None, high: Operand | None) -> tuple[Primitive, tuple[Any, ...]]:
    if low is None and high is None:
        raise RuntimeError("at least one of min and max must not be None")
    if isinstance(low, (int, float)) or isinstance(high, (int, float)):
        x: Any = input.array if isinstance(input, Tensor) else input
        given = [value for value in (low, high) if value is not None]
        keeps = len(given) == 1 and isinstance(input, Tensor) and x.dtype.kind in FLOATING
        dtype = x.dtype if keeps else result_type(x, *map(_of_its_kind, given))
        low, high = _in_dtype(low, dtype), _in_dtype(high, dtype)
    if high is None:
        return CLAMP_MIN, (input, low)
    if low is None:
        return CLAMP_MAX, (input, high)
    return CLAMP, (input, low, high)


@operator(inplace=CLAMP, aliases=("clip",), real=True, shape="broadcast", dtype="promoted real")
def clamp(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """``min(max(input, min), max)``: the nearest number to ``input`` in ``[min, max]``.

    Derivative: input: ``g`` from min to max, bounds included, 0 outside. min: ``g`` where the input is below it and
    min < max. max: ``g`` where the input is above it, or min > max.

    Args:
        min: the lower bound, a number or a Tensor; None for no bound.
        max: the upper bound, a number or a Tensor; None for no bound. Where min > max, the result is max.

    Raises:
        RuntimeError: neither bound is given, a bound is beyond the range of the result's dtype, or the shapes do not
            broadcast.

    >>> rg.clamp(rg.tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1. ,  0.5,  1. ])
    """
    input = operand(input)
    if isinstance(min, (int, float)) and isinstance(max, (int, float)) and input.array.dtype.kind in FLOATING:
        if not (-65504 <= min <= 65504 and -65504 <= max <= 65504):
            min, max = converted(min, input.array.dtype), converted(max, input.array.dtype)
        return apply(CLAMP_TO_NUMBERS, (input,), {"low": min, "high": max})
    primitive, inputs = _clamp_call(input, min, max)
    return apply2(primitive, *inputs) if len(inputs) == 2 else apply(primitive, inputs, {})


def _clamp_(self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    primitive, inputs = _clamp_call(self, min, max)
    return apply_inplace(primitive, *inputs)


tensor_method(inplace_method("clamp", _clamp_, real=True), "clamp_", "clip_")


@operator(inplace=CLAMP_MIN, real=True, dtype="promoted real", raises="broadcast")
def clamp_min(input: Operand, min: Operand) -> Tensor:
    """``max(input, min)``, elementwise.

    Derivative: input: ``g`` where the input is at least min, else 0. min: ``g`` where the input is less, else 0.
    Shape: that of ``input`` and ``min`` broadcast.

    Args:
        min: the lower bound, a Tensor or a number.

    >>> rg.clamp_min(rg.tensor([-2.0, 0.5]), 0)
    tensor([0. , 0.5])
    """
    primitive, inputs = _clamp_call(input, min, None)
    return apply2(primitive, *inputs)


@operator(inplace=CLAMP_MAX, real=True, dtype="promoted real", raises="broadcast")
def clamp_max(input: Operand, max: Operand) -> Tensor:
    """``min(input, max)``, elementwise.

    Derivative: input: ``g`` where the input is at most max, else 0. max: ``g`` where the input is greater, else 0.
    Shape: that of ``input`` and ``max`` broadcast.

    Args:
        max: the upper bound, a Tensor or a number.

    >>> rg.clamp_max(rg.tensor([0.5, 3.0]), 1)
    tensor([0.5, 1. ])
    """
    primitive, inputs = _clamp_call(input, None, max)
    return apply2(primitive, *inputs)


def _nan_to_num(x: Array, nan: float, posinf: float | None, neginf: float | None) -> Array:
    if x.__class__ is np.ndarray and np.isfinite(x).all():
        return x.copy(order=order_like(x))
    return np.nan_to_num(x if order_like(x) == "K" else row_major(x), nan=nan, posinf=posinf, neginf=neginf)


NAN_TO_NUM = elementwise("nan_to_num", _nan_to_num, "x", [lambda g, x: KEEP(g, ISFINITE(x))])


@operator(inplace=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """``input`` with finite numbers for NaN and the infinities.

    Derivative: ``g``, 0 where a value was replaced.

    Args:
        nan: the replacement of NaN, by default 0.
        posinf: the replacement of +inf, by default the largest number of the dtype.
        neginf: the replacement of -inf, by default the smallest number of the dtype.

    >>> rg.nan_to_num(rg.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    x = operand(input)
    if x.array.dtype.kind == "V":  # computed in float32, whose largest number is out of bfloat16's range
        low, high = bounds(x.array.dtype)
        posinf, neginf = high if posinf is None else posinf, low if neginf is None else neginf
    values = {"nan": 0.0 if nan is None else nan, "posinf": posinf, "neginf": neginf}
    if any(isinstance(value, complex) for value in values.values()):
        raise TypeError(f"expected real numbers for nan, posinf and neginf, got {values}")
    return apply(NAN_TO_NUM, (x,), values)


COPYSIGN = binary("copysign", np.copysign, lambda g, x, ans: g * (SIGN(x) * SIGN(ans)), zero_rule, promote="float")


@operator(direct=True, inplace=COPYSIGN, numpy=np.copysign)
def copysign(input: Operand, other: Operand) -> Tensor:
    """``|input|`` with the sign of ``other`` (that of -0 is negative).

    Derivative: input: ``g`` times the signs of input and result, 0 at 0. other: 0.
    Dtype: real; integers become the default dtype.

    >>> rg.copysign(rg.tensor([1.0, -2.0]), rg.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """
    return apply2(COPYSIGN, input, other)
