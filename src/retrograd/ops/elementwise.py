"""Elementwise arithmetic and functions: the result at a place depends on the inputs at that place alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.mutation import apply_inplace
from ..core.primitive import Primitive, Rule, apply1, apply2
from ..core.tensor import Tensor
from .registry import operator


def unary(name: str, forward: Any, vjp: Rule | None, *, promote: str = "float", signals: bool = False) -> Primitive:
    """A primitive of one input that works element by element."""
    return Primitive(
        name, forward, "x", None if vjp is None else [vjp], promote=promote, elementwise=True, signals=signals
    )


def binary(name: str, forward: Any, vjp_x: Rule | None, vjp_y: Rule | None, **options: Any) -> Primitive:
    """A primitive of two inputs that works element by element, with broadcasting."""
    options.setdefault("promote", "same")
    return Primitive(name, forward, "x y", [vjp_x, vjp_y], elementwise=True, **options)


# Arithmetic

ADD = binary("add", np.add, lambda g: g, lambda g: g)
SUB = binary("sub", np.subtract, lambda g: g, lambda g: -g)
MUL = binary("mul", np.multiply, lambda g, y: g * y, lambda g, x: g * x)
DIV = binary(
    "div", np.true_divide, lambda g, y: g / y, lambda g, ans, y: -g * ans / y, promote="float", signals=True
)
NEG = unary("neg", np.negative, lambda g: -g, promote="same")


@operator(numpy=np.add)
def add(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input + alpha * other``, elementwise with broadcasting, in PyTorch's result type.

    Args:
        input: a Tensor or number.
        other: a Tensor or number that broadcasts with it.
        alpha: a factor for ``other``.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> import retrograd as rg
    >>> rg.add(rg.tensor([1.0, 2.0]), 10)
    tensor([11., 12.])
    """
    if alpha != 1:
        other = apply2(MUL, other, alpha) if isinstance(other, Tensor) else other * alpha
    return apply2(ADD, input, other)


def _add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """In-place form of ``add``."""
    if alpha != 1:
        other = apply2(MUL, other, alpha) if isinstance(other, Tensor) else other * alpha
    return apply_inplace(ADD, self, other)


@operator(inplace=MUL, numpy=np.multiply, aliases=("multiply",))
def mul(input: Tensor, other: Any) -> Tensor:
    """``input * other``, elementwise with broadcasting, in PyTorch's result type.

    >>> import retrograd as rg
    >>> rg.mul(rg.tensor([1.0, 2.0]), 10)
    tensor([10., 20.])
    """
    return apply2(MUL, input, other)


# Powers, exponentials and logarithms

EXP = unary("exp", np.exp, lambda g, ans: g * ans, signals=True)


@operator(inplace=EXP, numpy=np.exp)
def exp(input: Tensor) -> Tensor:
    """The exponential e^x, elementwise; integers become the default floating dtype.

    >>> import retrograd as rg
    >>> rg.exp(rg.tensor([0.0, 1.0]))
    tensor([1.    , 2.7183])
    """
    return apply1(EXP, input)


# The operators of Python


def _method(primitive: Primitive) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return apply2(primitive, self, other)

    return method


def _reflected(primitive: Primitive) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return apply2(primitive, other, self)

    return method


def _inplace(primitive: Primitive) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return apply_inplace(primitive, self, other)

    return method


for _name, _primitive in (("add", ADD), ("sub", SUB), ("mul", MUL), ("truediv", DIV)):
    setattr(Tensor, f"__{_name}__", _method(_primitive))
    setattr(Tensor, f"__r{_name}__", _reflected(_primitive))
    setattr(Tensor, f"__i{_name}__", _inplace(_primitive))
Tensor.__neg__ = lambda self: apply1(NEG, self)  # type: ignore[attr-defined]
