"""Rounding and other piecewise constant functions, with zero gradients; heaviside, nextafter and frexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, INEXACT, result_type
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ..table.elementwise_primitives import elementwise, unary, zero_rule
from ..table.registry import inplace_method, operator
from ..table.types import Operand


def _of_integers(ufunc: Any) -> Callable[[Array], Array]:
    """Wrap a ufunc so that integers are returned unchanged and bools raise an error, as in PyTorch."""

    def rounded(x: Array) -> Array:
        if x.dtype.kind not in "iub":
            return ufunc(x)
        if x.dtype.kind == "b":
            raise NotImplementedError("is not defined for bools")
        return x.copy()

    rounded.ufunc = ufunc  # type: ignore[attr-defined]
    return rounded


CEIL = unary("ceil", _of_integers(np.ceil), zero_rule, promote="same", compiled="fd")
FLOOR = unary("floor", _of_integers(np.floor), zero_rule, promote="same", compiled="fd")
TRUNC = unary("trunc", _of_integers(np.trunc), zero_rule, promote="same", compiled="fd")
RINT = unary("round", _of_integers(np.rint), zero_rule, promote="same", compiled="fd")
ROUND = elementwise("round", lambda x, decimals: np.round(x, decimals), "x", [zero_rule])
FRAC = unary("frac", lambda x: x - np.trunc(x), lambda g: g, promote="same", signals=True)


@operator(direct=True, inplace=CEIL, numpy=np.ceil, raises="complex", derivative="zero")
def ceil(input: Tensor) -> Tensor:
    """``ceil(input)``, elementwise: the smallest whole number not below the input.

    Dtype: real; the result has the input's dtype, integers stay as they are.

    >>> rg.ceil(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  2.])
    """
    return apply1(CEIL, input)


@operator(direct=True, inplace=FLOOR, numpy=np.floor, like=ceil)
def floor(input: Tensor) -> Tensor:
    """``floor(input)``, elementwise: the largest whole number not above the input.

    >>> rg.floor(rg.tensor([-1.5, 1.2]))
    tensor([-2.,  1.])
    """
    return apply1(FLOOR, input)


@operator(direct=True, inplace=TRUNC, numpy=np.trunc, aliases=("fix",), like=ceil)
def trunc(input: Tensor) -> Tensor:
    """``sign(input) * floor(|input|)``, elementwise: rounded towards 0.

    >>> rg.trunc(rg.tensor([-1.5, 1.2]))
    tensor([-1.,  1.])
    """
    return apply1(TRUNC, input)


@operator(inplace=True, numpy=np.rint, real=True, also=("special.round",), derivative="zero")
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """``rint(input * 10^decimals) / 10^decimals``, elementwise, with ties rounded to even.

    Dtype: floating; integers stay as they are.

    Args:
        input: the numbers to round.
        decimals: the number of digits after the decimal point; negative numbers round to tens, hundreds and so on.

    Raises:
        NotImplementedError: ``decimals`` is given for integers.

    >>> rg.round(rg.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> rg.round(rg.tensor([1.236]), decimals=2)
    tensor([1.24])
    """
    if decimals == 0:
        return apply1(RINT, input)
    x = operand(input)
    if x.array.dtype.kind not in INEXACT:
        raise NotImplementedError(f"decimals are not implemented for {x.dtype}, only for floating Tensors")
    return apply(ROUND, (x,), {"decimals": decimals})


def _round(self: Tensor, decimals: int | None = None) -> Tensor:
    return round_(self, decimals=decimals or 0)


tensor_method(_round, "__round__")
tensor_method(floor, "__floor__")
tensor_method(ceil, "__ceil__")
tensor_method(trunc, "__trunc__")


@operator(inplace=True)
def frac(input: Tensor) -> Tensor:
    """``input - trunc(input)``, elementwise: the fractional part, with the sign of the input.

    Derivative: ``g``, also at whole numbers.
    Dtype: floating only.

    Raises:
        NotImplementedError: the Tensor is not floating.

    >>> rg.frac(rg.tensor([-1.5, 1.25]))
    tensor([-0.5 ,  0.25])
    """
    x = operand(input)
    if x.array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"is not implemented for {x.dtype}, only for floating Tensors")
    return apply1(FRAC, x)


def _heaviside(x: Array, values: Array) -> Array:
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


HEAVISIDE = elementwise("heaviside", _heaviside, "x values", None)


@operator(inplace=True, numpy=np.heaviside, differentiable=False, real=True, shape="broadcast")
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """``1 if input > 0 else values if input == 0 else 0``, elementwise; 0 for NaN.

    Dtype: real, the same for both arguments and the result.

    Args:
        values: the step's value at zero.

    Raises:
        RuntimeError: the dtypes differ.

    >>> rg.heaviside(rg.tensor([-1.5, 0.0, 2.0]), rg.tensor(0.5))
    tensor([0. , 0.5, 1. ])
    """
    if isinstance(values, (int, float)):
        raise TypeError(f"argument 'values' must be a Tensor, not {type(values).__name__}")
    x, y = operand(input), operand(values, "values")
    if x.array.dtype != y.array.dtype:
        raise RuntimeError(f"expected two Tensors of the same dtype, got {x.dtype} and {y.dtype}")
    return apply(HEAVISIDE, (x, y), {})


NEXTAFTER = elementwise("nextafter", np.nextafter, "x y", None, promote="same", bfloat16="native")


@operator(numpy=np.nextafter, differentiable=False, real=True)
def nextafter(input: Operand, other: Operand) -> Tensor:
    """The floating number next to ``input`` in the direction of ``other``, elementwise; ``other`` if both are equal.

    Dtype: real floating; the result has the common dtype of the inputs.

    Args:
        other: the number that gives the direction.

    Raises:
        NotImplementedError: the numbers are not floating.

    >>> rg.nextafter(rg.tensor([1.0]), rg.tensor([2.0])) - 1 == rg.tensor(2.0**-23)
    tensor([ True])
    """
    if result_type(operand(input), operand(other, "other")).kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(input)} and {describe(other)}")
    return apply2(NEXTAFTER, input, other)


def _nextafter_in_place(self: Tensor, other: Operand) -> Tensor:
    return apply_inplace(NEXTAFTER, self, other)


tensor_method(inplace_method("nextafter", _nextafter_in_place))


MANTISSA: Primitive = Primitive(
    "frexp",
    lambda x, exponent: np.ldexp(x, -exponent),
    "x",
    [lambda g, exponent: MANTISSA(g, exponent=exponent)],
    elementwise=True,
)


class FrexpResult(NamedTuple):
    """``mantissa * 2 ** exponent``, the mantissa in (-1, -0.5], [0.5, 1) or 0."""

    mantissa: Tensor
    exponent: Tensor


@operator(numpy=np.frexp, like=nextafter)
def frexp(input: Tensor) -> FrexpResult:
    """``input = mantissa * 2 ** exponent`` with ``0.5 <= |mantissa| < 1``, or both 0, elementwise.

    Derivative: mantissa: ``g / 2 ** exponent``; exponent: none.
    Shape: any; both results have the input's shape.
    Dtype: real floating; the mantissa has the input's dtype, the exponent is int32.

    Returns: (mantissa, exponent).

    >>> rg.frexp(rg.tensor([1.0, -6.0, 0.0]))
    FrexpResult(mantissa=tensor([ 0.5 , -0.75,  0.  ]), exponent=tensor([1, 3, 0], dtype=int32))
    """
    x = operand(input)
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(x)}")
    exponent = array_module(x).asarray(array_module(x).frexp(x.array)[1], dtype=np.int32)
    return FrexpResult(apply(MANTISSA, (x,), {"exponent": exponent}), new_tensor(exponent.copy()))
