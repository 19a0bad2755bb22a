"""Logical and bitwise operators, which have no gradients."""

from __future__ import annotations

import numpy as np

from ...core.graph.primitive import Primitive, apply1, apply2
from ...core.tensor.tensor import Tensor, tensor_method
from ..table.elementwise_primitives import elementwise
from ..table.python_operators import python_operator
from ..table.registry import operator
from ..table.types import Operand
from .comparison import predicate


def _binary(name: str, ufunc: object) -> Primitive:
    return elementwise(name, ufunc, "x y", None, promote="same")


# Logical operators: nonzero numbers are True

LOGICAL_AND = _binary("logical_and", np.logical_and)
LOGICAL_OR = _binary("logical_or", np.logical_or)
LOGICAL_XOR = _binary("logical_xor", np.logical_xor)
LOGICAL_NOT = predicate("logical_not", np.logical_not)


@operator(direct=True, inplace=True, numpy=np.logical_and, differentiable=False, dtype="condition")
def logical_and(input: Operand, other: Operand) -> Tensor:
    """``input and other``, elementwise: both are true.

    >>> rg.logical_and(rg.tensor([True, True]), rg.tensor([True, False]))
    tensor([ True, False])
    """
    return apply2(LOGICAL_AND, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_or, differentiable=False, dtype="condition")
def logical_or(input: Operand, other: Operand) -> Tensor:
    """``input or other``, elementwise: at least one is true.

    >>> rg.logical_or(rg.tensor([True, False]), rg.tensor([False, False]))
    tensor([ True, False])
    """
    return apply2(LOGICAL_OR, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_xor, differentiable=False, dtype="condition")
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """``input xor other``, elementwise: exactly one is true.

    >>> rg.logical_xor(rg.tensor([True, True]), rg.tensor([True, False]))
    tensor([False,  True])
    """
    return apply2(LOGICAL_XOR, input, other)


@operator(direct=True, inplace=True, numpy=np.logical_not, differentiable=False, dtype="condition")
def logical_not(input: Tensor) -> Tensor:
    """``not input``, elementwise.

    >>> rg.logical_not(rg.tensor([0.0, 2.0]))
    tensor([ True, False])
    """
    return apply1(LOGICAL_NOT, input)


# Bits of integers and bools

BITWISE_AND = _binary("bitwise_and", np.bitwise_and)
BITWISE_OR = _binary("bitwise_or", np.bitwise_or)
BITWISE_XOR = _binary("bitwise_xor", np.bitwise_xor)
BITWISE_NOT = predicate("bitwise_not", np.invert)
LEFT_SHIFT = _binary("bitwise_left_shift", np.left_shift)
RIGHT_SHIFT = _binary("bitwise_right_shift", np.right_shift)


@operator(direct=True, inplace=BITWISE_AND, numpy=np.bitwise_and, differentiable=False, dtype="promoted integer")
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """``input and other``, bit by bit.

    Raises:
        NotImplementedError: the numbers are not integers or bools.

    >>> rg.bitwise_and(rg.tensor([6, 5]), 3)
    tensor([2, 1])
    """
    return apply2(BITWISE_AND, input, other)


@operator(direct=True, inplace=BITWISE_OR, numpy=np.bitwise_or, differentiable=False, like=bitwise_and)
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """``input or other``, bit by bit.

    >>> rg.bitwise_or(rg.tensor([6, 5]), 3)
    tensor([7, 7])
    """
    return apply2(BITWISE_OR, input, other)


@operator(direct=True, inplace=BITWISE_XOR, numpy=np.bitwise_xor, differentiable=False, like=bitwise_and)
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """``input xor other``, bit by bit.

    >>> rg.bitwise_xor(rg.tensor([6, 5]), 3)
    tensor([5, 6])
    """
    return apply2(BITWISE_XOR, input, other)


@operator(direct=True, inplace=BITWISE_NOT, numpy=np.invert, differentiable=False, shape="same", like=bitwise_and)
def bitwise_not(input: Tensor) -> Tensor:
    """``not input``, bit by bit.

    Dtype: integers and bools; the result has the input's dtype.

    >>> rg.bitwise_not(rg.tensor([True, False]))
    tensor([False,  True])
    """
    return apply1(BITWISE_NOT, input)


@operator(direct=True, inplace=LEFT_SHIFT, numpy=np.left_shift, differentiable=False, like=bitwise_and)
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """``input * 2^other``, elementwise: the bits shifted to the left.

    Dtype: integers; PyTorch's result type of both.

    Args:
        input: the integers to shift.
        other: the number of bits to shift by.

    Raises:
        NotImplementedError: the numbers are not integers.

    >>> rg.bitwise_left_shift(rg.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    return apply2(LEFT_SHIFT, input, other)


@operator(direct=True, inplace=RIGHT_SHIFT, numpy=np.right_shift, differentiable=False, like=bitwise_left_shift)
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """``floor(input / 2^other)``, elementwise: the bits shifted to the right.

    >>> rg.bitwise_right_shift(rg.tensor([4, 13]), 2)
    tensor([1, 3])
    """
    return apply2(RIGHT_SHIFT, input, other)


def _inverted(self: Tensor) -> Tensor:
    """``~self``: ``bitwise_not``, which raises TypeError for other dtypes, as in PyTorch."""
    try:
        return apply1(BITWISE_NOT, self)
    except NotImplementedError as error:
        raise TypeError(str(error)) from None


for _name, _primitive in (
    ("and", BITWISE_AND),
    ("or", BITWISE_OR),
    ("xor", BITWISE_XOR),
    ("lshift", LEFT_SHIFT),
    ("rshift", RIGHT_SHIFT),
):
    python_operator(_name, _primitive, __name__)
tensor_method(_inverted, "__invert__")
