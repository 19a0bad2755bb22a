"""Python's binary operators on Tensors, which leave what they do not know to the other operand.

``NotImplemented`` for an object of another library (``tensor + dataarray``) lets Python try that object's own
``__radd__``; where it has none, Python raises the TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply2, is_operand
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor
from .types import Operand

Method = TypeVar("Method", bound=Callable[..., Tensor])


def left_to(other: object, name: str, x: Tensor) -> Any:
    """``NotImplemented``, which leaves the operator to the other operand; a list or a tuple of numbers has none.

    Raises:
        TypeError: the other operand is a list or a tuple. An integer of one element repeats it, as in PyTorch.
    """
    repeats = "mul" in name and x.array.size == 1 and x.array.dtype.kind in "biu"
    if type(other) not in (list, tuple) or repeats:
        return NotImplemented
    kind = type(other).__name__
    raise TypeError(
        f"{name} of {describe(x)} and a {kind}: a {kind} is no operand of a Tensor; make it one first, "
        f"retrograd.tensor({describe(other)}), or call NumPy's function, which takes lists"
    )


def python_operator(name: str, primitive: Primitive) -> None:
    """Give Tensor a binary operator with its reflected and in-place forms."""

    # Small operators are called through these; a try costs nothing where nothing is raised.
    def method(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self)

    def reflected(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, other, self)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self)

    def in_place(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply_inplace(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self)

    setattr(Tensor, f"__{name}__", method)
    setattr(Tensor, f"__r{name}__", reflected)
    setattr(Tensor, f"__i{name}__", in_place)


def deferring(method: Method) -> Method:
    """The method of a binary operator, which returns NotImplemented for an operand of another library."""

    @wraps(method)
    def deferred(self: Tensor, other: Operand) -> Tensor:
        try:
            return method(self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, method.__name__.strip("_").removesuffix("_operator"), self)

    return deferred  # type: ignore[return-value]
