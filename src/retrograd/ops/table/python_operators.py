"""Python's binary operators on Tensors, which leave what they do not know to the other operand.

``NotImplemented`` for an object of another library (``tensor + dataarray``) lets Python try that object's own
``__radd__``; where it has none, Python raises the TypeError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply2, is_operand
from ...core.tensor import Tensor
from .types import Operand

Method = TypeVar("Method", bound=Callable[..., Tensor])


def python_operator(name: str, primitive: Primitive) -> None:
    """Give Tensor a binary operator with its reflected and in-place forms."""

    # Small operators are called through these; a try costs nothing where nothing is raised.
    def method(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return NotImplemented

    def reflected(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, other, self)
        except TypeError:
            if is_operand(other):
                raise
            return NotImplemented

    def in_place(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply_inplace(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return NotImplemented

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
            return NotImplemented

    return deferred  # type: ignore[return-value]
