"""Elementwise arithmetic, and Python's operators on Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import result_type
from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor import Tensor, tensor_method
from ..table.elementwise import binary, elementwise, unary
from ..table.masks import WHERE, ZEROS, zero_rule
from ..table.python_operators import python_operator
from ..table.registry import inplace_method, operator

# Sums, products, quotients


ADD = binary("add", np.add, lambda g: g, lambda g: g)
SUB = binary("sub", np.subtract, lambda g: g, lambda g: -g)
MUL = binary("mul", np.multiply, lambda g, y: g * y, lambda g, x: g * x)
DIV = binary("div", np.true_divide, lambda g, y: g / y, lambda g, ans, y: -g * ans / y, promote="float", signals=True)


def _negate(out: Any, x: Any) -> None:
    out[...] = np.negative(x)  # np.negative(x, out=x) of NumPy 2.4 is wrong where x's elements lie 64 bytes apart


NEG = unary("neg", np.negative, lambda g: -g, promote="same", write=_negate, overwrites=True)


def _scaled(other: Any, alpha: Any, input: Any = None) -> Any:
    """``alpha * other``, as the second operand of input, whose integers no floating alpha makes floating."""
    if alpha == 1:
        return other
    if input is not None and isinstance(alpha, float) and result_type(input, other).kind not in "fc":
        raise RuntimeError(f"alpha must not be a floating number where input and other are integers, got {alpha}")
    return other * alpha if isinstance(other, (Tensor, int, float, complex)) else apply2(MUL, other, alpha)


@operator(inplace=ADD, numpy=np.add)
def add(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input + alpha * other``, elementwise with broadcasting, in PyTorch's result type.

    Args:
        input: a Tensor or number.
        other: a Tensor or number that broadcasts with it.
        alpha: a factor for ``other``.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> rg.add(rg.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    if alpha != 1:
        other = _scaled(other, alpha, input)
    return apply2(ADD, input, other)


@operator(inplace=SUB, numpy=np.subtract, aliases=("subtract",))
def sub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input - alpha * other``, elementwise with broadcasting, in PyTorch's result type.

    >>> rg.sub(rg.tensor([1.0, 2.0]), 10)
    tensor([-9., -8.])
    """
    if alpha != 1:
        other = _scaled(other, alpha, input)
    return apply2(SUB, input, other)


def _add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    return apply_inplace(ADD, self, _scaled(other, alpha, self))


def _sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    return apply_inplace(SUB, self, _scaled(other, alpha, self))


tensor_method(inplace_method("add", _add_), "add_")
tensor_method(inplace_method("sub", _sub_), "sub_", "subtract_")


