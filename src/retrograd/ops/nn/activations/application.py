"""How the activations that take ``inplace``, as PyTorch's do, are applied."""

from __future__ import annotations

from ....core.mutation import apply_inplace
from ....core.primitive import Primitive, apply, apply1
from ....core.tensor import Tensor
from ...table.arguments import floating_operand
from ...table.types import Number, Operand


def activate(primitive: Primitive, input: Operand, inplace: bool, **params: Number) -> Tensor:
    """The primitive of a floating input: a new Tensor, or written over the input."""
    x = floating_operand(input)
    if inplace:
        return apply_inplace(primitive, x, **params)
    return apply(primitive, (x,), params) if params else apply1(primitive, x)
