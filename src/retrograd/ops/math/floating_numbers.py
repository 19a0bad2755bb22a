"""The operators heaviside, nextafter and frexp."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, result_type
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, apply2, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ..table.elementwise import elementwise
from ..table.registry import inplace_method, operator
from ..table.types import Operand


def _heaviside(x: Array, values: Array) -> Array:
    return np.where(x == 0, values, (x > 0).astype(x.dtype))


HEAVISIDE = elementwise("heaviside", _heaviside, "x values", None)


@operator(inplace=True, numpy=np.heaviside, differentiable=False, real=True, shape="broadcast")
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """``1 if input > 0 else values if input == 0 else 0``, elementwise; 0 for NaN.

    Dtype: real numbers, both of one dtype, which is the result's.

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
        raise RuntimeError(f"expected two Tensors of one dtype, got {x.dtype} and {y.dtype}")
    return apply(HEAVISIDE, (x, y), {})


NEXTAFTER = elementwise("nextafter", np.nextafter, "x y", None, promote="same")


@operator(numpy=np.nextafter, differentiable=False, real=True)
def nextafter(input: Operand, other: Operand) -> Tensor:
    """The floating number next to ``input`` in the direction of ``other``, elementwise; ``other`` where they are equal.

    Dtype: real floating; the inputs' common one.

    Args:
        other: where to go.

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

    Derivative: of the mantissa ``g / 2 ** exponent``; the exponent has none.
    Shape: any; both results have the input's.
    Dtype: real floating; the mantissa has the input's, the exponent is int32.

    Returns: (mantissa, exponent).

    >>> rg.frexp(rg.tensor([1.0, -6.0, 0.0]))
    FrexpResult(mantissa=tensor([ 0.5 , -0.75,  0.  ]), exponent=tensor([1, 3, 0], dtype=int32))
    """
    x = operand(input)
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(x)}")
    exponent = array_module(x).asarray(array_module(x).frexp(x.array)[1], dtype=np.int32)
    return FrexpResult(apply(MANTISSA, (x,), {"exponent": exponent}), new_tensor(exponent.copy()))
