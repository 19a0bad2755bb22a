"""Comparisons and predicates (isnan, isfinite, ...), which have no gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.primitive import Primitive, apply1, apply2, is_operand, operand
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ..table.arguments import number
from ..table.elementwise_primitives import elementwise
from ..table.python_operators import ask
from ..table.registry import operator
from ..table.types import Operand


def _ordered(name: str, ufunc: Any) -> Primitive:
    def compare(x: Array, y: Any) -> Array:
        # NumPy would order complex numbers by their real parts.
        if (x if hasattr(x, "dtype") else y).dtype.kind == "c":
            raise NotImplementedError("complex numbers have no order")
        return ufunc(x, y)

    return elementwise(name, compare, "x y", None, promote="same")


EQ = elementwise("eq", np.equal, "x y", None, promote="same")
NE = elementwise("ne", np.not_equal, "x y", None, promote="same")
LT = _ordered("lt", np.less)
LE = _ordered("le", np.less_equal)
GT = _ordered("gt", np.greater)
GE = _ordered("ge", np.greater_equal)


@operator(direct=True, inplace=True, numpy=np.equal, differentiable=False, dtype="compared")
def eq(input: Operand, other: Operand) -> Tensor:
    """``input == other``, elementwise; NaN equals nothing.

    >>> rg.eq(rg.tensor([1, 2]), 2)
    tensor([False,  True])
    """
    return apply2(EQ, input, other)


@operator(direct=True, inplace=True, numpy=np.not_equal, aliases=("not_equal",), differentiable=False, dtype="compared")
def ne(input: Operand, other: Operand) -> Tensor:
    """``input != other``, elementwise; NaN differs from everything.

    >>> rg.ne(rg.tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return apply2(NE, input, other)


@operator(direct=True, inplace=True, numpy=np.less, aliases=("less",), differentiable=False, raises="complex")
def lt(input: Operand, other: Operand) -> Tensor:
    """``input < other``, elementwise; False for NaN.

    Dtype: any, compared in PyTorch's result type; the result is bool.

    >>> rg.lt(rg.tensor([1, 2]), 2)
    tensor([ True, False])
    """
    return apply2(LT, input, other)


@operator(direct=True, inplace=True, numpy=np.less_equal, aliases=("less_equal",), differentiable=False, like=lt)
def le(input: Operand, other: Operand) -> Tensor:
    """``input <= other``, elementwise; False for NaN.

    >>> rg.le(rg.tensor([1, 2]), 1)
    tensor([ True, False])
    """
    return apply2(LE, input, other)


@operator(direct=True, inplace=True, numpy=np.greater, aliases=("greater",), differentiable=False, like=lt)
def gt(input: Operand, other: Operand) -> Tensor:
    """``input > other``, elementwise; False for NaN.

    >>> rg.gt(rg.tensor([1, 2]), 1)
    tensor([False,  True])
    """
    return apply2(GT, input, other)


@operator(direct=True, inplace=True, numpy=np.greater_equal, aliases=("greater_equal",), differentiable=False, like=lt)
def ge(input: Operand, other: Operand) -> Tensor:
    """``input >= other``, elementwise; False for NaN.

    >>> rg.ge(rg.tensor([1, 2]), 2)
    tensor([False,  True])
    """
    return apply2(GE, input, other)


def _dunder(name: str, primitive: Primitive) -> Callable[[Tensor, Operand], Tensor]:
    def method(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return ask(other, name, self)  # x == None is False; x < None raises Python's TypeError

    return method


for _name, _primitive in (("eq", EQ), ("ne", NE), ("lt", LT), ("le", LE), ("gt", GT), ("ge", GE)):
    tensor_method(_dunder(_name, _primitive), f"__{_name}__")


# Predicates


def predicate(name: str, forward: object) -> Primitive:
    """Return a primitive of one input whose result is bool."""
    return elementwise(name, forward, "x", None)


ISNAN = predicate("isnan", np.isnan)
ISINF = predicate("isinf", np.isinf)
ISFINITE = predicate("isfinite", np.isfinite)
SIGNBIT = predicate("signbit", lambda x: x < 0 if x.dtype.kind in "iub" else np.signbit(x))


@operator(numpy=np.isnan, differentiable=False, dtype="tested")
def isnan(input: Tensor) -> Tensor:
    """Whether ``input`` is NaN, elementwise; for complex numbers, whether either part is.

    >>> rg.isnan(rg.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return apply1(ISNAN, input)


@operator(numpy=np.isinf, differentiable=False, dtype="tested")
def isinf(input: Tensor) -> Tensor:
    """``|input| = inf``, elementwise; for complex numbers, whether either part is infinite.

    >>> rg.isinf(rg.tensor([1.0, -float("inf")]))
    tensor([False,  True])
    """
    return apply1(ISINF, input)


@operator(numpy=np.isfinite, differentiable=False, dtype="tested")
def isfinite(input: Tensor) -> Tensor:
    """``|input| < inf``: neither infinite nor NaN, elementwise; for complex numbers, whether both parts are finite.

    >>> rg.isfinite(rg.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """
    return apply1(ISFINITE, input)


@operator(differentiable=False, real=True, dtype="tested real")
def isposinf(input: Tensor) -> Tensor:
    """``input = +inf``, elementwise.

    >>> rg.isposinf(rg.tensor([-float("inf"), float("inf")]))
    tensor([False,  True])
    """
    return apply2(EQ, input, float("inf"))


@operator(differentiable=False, real=True, dtype="tested real")
def isneginf(input: Tensor) -> Tensor:
    """``input = -inf``, elementwise.

    >>> rg.isneginf(rg.tensor([-float("inf"), float("inf")]))
    tensor([ True, False])
    """
    return apply2(EQ, input, -float("inf"))


@operator(numpy=np.signbit, differentiable=False, dtype="tested real", raises="complex")
def signbit(input: Tensor) -> Tensor:
    """``input < 0``, or ``-0.0`` or a NaN whose sign bit is set.

    >>> rg.signbit(rg.tensor([-0.0, 0.0, -1.0]))
    tensor([ True, False,  True])
    """
    return apply1(SIGNBIT, input)


# Equal or close


def _close(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    close = x == y
    if x.dtype.kind in "iub":
        x, y = x.astype("float64"), y.astype("float64")
    near = np.abs(x - y) <= atol + rtol * np.abs(y)
    close = close | (near & np.isfinite(x) & np.isfinite(y))
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


CLOSE = elementwise("isclose", _close, "x y", None, signals=True)


@operator(differentiable=False)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, elementwise, or both are the same infinity.

    Dtype: any, the same for both; the result is bool.

    Args:
        other: the value to compare with.
        rtol: the tolerance relative to ``other``, at least 0.
        atol: the absolute tolerance, at least 0.
        equal_nan: whether NaN is close to NaN.

    Raises:
        RuntimeError: the dtypes differ, or a tolerance is negative.

    >>> rg.isclose(rg.tensor([1.0, 2.0]), rg.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    x, y = operand(input).array, operand(other, "other").array
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected Tensors of the same dtype, got {x.dtype} and {y.dtype}")
    rtol, atol = _tolerance(rtol, "rtol"), _tolerance(atol, "atol")
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"rtol and atol must not be negative, got {rtol} and {atol}")
    return new_tensor(CLOSE(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _tolerance(value: float, argument: str) -> float:
    if isinstance(value, Tensor) and value._requires:
        raise TypeError(f"argument {argument!r} must be a number, not a Tensor that requires grad")
    return float(number(value, argument))


@operator(differentiable=False, like=isclose, reads_elements=True)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """``|input - other| <= atol + rtol * |other|`` everywhere, as a Python bool: ``isclose`` of all elements.

    Shape: ``input`` and ``other`` broadcast.
    Dtype: any, the same for both.

    >>> rg.allclose(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


@operator(differentiable=False, dtype="any", reads_elements=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """``input == other`` everywhere, with equal shapes, as a Python bool; False if there is a NaN.

    Shape: any; different shapes are not equal.

    >>> rg.equal(rg.tensor([1, 2]), rg.tensor([1, 2]))
    True
    """
    x, y = operand(input).array, operand(other, "other").array
    return x.shape == y.shape and bool((x == y).all())
