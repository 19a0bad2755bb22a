"""Apply activation functions with the argument ``inplace``."""

from __future__ import annotations

from ....core.arrays.dtypes import float32
from ....core.arrays.python_numbers import converted
from ....core.graph.primitive import Primitive, apply, apply1
from ....core.tensor.mutation import REPLACE, apply_inplace, past_hooks
from ....core.tensor.tensor import Tensor
from ...table.arguments import floating_operand
from ...table.types import Number, Operand


def activate(primitive: Primitive, input: Operand, inplace: bool, **params: Number) -> Tensor:
    """Apply an activation primitive to a floating input, out of place or in place.

    For float16, numeric parameters are float32, in which the function is computed, and must be in its range.
    """
    x = floating_operand(input)
    if params:
        dtype = x.array.dtype
        for name, value in params.items():
            if isinstance(value, complex) or not -3e38 < value < 3e38:
                params[name] = converted(value, float32 if dtype.itemsize == 2 else dtype)
        if dtype.char == "e":
            y = apply(primitive, ((past_hooks(x) if inplace else x).astype(float32),), params).astype(dtype)
            return apply_inplace(REPLACE, x, y) if inplace else y
    if inplace:
        return apply_inplace(primitive, x, **params)
    return apply(primitive, (x,), params) if params else apply1(primitive, x)