@operator(method=False)
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``.

    >>> rg.rsub(rg.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return apply2(SUB, other, _scaled(operand(input), alpha, other))


@operator(direct=True, inplace=MUL, numpy=np.multiply, aliases=("multiply",))
def mul(input: Tensor, other: Any) -> Tensor:
    """``input * other``, elementwise with broadcasting, in PyTorch's result type.

    >>> rg.mul(rg.tensor([1.0, 2.0]), 10)
    tensor([10., 20.])
    """
    return apply2(MUL, input, other)


def _check_divisor(y: Any) -> None:
    """Integers have no infinity: their division by zero is an error."""
    if (y.dtype.kind in "iub" and bool((y == 0).any())) if hasattr(y, "dtype") else y == 0:
        raise ZeroDivisionError("integer division or remainder by zero")


def _integer_safe(ufunc: Any) -> Any:
    def divide(x: Any, y: Any) -> Any:
        if (x if hasattr(x, "dtype") else y).dtype.kind in "iub":
            _check_divisor(y)
        return ufunc(x, y)

    return divide


def _truncated_quotient(x: Any, y: Any) -> Any:
    if (x if hasattr(x, "dtype") else y).dtype.kind in "iub":
        _check_divisor(y)
        quotient = x // y
        return quotient + ((quotient < 0) & (quotient * y != x))
    return np.trunc(x / y)


FLOOR_DIV = binary("floor_divide", _integer_safe(np.floor_divide), zero_rule, zero_rule, signals=True)
TRUNC_DIV = binary("div_trunc", _truncated_quotient, zero_rule, zero_rule, signals=True)


@operator(inplace=True, numpy=np.true_divide, aliases=("divide",), note="zero gradient with rounding_mode")
def div(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``, elementwise; integers are divided as numbers of the default floating dtype.

    Args:
        input: the dividend.
        other: the divisor.
        rounding_mode: ``"trunc"`` rounds the quotient towards 0, ``"floor"`` down; both keep integers, with gradient 0.

    Raises:
        RuntimeError: an unknown rounding mode, or an integer divided by 0 with one.

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


@operator(inplace=DIV)
def true_divide(input: Tensor, other: Any) -> Tensor:
    """``input / other``: ``div`` without rounding.

    >>> rg.true_divide(rg.tensor([1, 2]), 2)
    tensor([0.5, 1. ])
    """
    return apply2(DIV, input, other)


@operator(direct=True, inplace=FLOOR_DIV, numpy=np.floor_divide, note="zero gradient")
def floor_divide(input: Tensor, other: Any) -> Tensor:
    """The quotient, rounded down: floor(input / other).

    Raises:
        RuntimeError: an integer is divided by 0.

    >>> rg.floor_divide(rg.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return apply2(FLOOR_DIV, input, other)


REMAINDER = binary(
    "remainder", _integer_safe(np.remainder), lambda g: g, lambda g, x, y: -g * FLOOR_DIV(x, y), signals=True
)
FMOD = binary("fmod", _integer_safe(np.fmod), lambda g: g, lambda g, x, y: -g * TRUNC_DIV(x, y), signals=True)


@operator(direct=True, inplace=REMAINDER, numpy=np.remainder, note="derivative of the piece above at jumps")
def remainder(input: Tensor, other: Any) -> Tensor:
    """The remainder of division rounded down, ``input - floor(input / other) * other``.

    It has the divisor's sign, as ``%`` in Python.

    Raises:
        RuntimeError: an integer is divided by 0.

    >>> rg.remainder(rg.tensor([5.0, -5.0]), 3)
    tensor([2., 1.])
    """
    return apply2(REMAINDER, input, other)


@operator(direct=True, inplace=FMOD, numpy=np.fmod, note="derivative of the piece above at jumps")
def fmod(input: Tensor, other: Any) -> Tensor:
    """The remainder of division rounded towards 0, ``input - trunc(input / other) * other``.

    It has the dividend's sign, as in C.

    Raises:
        RuntimeError: an integer is divided by 0.

    >>> rg.fmod(rg.tensor([5.0, -5.0]), 3)
    tensor([ 2., -2.])
    """
    return apply2(FMOD, input, other)


@operator(direct=True, inplace=NEG, numpy=np.negative, aliases=("negative",))
def neg(input: Tensor) -> Tensor:
    """``-input``.

    Raises:
        RuntimeError: the Tensor is of bools.

    >>> rg.neg(rg.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """
    return apply1(NEG, input)


@operator(numpy=np.positive)
def positive(input: Tensor) -> Tensor:
    """``+input``: the Tensor itself.

    Raises:
        RuntimeError: the Tensor is of bools.

    >>> rg.positive(rg.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    input = operand(input)
    if input.array.dtype.kind == "b":
        raise RuntimeError("the + operator on a bool Tensor is not supported")
    return input


# Size and sign


def _sgn(x: Any) -> Any:
    if x.dtype.kind != "c":
        return x.copy() if x.dtype.kind == "b" else np.sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def _sign_rule(g: Any, x: Any) -> Any:
    # For complex z: d(z / |z|) = i Im(conj(s) dz) s / |z| with s = sgn(z), which turns but does not grow.
    if x.dtype.kind != "c":
        return ZEROS(g)
    s = SIGN(x)
    size = ABS(x)
    return WHERE(size == 0, 0.0, (g * 1j * s).real * -1j * s.conj() / WHERE(size == 0, 1.0, size))


ABS = unary("abs", np.abs, lambda g, x: g * SIGN(x).conj() if x.dtype.kind == "c" else g * SIGN(x), promote="same")
SIGN: Primitive = unary("sign", _sgn, _sign_rule, promote="same")


@operator(inplace=ABS, numpy=(np.abs, np.fabs), aliases=("absolute",), note="0 at 0")
def abs_(input: Tensor) -> Tensor:
    """The absolute value |x|; of a complex number its distance from 0, a real number.

    >>> rg.abs(rg.tensor([-1.5, 2.0]))
    tensor([1.5, 2. ])
    """
    return apply1(ABS, input)


def _abs_(self: Tensor) -> Tensor:
    if self.array.dtype.kind == "c":
        raise RuntimeError(f"the absolute value of complex numbers is real and cannot be written over {self.dtype}")
    return apply_inplace(ABS, self)


tensor_method(inplace_method("abs", _abs_), "abs_", "absolute_")


@operator(inplace=True, note="zero gradient")
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1: the sign of each number.

    Raises:
        RuntimeError: the Tensor is complex (see ``sgn``).

    >>> rg.sign(rg.tensor([-1.5, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    input = operand(input)
    if input.array.dtype.kind == "c":
        raise NotImplementedError(f"is not defined on complex Tensors ({input.dtype}); use sgn")
    return apply1(SIGN, input)


@operator(inplace=SIGN, numpy=np.sign, note="zero gradient on real numbers; 0 at 0")
def sgn(input: Tensor) -> Tensor:
    """``sign``, and x / |x| for complex numbers.

    >>> rg.sgn(rg.tensor([3 + 4j]))
    tensor([0.6+0.8j], dtype=complex64)
    """
    return apply1(SIGN, input)


@operator(inplace=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``, elementwise with broadcasting.

    >>> rg.addcmul(rg.tensor([1.0]), rg.tensor([2.0]), rg.tensor([3.0]), value=10)
    tensor([61.])
    """
    return apply2(ADD, input, _scaled(apply2(MUL, tensor1, tensor2), value))


@operator(inplace=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``, elementwise with broadcasting.

    Raises:
        RuntimeError: both tensors are of integers.

    >>> rg.addcdiv(rg.tensor([1.0]), rg.tensor([2.0]), rg.tensor([4.0]), value=10)
    tensor([6.])
    """
    tensor1, tensor2 = operand(tensor1, "tensor1"), operand(tensor2, "tensor2")
    if tensor1.array.dtype.kind in "iub" and tensor2.array.dtype.kind in "iub":
        raise RuntimeError(
            "division of integers is not supported: tensor1 is "
            f"{tensor1.dtype}, tensor2 {tensor2.dtype}; convert one to a floating dtype"
        )
    return apply2(ADD, input, _scaled(apply2(DIV, tensor1, tensor2), value))


def _lerp(x: Any, y: Any, weight: Any) -> Any:
    # From the nearer end, so that both ends are met exactly.
    near = x + weight * (y - x)
    far = y - (y - x) * (1 - weight)
    return np.where(np.abs(weight) < 0.5, near, far)


def _lerp_number(x: Any, y: Any, weight: float) -> Any:
    return x + weight * (y - x) if -0.5 < weight < 0.5 else y - (y - x) * (1 - weight)


LERP = elementwise(
    "lerp",
    _lerp,
    "x y weight",
    [lambda g, weight: g * (1 - weight), lambda g, weight: g * weight, lambda g, x, y: g * (y - x)],
    promote="strict",
)
LERP_NUMBER = elementwise(
    "lerp",
    _lerp_number,
    "x y",
    [lambda g, weight: g * (1 - weight), lambda g, weight: g * weight],
    promote="strict",
)


@operator(inplace=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Linear interpolation: ``input + weight * (end - input)``.

    Args:
        input: the value at weight 0.
        end: the value at weight 1.
        weight: a number, or a Tensor that broadcasts with the others.

    Raises:
        RuntimeError: the dtypes differ.

    >>> rg.lerp(rg.tensor([0.0, 10.0]), rg.tensor([10.0, 20.0]), 0.25)
    tensor([ 2.5, 12.5])
    """
    input, end = operand(input), operand(end, "end")
    if input.array.dtype.kind not in "fc":
        raise RuntimeError(f"wanted floating Tensors, got {input.dtype}")
    if isinstance(weight, (int, float)):
        return apply(LERP_NUMBER, (input, end), {"weight": weight})
    return apply(LERP, (input, end, operand(weight, "weight")), {})


# The operators of Python


for _name, _primitive in (
    ("add", ADD),
    ("sub", SUB),
    ("mul", MUL),
    ("truediv", DIV),
    ("floordiv", FLOOR_DIV),
    ("mod", REMAINDER),
):
    python_operator(_name, _primitive)
tensor_method(Tensor.__rtruediv__, "__rdiv__")
tensor_method(lambda self: apply1(NEG, self), "__neg__")
tensor_method(positive, "__pos__")
tensor_method(lambda self: apply1(ABS, self), "__abs__")
