"""Powers and roots."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import INEXACT, complex128, float64
from ...core.arrays.layout import order_like
from ...core.arrays.python_numbers import converted
from ...core.errors import call_error
from ...core.graph.modes import watchers
from ...core.graph.primitive import Primitive, apply1, apply2, operand
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, tensor_method
from ...kernels.loops.elements.elementwise import in_one_pass, of_pairs
from ..table.elementwise_primitives import ARITHMETIC, KEEP, WHERE, ZEROS, binary, unary
from ..table.python_operators import deferring
from ..table.registry import assign, inplace_method, operator
from ..table.types import Operand


def _square(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype == bool else np.square(x)  # NumPy's square of a bool is an int8


_square.ufunc = np.square  # type: ignore[attr-defined]

_square_backward, _sqrt_backward, _rsqrt, _rsqrt_backward, _reciprocal_backward = (
    in_one_pass(ARITHMETIC[name])
    for name in ("square_backward", "sqrt_backward", "rsqrt", "rsqrt_backward", "reciprocal_backward")
)
SQUARE = unary("square", _square, _square_backward, promote="same", signals=True, compiled="fd")
SQRT = unary("sqrt", np.sqrt, _sqrt_backward, signals=True, compiled="fd")
RSQRT = unary("rsqrt", _rsqrt, _rsqrt_backward, signals=True, compiled="fd")
RECIPROCAL = unary("reciprocal", np.reciprocal, _reciprocal_backward, signals=True, compiled="fd")


def _is_number(x: object) -> TypeGuard[complex]:
    return isinstance(x, (int, float, complex))


def _power(x: Array, y: Array) -> Array:
    kind = (x if hasattr(x, "dtype") else y).dtype.kind
    if kind in "iu" and not _is_number(y) and (y < 0).any():
        # 1 / x^|y| truncated to an integer: 0 unless the base is 1 or -1.
        return np.where(
            y < 0, np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)), np.power(x, abs(y) * (y >= 0))
        )
    if _is_number(y):
        # Products round better than pow and are ten times faster.
        if y == 1:
            return x.copy(order=order_like(x))
        if y == 2:
            return x * x
        if y == 3:
            return x * x * x
    return np.power(x, y)


def _power_rule_x(g: Array, x: Array, y: Array) -> Any:
    # y x^(y - 1). For y = 0 the power is constant, so the gradient is 0 even where x^-1 is infinite.
    if _is_number(y):
        if y == 2:
            return _second_power_backward(g, x)
        return ZEROS(g) if y == 0 else g * (y * POW(x, y - 1))
    size = np.abs(x) if x.dtype.kind == "c" else x
    constant = (y == 0) & ~((size > 0) & (size < math.inf))
    return KEEP(g * (y * POW(x, WHERE(constant, y, y - 1))), ~constant)


def _power_rule_y(g: Array, ans: Array, x: object, y: Array) -> Any:
    from .exponential import LOG

    # x^y log(x); at x = 0 the limit 0 for y > 0, which PyTorch also uses for y = 0.
    at_zero = (x == 0) & (y.real >= 0)
    if _is_number(x):
        if ans.dtype.kind == "c":
            x = complex(x)  # the logarithm of a negative number is complex
        return g * ans * (np.log(x).item() if x != 0 else LOG(WHERE(at_zero, 1.0, ZEROS(g))))
    return KEEP(g * ans * LOG(WHERE(at_zero, 1.0, x)), ~at_zero)


_second_power_backward = in_one_pass(ARITHMETIC["square_backward"], lambda g, x: g * (2 * POW(x, 1)))
POW: Primitive = binary("pow", _power, _power_rule_x, _power_rule_y, signals=True)


@operator(inplace=POW, numpy=np.power, shape="broadcast", dtype="promoted")
def pow_(input: Operand, exponent: Operand) -> Tensor:
    """``input^exponent``, elementwise.

    Derivative: input: ``g * exponent * input^(exponent - 1)``, 0 where the exponent is 0; exponent: ``g *
    input^exponent * log(input)``, 0 where the input is 0 and the exponent at least 0, NaN where the input is negative.

    Args:
        input: the base.
        exponent: the exponent, a Tensor or a number.

    Raises:
        RuntimeError: integers are raised to a negative Python integer, or the exponent is beyond the dtype's range.

    >>> rg.pow(rg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> rg.pow(2, rg.tensor([1.0, 3.0]))
    tensor([2., 8.])
    """
    return _tensor_power(input, exponent) if isinstance(input, Tensor) else apply2(POW, input, exponent)


def _tensor_power(self: Tensor, exponent: Operand) -> Tensor:
    """Return ``self ** exponent``, by separate primitives for frequent exponents."""
    if exponent.__class__ is int or exponent.__class__ is float:
        kind = self.array.dtype.kind
        if kind in INEXACT:
            if exponent == 2:
                return apply1(SQUARE, self)
            if exponent == 0.5:
                return apply1(SQRT, self)
            if exponent == -1:
                return apply1(RECIPROCAL, self)
            if exponent == -0.5:
                return apply1(RSQRT, self)
        exponent = _checked_exponent(self, exponent)
    return apply2(POW, self, exponent)


def _checked_exponent(self: Tensor, exponent: float) -> float:
    """Return a number as an exponent in the dtype of the power.

    Raises:
        RuntimeError: the number is out of the dtype's range, or negative for an integer power.
    """
    dtype = self.array.dtype
    if dtype.kind in "biu":
        if isinstance(exponent, int):
            if exponent < 0:
                reason = "integers to negative integer powers are not allowed; convert them to a floating dtype"
                raise call_error(RuntimeError, "pow", (self, exponent), None, reason)
            return exponent if dtype.kind == "b" else converted(exponent, dtype)
        return exponent
    return converted(exponent, dtype) if dtype.itemsize == 2 else exponent


def _pow_(self: Tensor, exponent: Operand) -> Tensor:
    if exponent.__class__ is int or exponent.__class__ is float:
        exponent = _checked_exponent(self, exponent)
    return apply_inplace(POW, self, exponent)


tensor_method(inplace_method("pow", _pow_), "pow_")


def _power_operator(self: Tensor, exponent: Operand) -> Tensor:
    return pow_(self, exponent) if watchers else _tensor_power(self, exponent)  # observers are notified of pow


def _power_of(self: Tensor, base: Operand) -> Tensor:
    return apply2(POW, base, self)


def _power_in_place(self: Tensor, exponent: Operand) -> Tensor:
    return self.pow_(exponent)


tensor_method(deferring(_power_operator, "pow"), "__pow__")
tensor_method(deferring(_power_of, "pow", "r"), "__rpow__")
tensor_method(deferring(_power_in_place, "pow", "i"), "__ipow__")


@operator(inplace=True, numpy=np.float_power, like=pow_)
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """``input^exponent``, elementwise, in double precision.

    Derivative: that of ``pow``.
    Dtype: float64; complex128 where an operand is complex.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> rg.float_power(rg.tensor([4, 9]), 0.5)
    tensor([2., 3.], dtype=float64)
    """
    base, power = operand(input), operand(exponent, "exponent")
    wide = complex128 if "c" in (base.array.dtype.kind, power.array.dtype.kind) else float64
    if isinstance(input, (int, float, complex)):
        return apply2(POW, input, power.to(wide))
    return _tensor_power(base.to(wide), exponent if isinstance(exponent, (int, float)) else power.to(wide))


def _float_power_(self: Tensor, exponent: Operand) -> Tensor:
    wide = float_power(self, exponent)
    if wide.array.dtype != self.array.dtype:
        raise RuntimeError(f"the result is of {wide.dtype}, which can't be written to the Tensor's {self.dtype}")
    return assign("float_power", self, wide)


tensor_method(inplace_method("float_power", _float_power_), "float_power_")


@operator(direct=True, inplace=SQUARE, numpy=np.square)
def square(input: Tensor) -> Tensor:
    """``input^2``, elementwise.

    Derivative: ``2 * g * input``.
    Dtype: the input's; bools become int64.

    >>> rg.square(rg.tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return apply1(SQUARE, input)


@operator(direct=True, inplace=SQRT, numpy=np.sqrt)
def sqrt(input: Tensor) -> Tensor:
    """``input^(1/2)``, elementwise; NaN below 0.

    Derivative: ``g / (2 * sqrt(input))``; infinite at 0, NaN below.

    >>> rg.sqrt(rg.tensor([4.0, 2.0]))
    tensor([2.    , 1.4142])
    """
    return apply1(SQRT, input)


@operator(direct=True, inplace=RSQRT)
def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(input)``, elementwise; infinite at 0, NaN below.

    Derivative: ``-g / (2 * input^(3/2))``; infinite at 0, NaN below.

    >>> rg.rsqrt(rg.tensor([4.0, 1.0]))
    tensor([0.5, 1. ])
    """
    return apply1(RSQRT, input)


@operator(direct=True, inplace=RECIPROCAL, numpy=np.reciprocal)
def reciprocal(input: Tensor) -> Tensor:
    """``1 / input``, elementwise; infinite at 0.

    Derivative: ``-g / input^2``; infinite at 0.

    >>> rg.reciprocal(rg.tensor([4.0, -1.0]))
    tensor([ 0.25, -1.  ])
    """
    return apply1(RECIPROCAL, input)


HYPOT = binary(
    "hypot",
    of_pairs("hypot")(np.hypot),
    lambda g, ans, x: g * (x / ans),
    lambda g, ans, y: g * (y / ans),
    promote="float",
    signals=True,
)


@operator(direct=True, inplace=HYPOT, numpy=np.hypot, raises="complex")
def hypot(input: Tensor, other: Operand) -> Tensor:
    """``sqrt(input^2 + other^2)``, elementwise, without overflow of the squares.

    Derivative: with h the result, input: ``g * input / h``; other: ``g * other / h``; NaN at the origin.

    Args:
        input: one leg of a right triangle.
        other: the other leg.

    >>> rg.hypot(rg.tensor([3.0]), rg.tensor([4.0]))
    tensor([5.])
    """
    return apply2(HYPOT, input, other)


@operator(inplace=True, numpy=np.ldexp, dtype="float", args="input factor")
def ldexp(input: Tensor, other: Operand) -> Tensor:
    """``input * 2^other``, elementwise.

    Derivative: input: ``g * 2^other``; other: ``g * log(2) * input * 2^other``.

    Args:
        other: the exponent, usually integers.

    >>> rg.ldexp(rg.tensor([1.0, 3.0]), rg.tensor([2, 3]))
    tensor([ 4., 24.])
    """
    x, exponent = operand(input), operand(other, "other")
    if x.array.dtype.kind in INEXACT and exponent.array.dtype.kind in "iub":
        exponent = exponent.to(x.array.real.dtype)  # the power may be out of the default dtype's range
    return x * apply2(POW, 2.0, exponent)
