"""Elementwise arithmetic, and Python's operators on Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import is_bool, result_type
from ...core.arrays.summation import adding
from ...core.graph.primitive import Primitive, apply1, apply2, operand
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, tensor_method
from ...kernels import at_first_use
from ...kernels.loops.elements.elementwise import in_one_pass, of_pairs
from ..table.arguments import factor
from ..table.elementwise_primitives import ARITHMETIC, WHERE, ZEROS, binary, elementwise, unary, zero_rule
from ..table.python_operators import python_operator
from ..table.registry import UFUNCS, inplace_method, operator
from ..table.types import Number, Operand

# Sums, products, quotients

ADD = binary("add", np.add, lambda g: g, lambda g: g)
SUB = binary("sub", np.subtract, lambda g: g, lambda g: NEG(g), promote="no bool", compiled="fd")
MUL = binary("mul", np.multiply, lambda g, y: g * y, lambda g, x: g * x, products=True, wide=True)
DIV = binary(
    "div",
    np.true_divide,
    lambda g, y: g / y,
    lambda g, ans, y: -g * ans / y,
    promote="float",
    signals=True,
    wide=True,
)


@at_first_use
def _share_sums() -> None:
    assert ADD.ufunc is not None
    adding[:] = [ADD.ufunc]


def _negate(out: Array, x: Array) -> None:
    out[...] = np.negative(x)  # np.negative(x, out=x) of NumPy 2.4 is wrong for strides of 64 bytes


NEG: Primitive = unary(
    "neg", np.negative, lambda g: NEG(g), promote="same", write=_negate, overwrites=True, compiled="fd"
)


def scaled(other: Operand, alpha: Number, input: Operand) -> Operand:
    """Return ``alpha * other``, the second operand of a sum with input; alpha must fit in the dtype of the sum."""
    if alpha == 1 and alpha is not True:
        return other
    fits = type(alpha) is float and isinstance(input, Tensor) and input.array.dtype.char in "fd" and abs(alpha) < 3e38
    if not fits or isinstance(other, Tensor) and other.array.dtype is not getattr(input, "dtype", None):
        x, y = (value.array if isinstance(value, Tensor) else value for value in (input, other))
        dtype = result_type(x, y)
        alpha = factor(alpha, dtype)
        if isinstance(other, Tensor) and other.array.dtype != dtype:
            other = other.to(dtype)  # the product of an int8 Tensor with alpha would wrap around
    if type(other) is bool and type(alpha) is bool:
        return other and alpha  # the product of two Python bools would be an int
    return other * alpha if isinstance(other, (Tensor, int, float, complex)) else apply2(MUL, other, alpha)


@operator(inplace=ADD, numpy=np.add)
def add(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """``input + alpha * other``, elementwise.

    Derivative: input: ``g``; other: ``alpha * g``.

    Args:
        alpha: a factor for ``other``; not a floating number if both terms are integers.

    >>> rg.add(rg.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    return apply2(ADD, input, scaled(other, alpha, input))


@operator(inplace=SUB, numpy=np.subtract, aliases=("subtract",))
def sub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """``input - alpha * other``, elementwise.

    Derivative: input: ``g``; other: ``-alpha * g``.
    Dtype: PyTorch's result type of both; bools are refused.

    Args:
        input: the minuend.
        other: the subtrahend.
        alpha: a factor for ``other``; not a floating number if both operands are integers.

    Raises:
        RuntimeError: the shapes do not broadcast, or a term holds bools.

    >>> rg.sub(rg.tensor([1.0, 2.0]), 10)
    tensor([-9., -8.])
    """
    return apply2(SUB, input, _subtrahend(other, alpha, input))


def _subtrahend(other: Operand, alpha: Number, input: Operand) -> Operand:
    """Return ``alpha * other``, but bools unchanged: their product would not be bool, and subtraction refuses bools."""
    return other if is_bool(other) else scaled(other, alpha, input)


def _add_(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    return apply_inplace(ADD, self, scaled(other, alpha, self))


def _sub_(self: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    return apply_inplace(SUB, self, _subtrahend(other, alpha, self))


tensor_method(inplace_method("add", _add_), "add_")
tensor_method(inplace_method("sub", _sub_), "sub_", "subtract_")


@operator(method=False, like=sub)
def rsub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """``other - alpha * input``, elementwise: ``sub`` with its operands exchanged.

    Derivative: input: ``-alpha * g``; other: ``g``.

    Args:
        input: the subtrahend.
        other: the minuend.
        alpha: a factor for ``input``; not a floating number if both operands are integers.

    >>> rg.rsub(rg.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return apply2(SUB, other, _subtrahend(operand(input), alpha, other))


@operator(direct=True, inplace=MUL, numpy=np.multiply, aliases=("multiply",))
def mul(input: Operand, other: Operand) -> Tensor:
    """``input * other``, elementwise.

    Derivative: input: ``g * other``; other: ``g * input``.

    >>> rg.mul(rg.tensor([1.0, 2.0]), 10)
    tensor([10., 20.])
    """
    return apply2(MUL, input, other)


def _is_integral(x: Array, y: Any) -> bool:
    """Return whether the promoted operands, one of which may be a number, are integers or bools."""
    return (x if hasattr(x, "dtype") else y).dtype.kind in "iub"


def _check_divisor(x: Array, y: Any) -> None:
    """Raise ZeroDivisionError for a division of integers by zero, unless there are no elements."""
    if (np.any(y == 0) if hasattr(y, "dtype") else y == 0) and getattr(x, "size", 1):
        raise ZeroDivisionError("integer division or remainder by zero")


def _integer_safe(ufunc: Any) -> Callable[[Any, Any], Any]:
    def divide(x: Array, y: Any) -> Any:
        if _is_integral(x, y):
            _check_divisor(x, y)
        return ufunc(x, y)

    return divide


def _truncated_quotient(x: Array, y: object) -> Array:
    if _is_integral(x, y):
        _check_divisor(x, y)
        quotient = x // y
        return quotient + ((quotient < 0) & (quotient * y != x))
    return np.trunc(x / y)


FLOOR_DIV = binary(
    "floor_divide",
    of_pairs("floor_divide")(_integer_safe(np.floor_divide)),
    zero_rule,
    zero_rule,
    signals=True,
    wide=True,
)
TRUNC_DIV = binary("div_trunc", _truncated_quotient, zero_rule, zero_rule, signals=True, wide=True)


@operator(inplace=True, numpy=np.true_divide, aliases=("divide",))
def div(input: Operand, other: Operand, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
    """``input / other``, elementwise.

    Derivative: input: ``g / other``; other: ``-g * input / other^2``; infinite or NaN where other is 0. With a
    rounding mode, both are zero.
    Dtype: PyTorch's result type of both; integers become the default dtype, but stay integers with a rounding mode.

    Args:
        input: the dividend.
        other: the divisor.
        rounding_mode: ``"trunc"`` rounds the quotient towards 0, ``"floor"`` down.

    Raises:
        RuntimeError: the rounding mode is unknown, or with a rounding mode an integer is divided by 0.

    >>> rg.div(rg.tensor([7.0, -7.0]), 2)
    tensor([ 3.5, -3.5])
    >>> rg.div(rg.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    if rounding_mode is None:
        return apply2(DIV, input, other)
    if rounding_mode == "floor":
        return apply2(FLOOR_DIV, input, other)
    if rounding_mode == "trunc":
        return apply2(TRUNC_DIV, input, other)
    raise RuntimeError(f"expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}")


@operator(inplace=DIV, dtype="float promoted", like=div)
def true_divide(input: Operand, other: Operand) -> Tensor:
    """``input / other``, elementwise: ``div`` without rounding.

    Derivative: input: ``g / other``; other: ``-g * input / other^2``; infinite or NaN where other is 0.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> rg.true_divide(rg.tensor([1, 2]), 2)
    tensor([0.5, 1. ])
    """
    return apply2(DIV, input, other)


@operator(direct=True, inplace=FLOOR_DIV, numpy=np.floor_divide, dtype="promoted", like=div, derivative="zero")
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """``floor(input / other)``, elementwise.

    Raises:
        RuntimeError: an integer is divided by 0.

    >>> rg.floor_divide(rg.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return apply2(FLOOR_DIV, input, other)


REMAINDER = binary(
    "remainder",
    of_pairs("remainder")(_integer_safe(np.remainder)),
    lambda g: g,
    lambda g, x, y: -g * FLOOR_DIV(x, y),
    signals=True,
)
FMOD = binary(
    "fmod",
    of_pairs("fmod_of")(_integer_safe(np.fmod)),
    lambda g: g,
    lambda g, x, y: -g * TRUNC_DIV(x, y),
    signals=True,
)


@operator(direct=True, inplace=REMAINDER, numpy=np.remainder, like=floor_divide)
def remainder(input: Operand, other: Operand) -> Tensor:
    """``input - floor(input / other) * other``, elementwise: Python's ``%``, with the divisor's sign.

    Derivative: input: ``g``; other: ``-g * floor(input / other)``; at a jump, the limit for larger quotients.

    >>> rg.remainder(rg.tensor([5.0, -5.0]), 3)
    tensor([2., 1.])
    """
    return apply2(REMAINDER, input, other)


@operator(direct=True, inplace=FMOD, numpy=np.fmod, like=floor_divide)
def fmod(input: Operand, other: Operand) -> Tensor:
    """``input - trunc(input / other) * other``, elementwise: the remainder of C, with the dividend's sign.

    Derivative: input: ``g``; other: ``-g * trunc(input / other)``; at a jump, the limit for quotients farther from 0.

    >>> rg.fmod(rg.tensor([5.0, -5.0]), 3)
    tensor([ 2., -2.])
    """
    return apply2(FMOD, input, other)


# Sign and absolute value


@operator(direct=True, inplace=NEG, numpy=np.negative, aliases=("negative",))
def neg(input: Tensor) -> Tensor:
    """``-input``, elementwise.

    Derivative: ``-g``.
    Dtype: the input's; bools are refused.

    Raises:
        RuntimeError: the Tensor holds bools.

    >>> rg.neg(rg.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return apply1(NEG, input)


@operator(like=neg, derivative="g")
def positive(input: Tensor) -> Tensor:
    """``+input``: the Tensor itself, whereas ``np.positive(tensor)`` returns a copy.

    >>> rg.positive(rg.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    input = operand(input)
    if input.array.dtype.kind == "b":
        raise RuntimeError("the + operator on a bool Tensor is not supported")
    return input


UFUNCS[np.positive] = lambda input: positive(input).clone()


def _sgn(x: Array) -> Array:
    if x.dtype.kind != "c":
        return x.copy() if x.dtype.kind == "b" else np.sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def _sign_rule(g: Array, x: Array) -> Any:
    # For complex z: d(z / |z|) = i Im(conj(s) dz) s / |z| with s = sgn(z), since |s| is constant.
    if x.dtype.kind != "c":
        return ZEROS(g)
    s = SIGN(x)
    size = ABS(x)
    return WHERE(size == 0, 0.0, (g * 1j * s).real * -1j * s.conj() / WHERE(size == 0, 1.0, size))


def _abs_backward(g: Array, x: Array) -> Array:
    return g * SIGN(x).conj() if x.dtype.kind == "c" else g * SIGN(x)


ABS = unary("abs", np.abs, in_one_pass(ARITHMETIC["abs_backward"], _abs_backward), promote="same", compiled="fd")
SIGN: Primitive = unary("sign", in_one_pass(ARITHMETIC["sign"], _sgn), _sign_rule, promote="same", compiled="fd")


@operator(inplace=ABS, numpy=(np.abs, np.fabs), aliases=("absolute",))
def abs_(input: Tensor) -> Tensor:
    """``|input|``, elementwise; for a complex number, its distance from 0.

    Derivative: ``g * sgn(input)``, 0 at 0.
    Dtype: the input's; for complex numbers the result is real.

    >>> rg.abs(rg.tensor([-1.5, 2.0]))
    tensor([1.5, 2. ])
    """
    return apply1(ABS, input)


def _abs_(self: Tensor) -> Tensor:
    if self.array.dtype.kind == "c":
        raise RuntimeError(f"the absolute value of complex numbers is real and cannot be written over {self.dtype}")
    return apply_inplace(ABS, self)


tensor_method(inplace_method("abs", _abs_), "abs_", "absolute_")


@operator(inplace=True, derivative="zero")
def sign(input: Tensor) -> Tensor:
    """``-1``, ``0`` or ``1`` where the input is negative, 0 or positive.

    Dtype: the input's; complex numbers are refused.

    Raises:
        NotImplementedError: the Tensor is complex (see ``sgn``).

    >>> rg.sign(rg.tensor([-1.5, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    input = operand(input)
    if input.array.dtype.kind == "c":
        raise NotImplementedError(f"is not defined on complex Tensors ({input.dtype}); use sgn")
    return apply1(SIGN, input)


@operator(inplace=SIGN, numpy=np.sign)
def sgn(input: Tensor) -> Tensor:
    """``input / |input|``, elementwise, and 0 at 0; for real numbers this is ``sign``.

    Derivative: zero for real numbers; for complex z with ``s = sgn(z)`` ``i Im(conj(s) dz) s / |z|``, 0 at 0.
    Dtype: the input's.

    >>> rg.sgn(rg.tensor([3 + 4j]))
    tensor([0.6+0.8j], dtype=complex64)
    """
    return apply1(SIGN, input)


def _of_integers(name: str, ufunc: np.ufunc) -> Primitive:
    def forward(x: Any, y: Any) -> Any:
        for array in (x, y):
            if getattr(array, "dtype", np.dtype(np.int64)).kind not in "iu":
                raise NotImplementedError(f"expected integers, got {array.dtype}")
        return ufunc(x, y)

    return elementwise(name, forward, "x y", None, promote="same")


GCD = _of_integers("gcd", np.gcd)
LCM = _of_integers("lcm", np.lcm)


@operator(inplace=GCD, numpy=np.gcd, differentiable=False, raises="not integers")
def gcd(input: Operand, other: Operand) -> Tensor:
    """The greatest common divisor ``gcd(|input|, |other|)``, elementwise; ``gcd(0, n) = |n|``.

    Dtype: integers; the result has the common dtype of the inputs.

    Args:
        other: integers.

    >>> rg.gcd(rg.tensor([12, -18, 0]), rg.tensor([8, 27, 5]))
    tensor([4, 9, 5])
    """
    return apply2(GCD, input, other)


@operator(inplace=LCM, numpy=np.lcm, differentiable=False, like=gcd)
def lcm(input: Operand, other: Operand) -> Tensor:
    """The least common multiple ``|input * other| / gcd(input, other)``, elementwise; 0 where either operand is 0.

    >>> rg.lcm(rg.tensor([4, -6, 0]), rg.tensor([6, 4, 5]))
    tensor([12, 12,  0])
    """
    return apply2(LCM, input, other)


# Python's operators


for _name, _primitive in (
    ("add", ADD),
    ("sub", SUB),
    ("mul", MUL),
    ("truediv", DIV),
    ("floordiv", FLOOR_DIV),
    ("mod", REMAINDER),
):
    python_operator(_name, _primitive, __name__)
tensor_method(Tensor.__rtruediv__, "__rdiv__")
tensor_method(neg, "__neg__")
tensor_method(positive, "__pos__")
tensor_method(abs_, "__abs__")
