"""Comparisons, logic and bits: functions of the values alone, without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.primitive import Primitive, apply1, apply2, operand
from ...core.tensor import Tensor, new_tensor, tensor_method
from ..table.elementwise import elementwise
from ..table.python_operators import python_operator
from ..table.registry import operator


def _compare(name: str, ufunc: Any) -> Primitive:
    return elementwise(name, ufunc, "x y", None, promote="same")


def _ordered(name: str, ufunc: Any) -> Primitive:
    def compare(x: Any, y: Any) -> Any:
        # NumPy would order complex numbers by their real parts.
        if (x if hasattr(x, "dtype") else y).dtype.kind == "c":
            raise NotImplementedError("complex numbers have no order")
        return ufunc(x, y)

    return elementwise(name, compare, "x y", None, promote="same")


EQ = _compare("eq", np.equal)
NE = _compare("ne", np.not_equal)
LT = _ordered("lt", np.less)
LE = _ordered("le", np.less_equal)
GT = _ordered("gt", np.greater)
GE = _ordered("ge", np.greater_equal)


@operator(direct=True, inplace=True, numpy=np.equal, differentiable=False)
def eq(input: Tensor, other: Any) -> Tensor:
    """``input == other``, elementwise with broadcasting; a Tensor of bools.

    >>> rg.eq(rg.tensor([1, 2]), 2)
    tensor([False,  True])
    """
    return apply2(EQ, input, other)


@operator(direct=True, inplace=True, numpy=np.not_equal, aliases=("not_equal",), differentiable=False)
def ne(input: Tensor, other: Any) -> Tensor:
    """``input != other``, elementwise with broadcasting; a Tensor of bools.

    >>> rg.ne(rg.tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return apply2(NE, input, other)


@operator(direct=True, inplace=True, numpy=np.less, aliases=("less",), differentiable=False)
def lt(input: Tensor, other: Any) -> Tensor:
    """``input < other``, elementwise with broadcasting; a Tensor of bools.

    Raises:
        RuntimeError: the numbers are complex.

    >>> rg.lt(rg.tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return apply2(LT, input, other)


@operator(direct=True, inplace=True, numpy=np.less_equal, aliases=("less_equal",), differentiable=False)
def le(input: Tensor, other: Any) -> Tensor:
    """``input <= other``, elementwise with broadcasting; a Tensor of bools.

    Raises:
        RuntimeError: the numbers are complex.

    >>> rg.le(rg.tensor([1, 2]), 1)
    tensor([ True, False])
    """
    return apply2(LE, input, other)


@operator(direct=True, inplace=True, numpy=np.greater, aliases=("greater",), differentiable=False)
def gt(input: Tensor, other: Any) -> Tensor:
    """``input > other``, elementwise with broadcasting; a Tensor of bools.

    Raises:
        RuntimeError: the numbers are complex.

    >>> rg.gt(rg.tensor([1, 2]), 1)
    tensor([False,  True])
    """
    return apply2(GT, input, other)


@operator(direct=True, inplace=True, numpy=np.greater_equal, aliases=("greater_equal",), differentiable=False)
def ge(input: Tensor, other: Any) -> Tensor:
    """``input >= other``, elementwise with broadcasting; a Tensor of bools.

    Raises:
        RuntimeError: the numbers are complex.

    >>> rg.ge(rg.tensor([1, 2]), 2)
    tensor([False,  True])
    """
    return apply2(GE, input, other)


def _dunder(primitive: Primitive) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        try:
            return apply2(primitive, self, other)
        except TypeError:
            return NotImplemented  # x == None is False, x < None Python's TypeError

    return method


for _name, _primitive in (("eq", EQ), ("ne", NE), ("lt", LT), ("le", LE), ("gt", GT), ("ge", GE)):
    setattr(Tensor, f"__{_name}__", _dunder(_primitive))


# Finite or not, equal or close


@operator(numpy=np.isnan, differentiable=False)
def isnan(input: Tensor) -> Tensor:
    """Where a number is not a number; for complex ones where either part is NaN.

    >>> rg.isnan(rg.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return apply1(ISNAN, input)


@operator(numpy=np.isinf, differentiable=False)
def isinf(input: Tensor) -> Tensor:
    """Where a number is infinite, of either sign.

    >>> rg.isinf(rg.tensor([1.0, -float("inf")]))
    tensor([False,  True])
    """
    return apply1(ISINF, input)


@operator(numpy=np.isfinite, differentiable=False)
def isfinite(input: Tensor) -> Tensor:
    """Where a number is neither infinite nor NaN.

    >>> rg.isfinite(rg.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """
    return apply1(ISFINITE, input)


@operator(differentiable=False, real=True)
def isposinf(input: Tensor) -> Tensor:
    """Where a number is +inf.

    >>> rg.isposinf(rg.tensor([-float("inf"), float("inf")]))
    tensor([False,  True])
    """
    return apply2(EQ, input, float("inf"))


@operator(differentiable=False, real=True)
def isneginf(input: Tensor) -> Tensor:
    """Where a number is -inf.

    >>> rg.isneginf(rg.tensor([-float("inf"), float("inf")]))
    tensor([ True, False])
    """
    return apply2(EQ, input, -float("inf"))


@operator(numpy=np.signbit, differentiable=False)
def signbit(input: Tensor) -> Tensor:
    """Where the sign bit is set: negative numbers and -0.

    >>> rg.signbit(rg.tensor([-0.0, 0.0, -1.0]))
    tensor([ True, False,  True])
    """
    return apply1(SIGNBIT, input)


def _predicate(name: str, forward: Any) -> Primitive:
    return elementwise(name, forward, "x", None)


ISNAN = _predicate("isnan", np.isnan)
ISINF = _predicate("isinf", np.isinf)
ISFINITE = _predicate("isfinite", np.isfinite)
SIGNBIT = _predicate("signbit", lambda x: x < 0 if x.dtype.kind in "iub" else np.signbit(x))


@operator(differentiable=False)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where |input - other| <= atol + rtol |other|, or both are the same infinity.

    Args:
        input: a Tensor.
        other: a Tensor of the same dtype that broadcasts with it.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Raises:
        RuntimeError: the dtypes differ, or a tolerance is negative.

    >>> rg.isclose(rg.tensor([1.0, 2.0]), rg.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    x, y = operand(input).array, operand(other, "other").array
    if x.dtype != y.dtype:
        raise RuntimeError(f"wanted Tensors of one dtype, got {x.dtype} and {y.dtype}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must not be negative, got {rtol} and {atol}")
    return new_tensor(CLOSE(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    close = x == y
    if x.dtype.kind in "iub":
        x, y = x.astype("float64"), y.astype("float64")
    near = np.abs(x - y) <= atol + rtol * np.abs(y)
    close = close | (near & np.isfinite(x) & np.isfinite(y))
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


CLOSE = elementwise("isclose", _close, "x y", None, signals=True)


@operator(differentiable=False)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether ``isclose`` holds everywhere, as a Python bool.

    >>> rg.allclose(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


@operator(differentiable=False)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two Tensors have the same shape and the same elements, as a Python bool.

    >>> rg.equal(rg.tensor([1, 2]), rg.tensor([1, 2]))
    True
    """
    x, y = operand(input).array, operand(other, "other").array
    return x.shape == y.shape and bool((x == y).all())


# Logic: numbers other than 0 are true

LOGICAL_AND = _compare("logical_and", np.logical_and)
LOGICAL_OR = _compare("logical_or", np.logical_or)
LOGICAL_XOR = _compare("logical_xor", np.logical_xor)
LOGICAL_NOT = _predicate("logical_not", np.logical_not)


@operator(direct=True, inplace=True, numpy=np.logical_and, differentiable=False)
def logical_and(input: Tensor, other: Any) -> Tensor:
    """Where both are true (not 0).

    >>> rg.logical_and(rg.tensor([True, True]), rg.tensor([True, False]))
    tensor([ True, False])
    """
    return apply2(LOGICAL_AND, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_or, differentiable=False)
def logical_or(input: Tensor, other: Any) -> Tensor:
    """Where either is true (not 0).

    >>> rg.logical_or(rg.tensor([True, False]), rg.tensor([False, False]))
    tensor([ True, False])
    """
    return apply2(LOGICAL_OR, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_xor, differentiable=False)
def logical_xor(input: Tensor, other: Any) -> Tensor:
    """Where exactly one is true (not 0).

    >>> rg.logical_xor(rg.tensor([True, True]), rg.tensor([True, False]))
    tensor([False,  True])
    """
    return apply2(LOGICAL_XOR, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_not, differentiable=False)
def logical_not(input: Tensor) -> Tensor:
    """Where a number is 0 or a bool false.

    >>> rg.logical_not(rg.tensor([0.0, 2.0]))
    tensor([ True, False])
    """
    return apply1(LOGICAL_NOT, input)


# Bits of integers and bools

BITWISE_AND = _compare("bitwise_and", np.bitwise_and)
BITWISE_OR = _compare("bitwise_or", np.bitwise_or)
BITWISE_XOR = _compare("bitwise_xor", np.bitwise_xor)
BITWISE_NOT = _predicate("bitwise_not", np.invert)
LEFT_SHIFT = _compare("bitwise_left_shift", np.left_shift)
RIGHT_SHIFT = _compare("bitwise_right_shift", np.right_shift)


@operator(direct=True, inplace=BITWISE_AND, numpy=np.bitwise_and, differentiable=False)
def bitwise_and(input: Tensor, other: Any) -> Tensor:
    """``input & other`` of integers, bit by bit, or of bools.

    Raises:
        RuntimeError: the numbers are not integers or bools.

    >>> rg.bitwise_and(rg.tensor([6, 5]), 3)
    tensor([2, 1])
    """
    return apply2(BITWISE_AND, input, other)


@operator(direct=True, inplace=BITWISE_OR, numpy=np.bitwise_or, differentiable=False)
def bitwise_or(input: Tensor, other: Any) -> Tensor:
    """``input | other`` of integers, bit by bit, or of bools.

    Raises:
        RuntimeError: the numbers are not integers or bools.

    >>> rg.bitwise_or(rg.tensor([6, 5]), 3)
    tensor([7, 7])
    """
    return apply2(BITWISE_OR, input, other)


@operator(direct=True, inplace=BITWISE_XOR, numpy=np.bitwise_xor, differentiable=False)
def bitwise_xor(input: Tensor, other: Any) -> Tensor:
    """``input ^ other`` of integers, bit by bit, or of bools.

    Raises:
        RuntimeError: the numbers are not integers or bools.

    >>> rg.bitwise_xor(rg.tensor([6, 5]), 3)
    tensor([5, 6])
    """
    return apply2(BITWISE_XOR, input, other)


@operator(direct=True, inplace=BITWISE_NOT, numpy=np.invert, differentiable=False)
def bitwise_not(input: Tensor) -> Tensor:
    """``~input`` of integers, bit by bit, or of bools.

    Raises:
        RuntimeError: the numbers are not integers or bools.

    >>> rg.bitwise_not(rg.tensor([True, False]))
    tensor([False,  True])
    """
    return apply1(BITWISE_NOT, input)


@operator(direct=True, inplace=LEFT_SHIFT, numpy=np.left_shift, differentiable=False)
def bitwise_left_shift(input: Tensor, other: Any) -> Tensor:
    """``input << other``: the bits of integers moved up.

    Raises:
        RuntimeError: the numbers are not integers.

    >>> rg.bitwise_left_shift(rg.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    return apply2(LEFT_SHIFT, input, other)


@operator(direct=True, inplace=RIGHT_SHIFT, numpy=np.right_shift, differentiable=False)
def bitwise_right_shift(input: Tensor, other: Any) -> Tensor:
    """``input >> other``: the bits of integers moved down.

    Raises:
        RuntimeError: the numbers are not integers.

    >>> rg.bitwise_right_shift(rg.tensor([4, 13]), 2)
    tensor([1, 3])
    """
    return apply2(RIGHT_SHIFT, input, other)


for _name, _primitive in (
    ("and", BITWISE_AND),
    ("or", BITWISE_OR),
    ("xor", BITWISE_XOR),
    ("lshift", LEFT_SHIFT),
    ("rshift", RIGHT_SHIFT),
):
    python_operator(_name, _primitive)
tensor_method(lambda self: apply1(BITWISE_NOT, self), "__invert__")
